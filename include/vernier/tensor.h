/* vernier/tensor.h -- element types, correctly rounded conversions, tensors and views, and the files that carry them. */
#ifndef VERNIER_TENSOR_H
#define VERNIER_TENSOR_H

#include "vernier/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VN_MAX_RANK = 16 };

/** Element types; numbers are those of ONNX TensorProto.DataType and are stored in files: never renumber. */
typedef enum vn_dtype {
    VN_UNDEFINED = 0,
    VN_F32 = 1,
    VN_U8 = 2,
    VN_I8 = 3,
    VN_U16 = 4,
    VN_I16 = 5,
    VN_I32 = 6,
    VN_I64 = 7,
    VN_STRING = 8,
    VN_BOOL = 9,
    VN_F16 = 10,
    VN_F64 = 11,
    VN_U32 = 12,
    VN_U64 = 13,
    VN_C64 = 14,
    VN_C128 = 15,
    VN_BF16 = 16,
    VN_F8E4M3FN = 17,
    VN_F8E4M3FNUZ = 18,
    VN_F8E5M2 = 19,
    VN_F8E5M2FNUZ = 20,
    VN_U4 = 21,
    VN_I4 = 22,
    VN_F4E2M1 = 23,
    VN_F8E8M0 = 24,
    VN_U2 = 25,
    VN_I2 = 26,
    VN_DTYPE_COUNT = 27
} vn_dtype_t;

typedef enum vn_kind {
    VN_KIND_NONE,
    VN_KIND_FLOAT,
    VN_KIND_SIGNED,
    VN_KIND_UNSIGNED,
    VN_KIND_BOOL,
    VN_KIND_STRING,
    VN_KIND_COMPLEX
} vn_kind_t;

/** Name as used in reports and contracts: f32, bf16, f8e4m3fn, i64, u4, bool, string, ... Never NULL ("undefined"). */
VN_API const char *vn_dtype_name(vn_dtype_t t);
VN_API vn_dtype_t vn_dtype_from_name(const char *name); /* VN_UNDEFINED if unknown */
VN_API vn_kind_t vn_dtype_kind(vn_dtype_t t);
VN_API int vn_dtype_bits(vn_dtype_t t);      /* 2, 4, 8 ... 128; 0 for string and undefined */
VN_API bool vn_dtype_is_float(vn_dtype_t t); /* real binary floating point, f64 down to f4 and e8m0 */
VN_API bool vn_dtype_is_int(vn_dtype_t t);   /* signed or unsigned, not bool */
/** Storage bytes of n elements (sub-byte types packed low bits first, rounded up; strings: sizeof(vn_string_t) each). False: overflow. */
VN_API bool vn_dtype_storage(vn_dtype_t t, int64_t n, size_t *bytes);

/* ---- binary floating-point formats and rounding ---- */

/** Formats that arithmetic may use; a superset of the float dtypes (TF32 has no dtype). */
typedef enum vn_format {
    VN_FMT_NONE = 0,
    VN_FMT_F64,
    VN_FMT_F32,
    VN_FMT_TF32,
    VN_FMT_F16,
    VN_FMT_BF16,
    VN_FMT_F8E4M3FN,
    VN_FMT_F8E4M3FNUZ,
    VN_FMT_F8E5M2,
    VN_FMT_F8E5M2FNUZ,
    VN_FMT_F4E2M1,
    VN_FMT_F8E8M0,
    VN_FMT_COUNT
} vn_format_t;

/** p: significant bits with the hidden one; emin, emax: exponents of the smallest normal and the largest finite number (value 2^e·1.x). */
typedef struct vn_format_info {
    const char *name; /* "f32", "tf32", ... */
    vn_dtype_t dtype; /* VN_UNDEFINED for tf32 */
    int p, emin, emax;
    double max; /* largest finite */
    double u;   /* unit roundoff 2^-p */
    double eta; /* smallest positive number (subnormal where there are any) */
    double tau; /* smallest normal */
    bool has_inf, has_nan, has_negative_zero;
} vn_format_info_t;
VN_API const vn_format_info_t *vn_format_info(vn_format_t f); /* NULL for NONE */
VN_API vn_format_t vn_format_of(vn_dtype_t t);                /* NONE for non-floats */
VN_API vn_format_t vn_format_from_name(const char *name);     /* NONE if unknown */

