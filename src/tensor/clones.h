/* clones.h -- one loop compiled for several vector widths, chosen when the library is loaded; results are the same bits. */
#ifndef VN_TENSOR_CLONES_H
#define VN_TENSOR_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(VN_SANITIZE)
#define VN_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define VN_CLONES
#endif

#endif
