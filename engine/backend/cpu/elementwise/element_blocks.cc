#include "engine/backend/cpu/elementwise/element_blocks.h"

#include "engine/base/clones.h"

namespace mtf {

MTF_CLONES void widen_block(const BFloat16* x, float* y, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) y[i] = widen(x[i]);
}

MTF_CLONES void narrow_block(const float* x, BFloat16* y, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) y[i] = BFloat16(x[i]);
}

}  // namespace mtf