typedef enum vn_rounding { VN_RNE, VN_RNA, VN_RZ, VN_RU, VN_RD } vn_rounding_t; /* ties even, ties away, to zero, up, down */

/**
 * The member of format `f` nearest to x under `r`, as a double (every member of every format but none beyond f64 is a double).
 * Specials   NaN stays NaN; overflow: `saturate` gives +-max, else Inf where the format has one, else NaN (E4M3FN and the FNUZ types).
 *            -0 becomes +0 in FNUZ formats and e8m0. Subnormals are kept (gradual underflow).
 */
VN_API double vn_round_to(vn_format_t f, double x, vn_rounding_t r, bool saturate);
/** Distance between x and the next representable number of larger magnitude at x's binade: ulp_f(x) >= eta. x finite. */
VN_API double vn_ulp(vn_format_t f, double x);

/** Bits <-> value of one element of a float type of at most 16 bits; encoding expects a value that vn_round_to returned. */
VN_API double vn_decode_small(vn_dtype_t t, uint16_t bits);
VN_API uint16_t vn_encode_small(vn_dtype_t t, double rounded);

/* ---- tensors ---- */

typedef struct vn_string {
    char *text; /* UTF-8, NUL-terminated, may hold NULs inside */
    size_t length;
} vn_string_t;

typedef struct vn_buffer vn_buffer_t; /* shared, counted storage: heap, file map, shared memory */

/**
 * A tensor or a strided view of one.
 * Shapes     rank 0 is a scalar; any dimension may be 0; count is the product of dims. Strides are in elements and may be 0 (broadcast)
 *            or negative; sub-byte types are always contiguous.
 * Ownership  counted: every holder calls vn_tensor_free once; vn_tensor_retain adds a holder. Data is shared, not copied.
 * Threads    counts are atomic; data is read freely while nobody writes.
 */
typedef struct vn_tensor {
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
    int64_t strides[VN_MAX_RANK];
    int64_t count;
    void *data; /* first element */
    vn_buffer_t *buffer;
    int refs; /* atomic */
} vn_tensor_t;

/** New zeroed contiguous tensor, data aligned to 64. Errors: RANGE for negative or overflowing dims, rank > VN_MAX_RANK; NOMEM. */
VN_API vn_status_t vn_tensor_new(vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err);
/** Same without zeroing. */
VN_API vn_status_t vn_tensor_new_raw(vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err);
/** Wraps foreign memory of `bytes` (checked against the shape); release(ctx) is called when the last holder is gone (may be NULL). */
VN_API vn_status_t vn_tensor_wrap(vn_dtype_t t, int rank, const int64_t *dims, void *data, size_t bytes, void (*release)(void *), void *ctx,
                                  vn_tensor_t **out, vn_error_t *err);
VN_API vn_tensor_t *vn_tensor_retain(const vn_tensor_t *t);
VN_API void vn_tensor_free(vn_tensor_t *t); /* NULL is fine */

VN_API bool vn_tensor_is_contiguous(const vn_tensor_t *t);
/** The same tensor if contiguous (retained), else a contiguous copy. */
VN_API vn_status_t vn_tensor_contiguous(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err);
VN_API vn_status_t vn_tensor_copy(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err); /* fresh, contiguous, writable */
/** View with other dims over the same elements; t must be contiguous and counts equal. */
VN_API vn_status_t vn_tensor_reshape(const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err);
VN_API vn_status_t vn_tensor_permute(const vn_tensor_t *t, const int *axes, vn_tensor_t **out, vn_error_t *err);
/** View of start[k] + i*step[k], i < length[k]; bounds checked; step may be negative. Sub-byte types: a packed copy. */
VN_API vn_status_t vn_tensor_slice(const vn_tensor_t *t, const int64_t *start, const int64_t *length, const int64_t *step,
                                   vn_tensor_t **out, vn_error_t *err);
