#include "engine/backend/attention_geometry.h"

#include <algorithm>
#include <optional>

#include "engine/base/check.h"

namespace mtf {
namespace {

bool is_gradient(const AttentionOperation& operation) {
  return dynamic_cast<const AttentionGradient*>(&operation) != nullptr;
}

}  // namespace

void AttentionGeometry::find_operands(const KernelContext& context) {
  const auto& operation = static_cast<const AttentionOperation&>(context.operation);
  inputs.fill(-1);
  outputs.fill(-1);
  std::ranges::copy(operation.index, inputs.begin());
  if (!is_gradient(operation)) {
    outputs[kResult] = 0;
    outputs[kLogSum] = 1;
    return;
  }
  const int further = operation.operand_count();
  inputs[kResult] = further;
  inputs[kLogSum] = further + 1;
  if (operation.has(kBiasTable)) outputs[kDBias] = 3;
  for (int i : {kQ, kK, kV})
    MTF_CHECK(context.outputs[i].strides == context.inputs[inputs[i]].strides, "gradient {} lies otherwise",
              i);
  for (size_t i = further + 2; i < context.inputs.size(); ++i)
    MTF_CHECK(context.inputs[i].strides == context.inputs[i - 2].strides, "gradients lie otherwise");
}

AttentionGeometry::AttentionGeometry(const KernelContext& context, bool copies_apart) {
  const auto& operation = static_cast<const AttentionOperation&>(context.operation);
  const AttentionOptions& options = operation.options;
  find_operands(context);
  std::array<const LocalTensor*, kOperands> operands{};
  for (int i = 0; i < kOperands; ++i) {
    if (inputs[i] >= 0) operands[i] = &context.inputs[inputs[i]];
    if (outputs[i] >= 0) operands[i] = &context.outputs[outputs[i]];
  }
  const auto stride = [&](int operand, const std::string& dimension) -> int64_t {
    const auto axis = operands[operand] ? operands[operand]->global.find(dimension) : std::nullopt;
    return axis ? operands[operand]->strides[*axis] : 0;
  };
  const LocalTensor &q = *operands[kQ], &k = *operands[kK];
  memory = k.local.dimension(options.memory_length).size;
  key = q.local.dimension(options.key).size;
  value = operands[kV]->local.dimension(options.value).size;
  key_stride = stride(kK, options.memory_length);
  value_stride = stride(kV, options.memory_length);
  for (int operand : {kMemorySegment, kMemoryPriority, kMemoryPosition, kNoise})
    MTF_CHECK(!operands[operand] || stride(operand, options.memory_length) == 1, "operand {} is strided",
              operand);
  MTF_CHECK(stride(kQ, options.key) == 1 && stride(kK, options.key) == 1 && stride(kV, options.value) == 1 &&
                stride(kResult, options.value) == 1,
            "{} is strided", options.key);

  if (const auto axis = q.global.find(options.query_length)) length_axis = *axis;
  copies_apart = copies_apart && operation.has(kSharedPrefix) && !is_gradient(operation);
  for (int axis = 0; axis < q.global.rank(); ++axis) {
    const std::string& name = q.global[axis].name;
    if (name == options.key) continue;
    StridedAxis<kOperands> strided{q.local[axis].size, {}};
    for (int i = 0; i < kOperands; ++i) strided.strides[i] = stride(i, name);
    if (axis == length_axis) {
      if (operation.within_sequence()) {  // all queries share one memory
        for (int i : {kK, kV, kMemorySegment, kMemoryPriority, kMemoryPosition, kNoise})
          strided.strides[i] = 0;
      }
      length_strides = strided.strides;
      queries = strided.size;
    } else if (copies_apart && name == options.copies) {
      copy_axes.push_back(strided);
    } else {
      (k.global.contains(name) ? entry_axes : head_axes).push_back(strided);
    }
  }

  if (const LocalTensor* table = operands[kBiasTable]) {
    bucket_count = table->local[table->local.rank() - 1].size;
    max_distance = options.max_distance;
    const RelativeBuckets bucket{options.bidirectional, bucket_count, max_distance};
    for (int64_t relative = -max_distance; relative <= max_distance; ++relative)
      buckets.push_back(static_cast<int32_t>(bucket(relative)));
  }
}

}  // namespace mtf
