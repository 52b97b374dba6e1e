/* tables.c -- all operators of this worker. */
#include <string.h>

#include "mutant.h"

static const op_table_t *const tables[] = {&contraction_ops,   &convolution_ops, &unary_ops,    &elementwise_ops, &reduction_ops,
                                           &normalisation_ops, &pooling_ops,     &movement_ops, &index_ops,       &attention_ops,
                                           &quantise_ops,      &integer_ops,     &resample_ops, &recurrent_ops,   &scan_ops,
                                           &scatter_ops,       &order_ops,       &einsum_ops,   &statistics_ops,  &rearrange_ops};

const op_row_t *mutant_op(int i) {
    for (size_t t = 0; i >= 0 && t < sizeof tables / sizeof *tables; i -= tables[t]->count, ++t)
        if (i < tables[t]->count) return &tables[t]->rows[i];
    return NULL;
}

const op_row_t *mutant_find(const char *domain, const char *name) {
    if (domain[0]) return NULL;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; ++t)
        for (int i = 0; i < tables[t]->count; ++i)
            if (strcmp(tables[t]->rows[i].name, name) == 0) return &tables[t]->rows[i];
    return NULL;
}
