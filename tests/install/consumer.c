/* consumer.c -- a program outside the tree: sees the installed headers and the installed library, nothing else. */
#include <stdio.h>
#include <string.h>

#include <vernier/study.h>
#include <vernier/tensor.h>
#include <vernier/worker.h>

int main(void) {
    const int64_t dims[] = {2, 3};
    vn_tensor_t *t = NULL;
    vn_error_t err = {0};
    if (vn_tensor_new(VN_BF16, 2, dims, &t, &err) != VN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    vn_tensor_set_f64(t, 5, 0x1.01p0); /* halfway between two bf16 numbers: to even */
    const double got = vn_tensor_get_f64(t, 5);
    char text[64];
    vn_tensor_describe(t, text, sizeof text);
    vn_tensor_free(t);

    /* Reaches the topmost room, and through it all the others. */
    vn_record_t *record = NULL;
    const vn_check_options_t options = {.model_path = "no-such-model.onnx"};
    const vn_status_t status = vn_check(&options, &record, &err);
    printf("vernier %s: %s, %g, %s\n", vn_version(), text, got, vn_status_name(status));
    return got == 1.0 && strcmp(text, "bf16[2,3]") == 0 && status != VN_OK && record == NULL ? 0 : 1;
}
