#include "engine/backend/cpu/contractions/joint_products.h"

#include <algorithm>
#include <utility>

#include "engine/backend/cpu/contractions/contraction_axes.h"
#include "engine/ops/einsum.h"

namespace mtf {
namespace {

using Axes = StridedAxes<3>;

}  // namespace

std::optional<JointOperands> joint_operands(const KernelContext& context) {
  const auto* einsum = dynamic_cast<const Einsum*>(&context.operation);
  const auto is_float32 = [](const LocalTensor& tensor) { return tensor.dtype == DType::kFloat32; };
  if (!einsum || !std::ranges::all_of(context.inputs, is_float32) || !is_float32(context.outputs[0]))
    return {};
  const ContractionClasses classes =
      classify(context.inputs[0].global, context.inputs[1].global, context.outputs[0].global);
  if (!contraction_axes(classes.batch, context, kOut).empty()) return {};
  Axes rows = contraction_axes(classes.rows, context, kOut),
       columns = contraction_axes(classes.columns, context, kOut);
  const auto are_contiguous = [](const Axes& axes) { return axes.size() == 1 && axes[0].strides[kOut] == 1; };
  JointOperands operands;
  if (!are_contiguous(columns)) {
    std::swap(rows, columns);
    std::swap(operands.a, operands.b);
  }
  if (!are_contiguous(columns)) return {};
  const auto a = static_cast<size_t>(operands.a), b = static_cast<size_t>(operands.b);
  for_each_offset(rows, 0, size_of(rows), [&](const Offsets<3>& at) {
    operands.a_rows.push_back(at[a]);
    operands.c_rows.push_back(at[kOut]);
  });
  operands.columns = columns[0].size;
  operands.b_column_stride = columns[0].strides[b];
  // The order of the depth decides the bits; it is that of the first input, as in einsum.cc.
  for (const StridedAxis<3>& axis : contraction_axes(classes.summed, context, kA))
    operands.summed.push_back({axis.size, axis.strides[a], axis.strides[b]});
  operands.depth = depth_of(operands.summed);
  operands.in_bfloat16 = einsum->precision == MatmulPrecision::kBFloat16;
  return operands;
}

std::unique_ptr<Kernel> prepare_joint_product(const KernelContext& context, const JointPositions& positions) {
  std::optional<JointOperands> operands = joint_operands(context);
  if (!operands) return nullptr;
  if (!positions.summed.empty()) {
    const int64_t elements = operands->rows() * operands->columns;
    if (operands->depth > kMostSummedDepth || elements > kMostSummedElements || operands->in_bfloat16)
      return nullptr;
    return prepare_summed_products(std::move(*operands), positions.summed);
  }
  if (positions.shared != operands->b || operands->rows() > kMostJointRows ||
      positions.count * operands->rows() <= kMostThinRows) {
    return nullptr;
  }
  return prepare_joint_rows(std::move(*operands), positions.count);
}

}  // namespace mtf
