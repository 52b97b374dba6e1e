/* codes.h -- rounding and range of quantised codes. */
#ifndef VN_MUTANT_CODES_H
#define VN_MUTANT_CODES_H

#include "mutant.h"

/** To an integer: ties to even, unless the fault says otherwise. */
double round_code(const call_t *c, double x);
/** Smallest and largest code of an integer type. */
void code_range(const call_t *c, vn_dtype_t t, double *least, double *most);

#endif
