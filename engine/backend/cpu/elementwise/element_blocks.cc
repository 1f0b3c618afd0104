#include "engine/backend/cpu/elementwise/element_blocks.h"

#include "engine/base/dispatch.h"

namespace mtf {
namespace {

MTF_INLINE void widen_all(const BFloat16* x, float* y, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) y[i] = widen(x[i]);
}

MTF_INLINE void narrow_all(const float* x, BFloat16* y, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) y[i] = BFloat16(x[i]);
}

}  // namespace

void widen_block(const BFloat16* x, float* y, int64_t count) { dispatched<widen_all>(x, y, count); }
void narrow_block(const float* x, BFloat16* y, int64_t count) { dispatched<narrow_all>(x, y, count); }

}  // namespace mtf
