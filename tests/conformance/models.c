/* models.c -- models of the conformance suite. */
typedef int vn_models_empty_t;
