// Products in bfloat16 know no denormal numbers, whatever the instructions that compute them.
#pragma once

#include <pmmintrin.h>

namespace mtf {

/// While it lives, denormal factors and results of this thread's instructions count as zero, as they always do for those of
/// AVX512-BF16.
class DenormalsAreZero {
 public:
  DenormalsAreZero() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  }
  ~DenormalsAreZero() { _mm_setcsr(before_); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
  unsigned before_;
};

}  // namespace mtf
