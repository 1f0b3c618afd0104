#include "engine/backend/cuda/attention/attention_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace mtf::cuda {
namespace {

using AttentionAxes = StridedAxes<AttentionView::kOperands>;

std::shared_ptr<std::byte> upload(Device& device, const std::vector<int32_t>& values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
  std::shared_ptr<std::byte> memory(device.allocate(bytes),
                                    [&device](std::byte* data) { device.free(data); });
  const std::unique_ptr<PinnedMemory> staged = device.allocate_pinned(bytes);
  std::memcpy(staged->data(), values.data(), static_cast<size_t>(bytes));
  device.copy(device.compute(), memory.get(), staged->data(), bytes);
  device.wait(device.compute());
  return memory;
}

/// Converts a size or an id to int.
int as_int(int64_t value) {
  MTF_CHECK(value <= std::numeric_limits<int>::max(), "attention over {} entries", value);
  return static_cast<int>(value);
}

/// True if the heads can be rows of one group: they are equally spaced in every operand and share bias, noise
/// and the ids of the memory.
bool can_be_folded(const AttentionAxes& heads) {
  constexpr int kShared[] = {AttentionView::kBiasTable, AttentionView::kNoise, AttentionView::kMemorySegment,
                             AttentionView::kMemoryPriority, AttentionView::kMemoryPosition};
  return heads.size() == 1 &&
         std::ranges::all_of(kShared, [&](int shared) { return heads[0].strides[shared] == 0; });
}

/// The number of consecutive groups that have the same ids.
int64_t sharing_of(const AttentionAxes& groups) {
  constexpr int kIds[] = {AttentionView::kQuerySegment,  AttentionView::kMemorySegment,
                          AttentionView::kQueryPriority, AttentionView::kMemoryPriority,
                          AttentionView::kQueryPosition, AttentionView::kMemoryPosition};
  int64_t sharing = 1;
  for (auto axis = groups.rbegin(); axis != groups.rend(); ++axis) {
    if (std::ranges::any_of(kIds, [&](int ids) { return axis->strides[ids] != 0; })) break;
    sharing *= axis->size;
  }
  return sharing;
}

}  // namespace

AttentionPlan::AttentionPlan(const KernelContext& context, Device& device) : geometry_(context) {
  const auto& operation = static_cast<const AttentionOperation&>(context.operation);
  const AttentionOptions& options = operation.options;
  for (int i = 0; i < AttentionView::kOperands; ++i) {
    const bool exists = geometry_.inputs[i] >= 0 || geometry_.outputs[i] >= 0;
    view_.operands |= uint32_t{exists} << i;
  }
  view_.memory = as_int(geometry_.memory);
  view_.key = as_int(geometry_.key);
  view_.value = as_int(geometry_.value);
  view_.key_stride = geometry_.key_stride;
  view_.value_stride = geometry_.value_stride;
  std::ranges::copy(geometry_.length_strides, view_.length_strides);

  AttentionAxes heads = joined(geometry_.head_axes);
  int64_t folded = 1;
  if (can_be_folded(heads)) {
    folded = heads[0].size;
    std::ranges::copy(heads[0].strides, view_.fold_strides);
    heads.clear();
  }
  view_.rows = as_int(geometry_.queries * folded);
  view_.fold = as_int(folded);
  view_.heads = as_int(size_of(heads));
  AttentionAxes groups = geometry_.entry_axes;
  groups.insert(groups.end(), heads.begin(), heads.end());
  view_.groups = Strided<AttentionView::kOperands>(groups);
  view_.sharing = as_int(sharing_of(groups));

  const int64_t pack = kPackBytes / static_cast<int64_t>(size_of(context.inputs[0].dtype));
  view_.aligned = view_.key_stride % pack == 0 && view_.value_stride % pack == 0;
  for (int operand : std::initializer_list<int>{AttentionView::kQ, AttentionView::kK, AttentionView::kV,
                                                AttentionView::kResult}) {
    view_.aligned &= view_.length_strides[operand] % pack == 0 && view_.fold_strides[operand] % pack == 0;
    for (const auto& axis : groups) view_.aligned &= axis.size == 1 || axis.strides[operand] % pack == 0;
  }

  view_.by_segment = view_.has(AttentionView::kMemorySegment);
  view_.by_priority = operation.has_priorities();
  view_.by_lower = options.min_relative.has_value();
  view_.by_upper = options.max_relative.has_value();
  const auto relative = [](const std::optional<int64_t>& value) {
    return static_cast<int>(std::clamp<int64_t>(value.value_or(0), std::numeric_limits<int>::min(),
                                                std::numeric_limits<int>::max()));
  };
  view_.min_relative = relative(options.min_relative);
  view_.max_relative = relative(options.max_relative);
  view_.extra_logit = options.extra_logit.value_or(-std::numeric_limits<double>::infinity());
  if (options.soft_cap) {
    view_.soft_cap = *options.soft_cap;
    view_.share_of_cap = 1 / *options.soft_cap;
  }
  if (!geometry_.buckets.empty()) {
    view_.bucket_count = as_int(geometry_.bucket_count);
    view_.farthest = as_int(geometry_.max_distance);
    buckets_ = upload(device, geometry_.buckets);
    view_.buckets = reinterpret_cast<const int32_t*>(buckets_.get());
  }
}

AttentionView AttentionPlan::view(const KernelCall& call) const {
  AttentionView view = view_;
  for (int i = 0; i < AttentionView::kOperands; ++i) {
    if (geometry_.inputs[i] >= 0) view.data[i] = call.inputs[geometry_.inputs[i]].data;
    if (geometry_.outputs[i] >= 0) view.data[i] = call.outputs[geometry_.outputs[i]].data;
  }
  view.first_query = as_int(geometry_.first_query(call));
  return view;
}

}  // namespace mtf::cuda
