/* ml_table.h -- keys of an ai.onnx.ml operator in order: strings by their bytes, numbers as integers (floats by their bits). */
#ifndef VN_ORACLE_ML_TABLE_H
#define VN_ORACLE_ML_TABLE_H

#include "oracle/ml.h"

typedef struct vn_ml_key {
    vn_string_t text; /* borrowed */
    int64_t number;
    int64_t at; /* place in the list */
} vn_ml_key_t;

typedef struct vn_ml_table {
    vn_ml_key_t *keys; /* sorted by key, then by place */
    int64_t count;
    bool text, repeated;
} vn_ml_table_t;

/** Copies the list of keys. Errors: NOMEM. Ownership: vn_ml_table_free, also after a failure. */
vn_status_t vn_ml_table_new(vn_eval_t *e, const vn_ml_labels_t *list, vn_ml_table_t *out);
void vn_ml_table_free(vn_ml_table_t *t);
/** Place of a key, the first or the last where it is repeated; -1: not there. text NULL: by number. */
int64_t vn_ml_table_find(const vn_ml_table_t *t, int64_t number, const vn_string_t *text, bool last);

#endif
