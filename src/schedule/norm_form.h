/* norm_form.h -- what a norm makes of its sum: the forms that are known, each carried out in f32 step by step. */
#ifndef VN_SCHEDULE_NORM_FORM_H
#define VN_SCHEDULE_NORM_FORM_H

#include <stdbool.h>
#include <stddef.h>

/** Numbers of one form; each below the count that norm_form.c gives. */
typedef struct vn_norm_form {
    int variance; /* of the sum: S/n + eps; S*(1/n) + eps; fma(S, 1/n, eps) */
    int root;     /* 1/sqrt(v): two roundings; rounded once from f64 */
    int scale;    /* (d*r)*w; d*(r*w); (d/sqrt(v))*w; (d*w)*r; (d*w)/sqrt(v) */
    bool fused;   /* the bias is added by a fused multiply-add */
} vn_norm_form_t;

enum { VN_NORM_FORMS = 60 };
/** Form number k of all; without a bias those that fuse it are left out (false). */
bool vn_norm_form_of(int k, bool bias, vn_norm_form_t *out);
void vn_norm_form_text(vn_norm_form_t f, bool bias, char *out, size_t size);

/** What the outputs of one row share. */
typedef struct vn_norm_row {
    float root, inverse;
} vn_norm_row_t;
/** less: the square of the mean, which a one-pass variance takes off the mean square; 0 elsewhere. */
vn_norm_row_t vn_norm_row_of(vn_norm_form_t f, float sum, int n, float epsilon, float less);
float vn_norm_output(vn_norm_form_t f, vn_norm_row_t r, float d, float w, float b, bool bias);

#endif