/** View broadcast to `dims` by the ONNX (NumPy) rule. */
VN_API vn_status_t vn_tensor_broadcast(const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err);
/** Result shape of broadcasting two shapes; VN_ERR_SHAPE if they do not fit. out holds VN_MAX_RANK entries. */
VN_API vn_status_t vn_broadcast_shape(int ra, const int64_t *a, int rb, const int64_t *b, int *rank, int64_t *out, vn_error_t *err);

/** Element i in row-major order, any strides. Integers and bool convert exactly up to 2^53; complex: real part. Not for strings. */
VN_API double vn_tensor_get_f64(const vn_tensor_t *t, int64_t i);
VN_API int64_t vn_tensor_get_i64(const vn_tensor_t *t, int64_t i); /* u64 by bit pattern; floats truncate toward zero, NaN 0 */
/** Stores x rounded to nearest even (floats; overflow per vn_round_to, no saturation) or the low bits (integers). Contiguous only. */
VN_API void vn_tensor_set_f64(vn_tensor_t *t, int64_t i, double x);
VN_API void vn_tensor_set_i64(vn_tensor_t *t, int64_t i, int64_t x);
/** Bulk: all elements in row-major order to doubles (n = t->count). Vectorised for f32, f16, bf16, 8-bit and integer types. */
VN_API void vn_tensor_to_f64(const vn_tensor_t *t, double *out);
/** Bulk: rounds x[0..count) into a contiguous float tensor under `r` (saturate as in vn_round_to); integer types: low bits of the truncation. */
VN_API void vn_tensor_from_f64(vn_tensor_t *t, const double *x, vn_rounding_t r, bool saturate);
/** Bulk integer access: bool, i*, u* (u64 by bit pattern). */
VN_API void vn_tensor_to_i64(const vn_tensor_t *t, int64_t *out);
/** Raw bits of element i, zero-extended (types of at most 64 bits). */
VN_API uint64_t vn_tensor_bits(const vn_tensor_t *t, int64_t i);
/** Same dtype, dims and bits of every element (strings: bytes). */
VN_API bool vn_tensor_equal_bits(const vn_tensor_t *a, const vn_tensor_t *b);
/** Strings: stores a copy of text; the tensor owns it. Threads: none concurrently. */
VN_API vn_status_t vn_tensor_set_string(vn_tensor_t *t, int64_t i, const char *text, size_t length, vn_error_t *err);
/** SHA-256 over dtype name, rank, dims (LE u64) and contiguous data (strings: length LE u64 + bytes). */
VN_API vn_status_t vn_tensor_sha256(const vn_tensor_t *t, char hex[65], vn_error_t *err);
/** "f32[1,3,48,320]" */
VN_API void vn_tensor_describe(const vn_tensor_t *t, char *out, size_t size);

/* ---- values: what flows along an edge ---- */

typedef enum vn_value_kind { VN_VALUE_ABSENT = 0, VN_VALUE_TENSOR, VN_VALUE_SEQUENCE, VN_VALUE_OPTIONAL, VN_VALUE_MAP } vn_value_kind_t;
/**
 * A tensor, a sequence of values, an optional (count 0 or 1), a map (two items: a vector of keys, i64 or string, and a vector of as many
 * values), or nothing. Counted like tensors.
 */
