#include "engine/backend/cuda/attention/attention_plan.h"

#include <algorithm>
#include <array>
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

AttentionPlan::AttentionPlan(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const AttentionOperation&>(context.operation);
  const AttentionOptions& options = operation.options;
  std::array<const LocalTensor*, AttentionView::kOperands> operands{};
  std::fill_n(inputs_, AttentionView::kOperands, -1);
  std::fill_n(outputs_, AttentionView::kOperands, -1);
  const auto set_input = [&](int operand, int index) {
    inputs_[operand] = index;
    operands[operand] = &context.inputs[index];
  };
  const auto set_output = [&](int operand, int index) {
    outputs_[operand] = index;
    operands[operand] = &context.outputs[index];
  };
  for (int i = 0; i < AttentionOperation::kOperands; ++i) {
    if (operation.index[i] >= 0) set_input(i, operation.index[i]);
  }
  if (dynamic_cast<const AttentionGradient*>(&operation) != nullptr) {
    const int further = operation.operand_count();
    set_input(AttentionView::kResult, further);
    set_input(AttentionView::kLogSum, further + 1);
    if (operands[AttentionView::kBiasTable] != nullptr) set_output(AttentionView::kDBias, 3);
    for (int i : {AttentionView::kQ, AttentionView::kK, AttentionView::kV})
      MTF_CHECK(context.outputs[i].strides == operands[i]->strides, "gradient {} lies otherwise", i);
    for (size_t i = further + 2; i < context.inputs.size(); ++i)
      MTF_CHECK(context.inputs[i].strides == context.inputs[i - 2].strides, "gradients lie otherwise");
  } else {
    set_output(AttentionView::kResult, 0);
    set_output(AttentionView::kLogSum, 1);
  }
  for (int i = 0; i < AttentionView::kOperands; ++i) view_.operands |= uint32_t{operands[i] != nullptr} << i;

  const auto stride = [&](int operand, const std::string& dimension) -> int64_t {
    const auto axis = operands[operand] ? operands[operand]->global.find(dimension) : std::nullopt;
    return axis ? operands[operand]->strides[*axis] : 0;
  };
  const LocalTensor &q = *operands[AttentionView::kQ], &k = *operands[AttentionView::kK];
  view_.memory = as_int(k.local.dimension(options.memory_length).size);
  view_.key = as_int(q.local.dimension(options.key).size);
  view_.value = as_int(operands[AttentionView::kV]->local.dimension(options.value).size);
  view_.key_stride = stride(AttentionView::kK, options.memory_length);
  view_.value_stride = stride(AttentionView::kV, options.memory_length);
  for (int operand : {AttentionView::kMemorySegment, AttentionView::kMemoryPriority,
                      AttentionView::kMemoryPosition, AttentionView::kNoise})
    MTF_CHECK(operands[operand] == nullptr || stride(operand, options.memory_length) == 1,
              "operand {} is strided", operand);
  MTF_CHECK(stride(AttentionView::kQ, options.key) == 1 && stride(AttentionView::kK, options.key) == 1 &&
                stride(AttentionView::kV, options.value) == 1 &&
                stride(AttentionView::kResult, options.value) == 1,
            "{} is strided", options.key);

  const auto length = q.global.find(options.query_length);
  length_axis_ = length ? *length : -1;
  int64_t queries = 1;
  AttentionAxes entries, heads;
  for (int axis = 0; axis < q.global.rank(); ++axis) {
    const std::string& name = q.global[axis].name;
    if (name == options.key) continue;
    StridedAxis<AttentionView::kOperands> strided{q.local[axis].size, {}};
    for (int i = 0; i < AttentionView::kOperands; ++i) strided.strides[i] = stride(i, name);
    if (axis == length_axis_) {
      if (operation.within_sequence()) {  // all queries share one memory
        for (int i : {AttentionView::kK, AttentionView::kV, AttentionView::kMemorySegment,
                      AttentionView::kMemoryPriority, AttentionView::kMemoryPosition, AttentionView::kNoise})
          strided.strides[i] = 0;
      }
      std::ranges::copy(strided.strides, view_.length_strides);
      queries = strided.size;
    } else {
      (k.global.contains(name) ? entries : heads).push_back(strided);
    }
  }
  heads = joined(heads);
  int64_t folded = 1;
  if (can_be_folded(heads)) {
    folded = heads[0].size;
    std::ranges::copy(heads[0].strides, view_.fold_strides);
    heads.clear();
  }
  view_.rows = as_int(queries * folded);
  view_.fold = as_int(folded);
  view_.heads = as_int(size_of(heads));
  AttentionAxes groups = entries;
  groups.insert(groups.end(), heads.begin(), heads.end());
  view_.groups = Strided<AttentionView::kOperands>(groups);
  view_.sharing = as_int(sharing_of(groups));

  const int64_t pack = kPackBytes / static_cast<int64_t>(size_of(q.dtype));
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
  if (const LocalTensor* table = operands[AttentionView::kBiasTable]) {
    view_.bucket_count = as_int(table->local[table->local.rank() - 1].size);
    view_.farthest = as_int(options.max_distance);
    const RelativeBuckets bucket{options.bidirectional, view_.bucket_count, options.max_distance};
    std::vector<int32_t> buckets;
    for (int64_t position = -options.max_distance; position <= options.max_distance; ++position)
      buckets.push_back(static_cast<int32_t>(bucket(position)));
    buckets_ = upload(device, buckets);
    view_.buckets = reinterpret_cast<const int32_t*>(buckets_.get());
  }
}

AttentionView AttentionPlan::view(const KernelCall& call) const {
  AttentionView view = view_;
  for (int i = 0; i < AttentionView::kOperands; ++i) {
    if (inputs_[i] >= 0) view.data[i] = call.inputs[inputs_[i]].data;
    if (outputs_[i] >= 0) view.data[i] = call.outputs[outputs_[i]].data;
  }
  view.first_query = length_axis_ < 0 ? 0 : as_int(call.inputs[0].begin[length_axis_]);
  return view;
}

}  // namespace mtf::cuda
