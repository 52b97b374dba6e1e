/* places.h -- where marked elements of a tensor stand, in words: "row 3", "columns 48-63 of every 64", "the last 5 of axis 1". */
#ifndef VN_JUDGE_PLACES_H
#define VN_JUDGE_PLACES_H

#include "vernier/tensor.h"

/** Marks of one element. */
enum {
    VN_PLACE_NOT = 0,
    VN_PLACE_MARKED = 1,
    VN_PLACE_EITHER = 2 /* belongs to the set or not, as it suits: it would look the same */
};

typedef enum vn_axis_form {
    VN_AXIS_ALL,
    VN_AXIS_ONE,
    VN_AXIS_HEAD,  /* the first `count` */
    VN_AXIS_TAIL,  /* the last `count`, from `begin` */
    VN_AXIS_RANGE, /* `count` from `begin` */
    VN_AXIS_LANES, /* `width` from `begin` of every `period`; inverse: all but these */
    VN_AXIS_SOME   /* `count`, no rule */
} vn_axis_form_t;

/** The indices of one axis (or of the flat buffer) that occur. count: marked indices, EITHER left out. */
typedef struct vn_axis_places {
    vn_axis_form_t form;
    int64_t size, begin, count, period, width;
    bool inverse;
    int64_t spare;   /* of LANES: indices that follow the period beyond those that define it */
    int64_t some[4]; /* of SOME: the first ones */
} vn_axis_places_t;

typedef enum vn_places_kind {
    VN_PLACES_NONE,
    VN_PLACES_ALL,
    VN_PLACES_ONE,      /* axes: its coordinates */
    VN_PLACES_BOX,      /* the product of axes[k] */
    VN_PLACES_REST,     /* all but the product of axes[k] */
    VN_PLACES_FLAT,     /* `flat` in memory order */
    VN_PLACES_SCATTERED /* axes: the smallest product around them */
} vn_places_kind_t;

typedef struct vn_places {
    vn_places_kind_t kind;
    int64_t total, count; /* elements; marked ones */
    int rank;
    vn_axis_places_t axes[VN_MAX_RANK], flat;
    char text[192]; /* after "in" or as a subject: "all elements", "rows 3-5", "137 scattered elements" */
} vn_places_t;

/**
 * Describes the marked elements of a tensor of these dims, row-major. The set is called a product, a range or periodic only if no element that is
 * NOT marked contradicts it.
 * Errors     NOMEM.
 */
vn_status_t vn_places_find(const uint8_t *mark, int rank, const int64_t *dims, vn_places_t *out, vn_error_t *err);

/** Exactly one axis is restricted, or every restricted one to a single index: whole slices. */
bool vn_places_slices(const vn_places_t *p);
/** Ends with the axis, or the buffer: the part that a grid too small would leave out. */
bool vn_places_tail(const vn_places_t *p);
/** Periodic along an axis or in memory order, with so many indices that chance gives it at most once in 2^10. */
bool vn_places_lanes(const vn_places_t *p);

#endif
