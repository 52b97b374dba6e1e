/* clones.h -- one loop compiled for several vector widths, chosen when the library is loaded; results are the same bits. */
#ifndef VN_TENSOR_CLONES_H
#define VN_TENSOR_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(VN_SANITIZE)
#define VN_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
/* A loop written for eight doubles at a time, and its twin for four, which other processors run: VN_IS_WIDE() chooses. */
#define VN_NARROW __attribute__((target_clones("default", "avx2")))
#define VN_WIDE __attribute__((target("avx512f")))
#define VN_IS_WIDE() __builtin_cpu_supports("avx512f")
#else
#define VN_CLONES
#define VN_NARROW
#define VN_WIDE
#define VN_IS_WIDE() 0
#endif

#endif
