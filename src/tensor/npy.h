/* npy.h -- parts of the .npy format that .npz shares. */
#ifndef VN_TENSOR_NPY_H
#define VN_TENSOR_NPY_H

#include "tensor/source.h"
#include "vernier/tensor.h"

/**
 * Reads data[0, size). With `source`, which must hold the data, large aligned arrays stay in it; else all is copied. Opaque NumPy types V1
 * and V2 (how NumPy stores types it does not know) are taken as u8 and u16 where `opaque` is true.
 */
vn_status_t vn_npy_decode(const unsigned char *data, size_t size, const char *label, vn_source_t *source, bool opaque, vn_tensor_t **out,
                          vn_error_t *err);

/** Header text (padded to 64 bytes) and the dense bytes to follow. *dense holds the data: free it. Strings become fixed-width unicode. */
vn_status_t vn_npy_encode(const vn_tensor_t *t, const char *label, vn_text_t *header, vn_tensor_t **dense, size_t *bytes, vn_error_t *err);

#endif
