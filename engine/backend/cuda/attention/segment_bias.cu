#include "engine/backend/cuda/attention/segment_bias.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"

namespace mtf::cuda {
namespace {

/// Finite: a tile of logits may hold none that a query sees, and its largest is subtracted from all of them.
constexpr float kHiddenBias = -1e30f;

constexpr int kBiasEntries = kPack<BFloat16>;
static_assert(kBiasEntries == LibraryAttentionProblem::kBiasPack);

/// Writes packs of entries.
struct SegmentBias {
  const int32_t* segments;
  BFloat16* bias;
  int64_t stride, packs;
  int length;
  Divisor in_row, queries;  ///< packs of a query's row, queries of a batch

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < packs; i += block.stride()) {
      const auto [row, pack] = in_row(i);
      const auto [batch, query] = queries(row);
      const int32_t* own = segments + batch * stride;
      const int32_t segment = own[query];
      const int first = static_cast<int>(pack) * kBiasEntries;
      Pack<BFloat16, kBiasEntries> values;
      for (int n = 0; n < kBiasEntries; ++n) {
        const bool sees = first + n < length && own[first + n] == segment;
        values[n] = narrow<BFloat16>(sees ? 0.0f : kHiddenBias);
      }
      store(bias + i * kBiasEntries, values);
    }
  }
};

}  // namespace

void write_segment_bias(const Launcher& launch, const int32_t* segments, int64_t stride, int64_t batch,
                        int64_t length, BFloat16* bias) {
  const int64_t in_row = bias_row(length) / kBiasEntries, rows = batch * length, packs = rows * in_row;
  launch(over(packs, 1), SegmentBias{segments, bias, stride, packs, static_cast<int>(length),
                                     Divisor(in_row, packs), Divisor(length, rows)});
}

}  // namespace mtf::cuda
