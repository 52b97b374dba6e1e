/* npy_text.h -- fixed-width texts of .npy. */
#ifndef VN_TENSOR_NPY_TEXT_H
#define VN_TENSOR_NPY_TEXT_H

#include "vernier/tensor.h"

/** count x width characters (UTF-32 in the given byte order, or bytes) at `data`, whose size was checked. Padding NULs are taken off. */
vn_status_t vn_npy_texts(int rank, const int64_t *dims, bool unicode, int64_t width, bool big, const unsigned char *data, const char *label,
                         vn_tensor_t **out, vn_error_t *err);
/** One u32 tensor of count x width code points. Errors: UNSUPPORTED for texts that .npy cannot hold (not UTF-8, or ending in NUL). */
vn_status_t vn_npy_from_texts(const vn_tensor_t *t, const char *label, vn_tensor_t **out, int64_t *width, vn_error_t *err);

#endif
