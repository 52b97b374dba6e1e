/* idle.c -- outputs that nobody looks at for a while leave this process's resident memory. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vernier/worker.h"

void vn_output_idle(const vn_output_t *o) {
    size_t bytes;
    if (!o->value || o->value->kind != VN_VALUE_TENSOR) return;
    const vn_tensor_t *t = o->value->tensor;
    /* Strings are unpacked into heap memory; everything else lies in a shared segment, where dropping pages loses nothing. */
    if (t->dtype == VN_STRING || !vn_dtype_storage(t->dtype, t->count, &bytes)) return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)t->data + page - 1) / page * page,
                    end = ((uintptr_t)t->data + bytes) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}