typedef struct vn_value {
    vn_value_kind_t kind;
    vn_tensor_t *tensor;
    struct vn_value **items;
    int64_t count;
    vn_dtype_t elem; /* sequences and optionals: element dtype, also when empty; maps: of the values */
    int refs;
} vn_value_t;
VN_API vn_value_t *vn_value_tensor(vn_tensor_t *t); /* takes over t; NULL on no memory (t is then released) */
VN_API vn_value_t *vn_value_list(vn_value_kind_t kind, vn_dtype_t elem, vn_value_t **items, int64_t count); /* retains items */
VN_API vn_value_t *vn_value_retain(const vn_value_t *v);
VN_API void vn_value_free(vn_value_t *v);

/* ---- named tensors and their files ---- */

typedef struct vn_named {
    char *name;
    vn_tensor_t *tensor;
} vn_named_t;
typedef struct vn_bundle {
    vn_named_t *items;
    int count, capacity;
} vn_bundle_t;
VN_API vn_status_t vn_bundle_add(vn_bundle_t *b, const char *name, vn_tensor_t *t, vn_error_t *err); /* copies name, retains t */
VN_API const vn_tensor_t *vn_bundle_find(const vn_bundle_t *b, const char *name);                    /* borrowed; NULL if absent */
VN_API void vn_bundle_free(vn_bundle_t *b);

/** NumPy .npy version 1-3, C or Fortran order, little- and big-endian, bool/int/uint/float/complex and fixed-width unicode/bytes. */
VN_API vn_status_t vn_npy_read(const char *path, vn_tensor_t **out, vn_error_t *err);
VN_API vn_status_t vn_npy_parse(const void *data, size_t size, const char *label, vn_tensor_t **out, vn_error_t *err);
VN_API vn_status_t vn_npy_write(const char *path, const vn_tensor_t *t, vn_error_t *err);
/**
 * NumPy .npz. Key suffixes __bf16, __f8e4m3fn, __f8e4m3fnuz, __f8e5m2, __f8e5m2fnuz, __f8e8m0 mark types that NumPy lacks (stored as
 * uint16 or uint8); __u4, __i4, __f4e2m1, __u2, __i2 mark one element per byte. The suffix is taken off the name.
 * Errors     PARSE names member and offset. A member that claims more than VN_NPZ_MAX_RATIO times its compressed size and more than
 *            64 MiB is refused before anything is inflated; so is a duplicate name.
 */
enum { VN_NPZ_MAX_RATIO = 2000 };
VN_API vn_status_t vn_npz_read(const char *path, vn_bundle_t *out, vn_error_t *err);
VN_API vn_status_t vn_npz_write(const char *path, const vn_bundle_t *b, vn_error_t *err);    /* fixed time stamps: same bytes each time */
VN_API vn_status_t vn_safetensors_read(const char *path, vn_bundle_t *out, vn_error_t *err); /* data stays mapped */
VN_API vn_status_t vn_safetensors_write(const char *path, const vn_bundle_t *b, vn_error_t *err);
/** ONNX TensorProto (.pb), one tensor, under its own name ("" if it has none); external data must lie in the file's folder. */
VN_API vn_status_t vn_tensorproto_read(const char *path, vn_bundle_t *out, vn_error_t *err);
/** By extension: .npy (name = file stem), .npz, .safetensors, .pb. */
VN_API vn_status_t vn_tensors_read(const char *path, vn_bundle_t *out, vn_error_t *err);
/**
 * One value in an ONNX .pb file: TensorProto, SequenceProto or OptionalProto. Such a file does not say which; `kind` must. elem is the
 * element type of a list that holds nothing. folder: of external data, NULL refuses it. `data` is copied where it is kept.
 * Errors     IO; PARSE names the offset; UNSUPPORTED: sparse tensors and maps inside; USAGE: kind is ABSENT. *out is NULL then.
 * Ownership  vn_value_free.
 */
VN_API vn_status_t vn_value_read(const char *path, vn_value_kind_t kind, vn_dtype_t elem, vn_value_t **out, vn_error_t *err);
VN_API vn_status_t vn_value_parse(const void *data, size_t size, const char *label, const char *folder, vn_value_kind_t kind,
                                  vn_dtype_t elem, vn_value_t **out, vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
