#include "engine/backend/cuda/collectives/device_part.h"

namespace mtf::cuda {

DevicePart::DevicePart(const PartContext& context)
    : collective_(context.collective),
      input_(context.input),
      result_(context.result),
      guard_(context.guard),
      device_(context.device),
      blocks_(context.scratch),
      size_(context.group.size()),
      rank_(context.group.rank) {}

int64_t DevicePart::reserve(int64_t bytes) {
  constexpr int64_t kAlignment = 256;
  const int64_t place = scratch_bytes_;
  scratch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

std::unique_ptr<DevicePart> prepare_device_part(const PartContext& context) {
  const Collective::Kind kind = context.collective.kind;
  const bool sums = kind == Collective::Kind::kAllReduce || kind == Collective::Kind::kReduceScatter;
  return sums ? prepare_sum_part(context) : prepare_move_part(context);
}

}  // namespace mtf::cuda
