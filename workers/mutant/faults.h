/* faults.h -- the table of injectable faults: one row an id of the causes, the operators that can show it, how it is made. */
#ifndef VN_MUTANT_FAULTS_H
#define VN_MUTANT_FAULTS_H

#include "vernier/base.h"

typedef enum fault_kind {
    FAULT_ARITHMETIC, /* an option of the arithmetic, or a step of it, that the contract does not give */
    FAULT_SEMANTIC,   /* another rule */
    FAULT_DATA,       /* wrong elements, addresses, coverage, made inside the operator */
    FAULT_STRUCTURAL, /* the same, made on its finished result: any operator */
    FAULT_INTEGER     /* integer arithmetic */
} fault_kind_t;

typedef enum fault_id {
    F_OPTION, /* the row's option is all there is to it */
    F_TRUNCATED_STORE,
    F_INTERMEDIATE_OVERFLOW,
    F_LSE_ROUNDED,
    F_TAIL_CANCELLATION,
    F_EXPM1_MISSING,
    F_DOUBLE_ROUNDING,
    F_LOW_ORDER_FIT,
    F_FAST_EXP,
    F_COEFFICIENTS_F16,
    F_FUNCTION_F16,
    F_BN_FOLD,
    F_GELU_TANH,
    F_GELU_ERF,
    F_EPS,
    F_EPS_OUTSIDE,
    F_HALF_AWAY,
    F_HALF_UP,
    F_ARGMAX_LAST,
    F_TIE_ORDER,
    F_NAN_IGNORED,
    F_CAUSAL_CORNER,
    F_CAUSAL_OFF_BY_ONE,
    F_SCALE_MISSING,
    F_SOFTCAP_MISSING,
    F_WINDOW_OFF_BY_ONE,
    F_MASK_IGNORED,
    F_MASK_FINITE,
    F_COORDINATE_MODE,
    F_COUNT_INCLUDE_PAD,
    F_CEIL_DIVISOR,
    F_BORDER_CLAMPS,
    F_AXIS,
    F_ATTRIBUTE_IGNORED,
    F_INTERLEAVE,
    F_POSITION_OFFSET,
    F_TIME_REVERSED,
    F_NEGATIVE_INDEX,
    F_CLIP_ORDER,
    F_PADS_SWAPPED,
    F_OPERAND_TRANSPOSED,
    F_K_TAIL,
    F_TERM_DROPPED,
    F_DUPLICATES,
    F_BORDER_TAPS,
    F_PADDING_LEAKS,
    F_ALPHA_TWICE,
    F_BIAS_MISSING,
    F_BIAS_TWICE,
    F_BIAS_SCALE,
    F_BROADCAST_AXIS,
    F_GROUP_INDEX,
    F_CHANNEL_SCALE,
    F_HEAD_INDEX,
    F_CHUNK_OFFSET,
    F_BLOCK_MERGE,
    F_SATURATE_I16,
    F_WRAP_I16,
    F_SATURATE_I8,
    F_CLAMP_U8,
    F_ZERO_POINT_SIGN,
    F_SIGN_EXTENSION,
    F_ZERO_POINT_PAD,
    F_NIBBLE_ORDER,
    F_PERMUTED,
    F_TRANSPOSED,
    F_TAIL_UNWRITTEN,
    F_LANE_UNWRITTEN,
    F_ROW_WRONG,
    F_STALE,
    F_ZEROS,
    F_CONSTANT_RATIO,
    F_SIGN_FLIPPED,
    F_SIGN_LOST,
    F_NAN_PRODUCED,
    F_INF_PRODUCED,
    F_RACE,
    F_ORDER_CHANGES
} fault_id_t;

typedef struct fault_row {
    const char *name; /* id of docs/causes.md, without a value */
    fault_kind_t kind;
    fault_id_t id;
    const char *operators; /* blank-separated; "*": all */
    const char *value;     /* what may follow the colon, in words; NULL: nothing */
    const char *option;    /* of the arithmetic, or NULL */
    const char *words;     /* what is done */
} fault_row_t;

/** The fault in force. */
typedef struct fault {
    const fault_row_t *row;
    char value[48]; /* after the colon, "" if none */
} fault_t;

/** Row i; NULL past the last. Rows of one name stand together: the first whose operators fit is meant. */
const fault_row_t *fault_row(int i);
const char *fault_kind_name(fault_kind_t k);
/** The operator is among the row's. */
bool fault_fits(const fault_row_t *row, const char *operator);
/** Reads ID[:VALUE]. Errors: USAGE lists the ids, or says that the id takes no value, or needs one of its kind. */
vn_status_t fault_parse(const char *text, fault_t *out, vn_error_t *err);
/** The same fault as the operator shows it: another row of that name if need be; row NULL: none. */
fault_t fault_for(const fault_t *f, const char *operator);

#endif
