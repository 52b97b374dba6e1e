/* names.c -- the list of families. */
#include "judge/names.h"

const vn_name_family_t vn_name_families[] = {
    {"attributes", vn_name_attributes},
    {NULL, NULL},
};
