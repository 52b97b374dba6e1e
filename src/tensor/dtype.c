/* dtype.c -- the table of element types: name, kind, width. */
#include "vernier/tensor.h"

#include <string.h>

typedef struct dtype_row {
    const char *name;
    vn_kind_t kind;
    int bits;
} dtype_row_t;

static const dtype_row_t rows[VN_DTYPE_COUNT] = {
    [VN_UNDEFINED] = {"undefined", VN_KIND_NONE, 0},
    [VN_F32] = {"f32", VN_KIND_FLOAT, 32},
    [VN_U8] = {"u8", VN_KIND_UNSIGNED, 8},
    [VN_I8] = {"i8", VN_KIND_SIGNED, 8},
    [VN_U16] = {"u16", VN_KIND_UNSIGNED, 16},
    [VN_I16] = {"i16", VN_KIND_SIGNED, 16},
    [VN_I32] = {"i32", VN_KIND_SIGNED, 32},
    [VN_I64] = {"i64", VN_KIND_SIGNED, 64},
    [VN_STRING] = {"string", VN_KIND_STRING, 0},
    [VN_BOOL] = {"bool", VN_KIND_BOOL, 8},
    [VN_F16] = {"f16", VN_KIND_FLOAT, 16},
    [VN_F64] = {"f64", VN_KIND_FLOAT, 64},
    [VN_U32] = {"u32", VN_KIND_UNSIGNED, 32},
    [VN_U64] = {"u64", VN_KIND_UNSIGNED, 64},
    [VN_C64] = {"c64", VN_KIND_COMPLEX, 64},
    [VN_C128] = {"c128", VN_KIND_COMPLEX, 128},
    [VN_BF16] = {"bf16", VN_KIND_FLOAT, 16},
    [VN_F8E4M3FN] = {"f8e4m3fn", VN_KIND_FLOAT, 8},
    [VN_F8E4M3FNUZ] = {"f8e4m3fnuz", VN_KIND_FLOAT, 8},
    [VN_F8E5M2] = {"f8e5m2", VN_KIND_FLOAT, 8},
    [VN_F8E5M2FNUZ] = {"f8e5m2fnuz", VN_KIND_FLOAT, 8},
    [VN_U4] = {"u4", VN_KIND_UNSIGNED, 4},
    [VN_I4] = {"i4", VN_KIND_SIGNED, 4},
    [VN_F4E2M1] = {"f4e2m1", VN_KIND_FLOAT, 4},
    [VN_F8E8M0] = {"f8e8m0", VN_KIND_FLOAT, 8},
    [VN_U2] = {"u2", VN_KIND_UNSIGNED, 2},
    [VN_I2] = {"i2", VN_KIND_SIGNED, 2},
};

static const dtype_row_t *row_of(vn_dtype_t t) { return &rows[(unsigned)t < VN_DTYPE_COUNT ? t : VN_UNDEFINED]; }

const char *vn_dtype_name(vn_dtype_t t) { return row_of(t)->name; }
vn_kind_t vn_dtype_kind(vn_dtype_t t) { return row_of(t)->kind; }
int vn_dtype_bits(vn_dtype_t t) { return row_of(t)->bits; }
bool vn_dtype_is_float(vn_dtype_t t) { return row_of(t)->kind == VN_KIND_FLOAT; }
bool vn_dtype_is_int(vn_dtype_t t) { return row_of(t)->kind == VN_KIND_SIGNED || row_of(t)->kind == VN_KIND_UNSIGNED; }

vn_dtype_t vn_dtype_from_name(const char *name) {
    for (int t = 1; name && t < VN_DTYPE_COUNT; ++t)
        if (strcmp(name, rows[t].name) == 0) return (vn_dtype_t)t;
    return VN_UNDEFINED;
}

bool vn_dtype_storage(vn_dtype_t t, int64_t n, size_t *bytes) {
    const int bits = row_of(t)->bits;
    size_t total;
    *bytes = 0;
    if (n < 0 || row_of(t)->kind == VN_KIND_NONE) return false;
    if (t == VN_STRING) {
        if (!vn_size_mul((size_t)n, sizeof(vn_string_t), &total)) return false;
    } else if (bits >= 8) {
        if (!vn_size_mul((size_t)n, (size_t)bits / 8, &total)) return false;
    } else {
        const size_t per_byte = 8 / (size_t)bits;
        total = (size_t)n / per_byte + ((size_t)n % per_byte != 0);
    }
    if (total > PTRDIFF_MAX) return false;
    *bytes = total;
    return true;
}
