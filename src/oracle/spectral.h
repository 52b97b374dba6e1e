/* spectral.h -- what the files of family "spectral" share. */
#ifndef VN_ORACLE_SPECTRAL_H
#define VN_ORACLE_SPECTRAL_H

#include "oracle/fourier.h"
#include "oracle/rows.h"
#include "oracle/tracked.h"

vn_status_t vn_eval_dft(vn_eval_t *e);
vn_status_t vn_infer_dft(vn_eval_t *e);
vn_status_t vn_eval_stft(vn_eval_t *e);
vn_status_t vn_eval_window(vn_eval_t *e);
vn_status_t vn_eval_mel(vn_eval_t *e);
vn_status_t vn_infer_stft(vn_eval_t *e);
vn_status_t vn_infer_window(vn_eval_t *e);
vn_status_t vn_infer_mel(vn_eval_t *e);

#endif
