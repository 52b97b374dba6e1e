/* bodies.h -- the graphs that hang on a node (rooms: graph, probe). */
#ifndef VN_GRAPH_BODIES_H
#define VN_GRAPH_BODIES_H

#include "vernier/graph.h"

/** Number of graphs in an attribute (0 for every other kind), and graph k of it. */
int64_t vn_attr_graph_count(const vn_attr_t *a);
vn_graph_t *vn_attr_graph(const vn_attr_t *a, int64_t k);

#endif
