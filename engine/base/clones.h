// MTF_CLONES before a function with a hot loop compiles it for AVX-512, AVX2 and plain x86-64; the loader
// picks the best version for the machine. Functions that the loop calls must be inlined into it (MTF_INLINE):
// a function that is called would be compiled for plain x86-64 only.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MTF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MTF_CLONES
#endif

#define MTF_INLINE [[gnu::always_inline]] static inline
