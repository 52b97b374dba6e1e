/* vernier/report.h -- a record as text and as JSON. */
#ifndef VERNIER_REPORT_H
#define VERNIER_REPORT_H

#include "vernier/base.h"
#include "vernier/evidence.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vn_report_options {
    bool color;
    int verbose; /* -1 quiet: last line only; 0: failing rows grouped; 1: every row */
    int width;   /* columns, 100 if 0 */
    vn_policy_t policy;
} vn_report_options_t;
/** The first screen (design 9). */
VN_API vn_status_t vn_report_text(const vn_record_t *r, const vn_report_options_t *o, vn_text_t *out, vn_error_t *err);
/** "schema": "vernier-report-1" (docs/report.schema.json). Non-finite numbers are the strings inf, -inf, nan. */
VN_API vn_status_t vn_report_json(const vn_record_t *r, const vn_policy_t *p, vn_text_t *out, vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
