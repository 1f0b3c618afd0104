// MTF_CLONES before a hot loop: the function is compiled for AVX-512, AVX2 and plain x86-64, and the loader
// picks the best that the machine has. Whatever the loop calls must be inlined into it (MTF_INLINE), so keep
// it free of calls.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MTF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MTF_CLONES
#endif

#define MTF_INLINE [[gnu::always_inline]] static inline
