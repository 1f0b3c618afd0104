#include "engine/spmd/work.h"

#include <algorithm>
#include <array>

#include "engine/base/integer_division.h"
#include "engine/ops/attention.h"
#include "engine/ops/convolution.h"
#include "engine/ops/expert_product.h"
#include "engine/ops/fused_einsum.h"
#include "engine/ops/multi_tensor.h"

namespace mtf {
namespace {

constexpr std::array<std::string_view, 20> kMovements = {"assign_slots",
                                                         "broadcast",
                                                         "combine",
                                                         "concat",
                                                         "dispatch",
                                                         "dynamic_shift",
                                                         "dynamic_update_slice",
                                                         "gather",
                                                         "gather_gradient",
                                                         "one_hot",
                                                         "pad",
                                                         "range",
                                                         "reduce_first_gradient",
                                                         "shift",
                                                         "slice",
                                                         "split",
                                                         "stack",
                                                         "transpose",
                                                         "unstack",
                                                         "update_kv_cache"};

WorkKind kind_of(const Operation& operation, double flops) {
  const std::string_view name = operation.name();
  if (name.starts_with("attention")) return WorkKind::kAttention;
  if (flops > 0) return WorkKind::kProduct;
  if (const auto* group = dynamic_cast<const MultiTensor*>(&operation))
    return kind_of(*group->members().front(), 0);
  if (std::ranges::find(kMovements, name) != kMovements.end()) return WorkKind::kMovement;
  if (name == "fused_elementwise" || operation.elementwise_step()) return WorkKind::kElementwise;
  if (name.find("norm") != std::string_view::npos || name == "affine") return WorkKind::kNorm;
  const bool is_sum = name.starts_with("reduce") || name.starts_with("window") || name == "moments";
  return is_sum ? WorkKind::kSum : WorkKind::kReduction;
}

FactorType factors_of(const Operation& operation, DType dtype) {
  MatmulPrecision precision = MatmulPrecision::kFull;
  const auto look_at = [&](const auto* as) {
    if (as != nullptr) precision = as->precision;
  };
  look_at(dynamic_cast<const Einsum*>(&operation));
  look_at(dynamic_cast<const FusedEinsum*>(&operation));
  look_at(dynamic_cast<const Convolution*>(&operation));
  look_at(dynamic_cast<const ExpertProduct*>(&operation));
  look_at(dynamic_cast<const ExpertOuterProduct*>(&operation));
  const auto* attention = dynamic_cast<const AttentionOperation*>(&operation);
  if (attention != nullptr && attention->tf32) precision = MatmulPrecision::kTf32;
  return factor_type(dtype, precision);
}

double size(const Shape& shape) { return static_cast<double>(shape.size()); }

/// The number of tiles of 2 x 2 windows, or entries where these are the result.
double winograd_tiles(const Convolution& convolution, const std::array<Shape, 3>& shapes) {
  const bool of_entries = convolution.result == Convolution::kEntries;
  const Shape& side = shapes[of_entries ? Convolution::kEntries : Convolution::kWindows];
  double tiles = 1;
  for (const Dimension& d : side) {
    if (shapes[Convolution::kFilter].contains(d.name)) continue;
    const bool is_window = std::ranges::any_of(
        convolution.windows, [&](const Window& window) { return window.dimension == d.name; });
    tiles *= static_cast<double>(is_window ? ceil_divide(d.size, 2) : d.size);
  }
  return tiles;
}

/// Sets the extents of a convolution of slices: windows are rows of a matrix of patches.
void set_extents(const Convolution& convolution, const std::vector<Shape>& inputs,
                 const std::vector<Shape>& outputs, Work& work) {
  const std::array<Shape, 3> shapes = convolution.by_role(inputs, outputs[0]);
  const ConvolutionClasses classes = classify(shapes, convolution.windows);
  const double groups = size(classes.groups), inputs_of_group = size(classes.inputs),
               outputs_of_group = size(classes.outputs), result = std::max(1.0, size(outputs[0]));
  const double columns = convolution.result == Convolution::kEntries ? inputs_of_group : outputs_of_group;
  const bool is_depthwise = classes.groups.rank() > 0 && inputs_of_group * outputs_of_group == 1;
  work.product_kind = is_depthwise ? ProductKind::kDepthwise : ProductKind::kConvolution;
  work.product = {groups, std::max(1.0, result / (groups * columns)), columns, work.flops / (2 * result)};
  constexpr double kPlanes = 16;
  if (convolution.suits_winograd())
    work.winograd =
        ProductExtents{kPlanes, winograd_tiles(convolution, shapes), outputs_of_group, inputs_of_group};
}

/// The extents of another contraction of slices. Grouped products of experts have a product for each expert.
ProductExtents extents_of(const Operation& operation, const std::vector<Shape>& inputs,
                          const std::vector<Shape>& outputs, double flops) {
  if (dynamic_cast<const Einsum*>(&operation) != nullptr ||
      dynamic_cast<const FusedEinsum*>(&operation) != nullptr) {
    const ContractionClasses classes = classify(inputs[0], inputs[1], outputs[0]);
    return {size(classes.batch), size(classes.rows), size(classes.columns), size(classes.summed)};
  }
  const double result = std::max(1.0, size(outputs[0]));
  const Shape& last = outputs[0];
  const double columns = last.rank() > 0 ? static_cast<double>(last[last.rank() - 1].size) : 1;
  double products = 1;
  if (operation.name() == "expert_product" && inputs[1].rank() > 0)
    products = static_cast<double>(inputs[1][0].size);
  if (operation.name() == "expert_outer_product" && last.rank() > 0)
    products = static_cast<double>(last[0].size);
  return {products, std::max(1.0, result / (columns * products)), columns, flops / (2 * result)};
}

/// Kernels skip tiles of so many queries and entries of the memory if a causal mask hides them.
constexpr double kAttentionTile = 64;

/// Sets the numbers of queries and logits of attention.
void count_logits(const Operation& operation, const std::vector<Shape>& inputs, Work& work) {
  const auto* attention = dynamic_cast<const AttentionOperation*>(&operation);
  if (attention == nullptr) return;
  const auto input = [&](AttentionOperation::Operand operand) -> const Shape& {
    return inputs[static_cast<size_t>(attention->index[operand])];
  };
  const Shape& q = input(AttentionOperation::Operand::kQ);
  const Shape& v = input(AttentionOperation::Operand::kV);
  work.queries = static_cast<double>(q.size() / q.dimension(attention->options.key).size);
  work.logits = work.queries * static_cast<double>(v.dimension(attention->options.memory_length).size);
}

double computed_share(const Operation& operation, const std::vector<Shape>& inputs) {
  const auto* attention = dynamic_cast<const AttentionOperation*>(&operation);
  if (attention == nullptr) return 1;
  const AttentionOptions& options = attention->options;
  const Shape& v = inputs[static_cast<size_t>(attention->index[AttentionOperation::Operand::kV])];
  const auto length = static_cast<double>(v.dimension(options.memory_length).size);
  double share = options.causal ? std::min(1.0, (1 + kAttentionTile / length) / 2) : 1;
  if (options.min_relative && options.max_relative) {
    const auto width = static_cast<double>(*options.max_relative - *options.min_relative + 1);
    share = std::min(share, (width + kAttentionTile) / length);
  }
  return share;
}

/// The bytes that an instruction reads in the host's memory, or that it writes there, whichever are more.
double bytes_on_host(const Program& program, const Instruction& instruction) {
  const auto bytes_of_host = [&](const std::vector<ValueId>& ids) {
    double bytes = 0;
    for (const ValueId id : ids) {
      const Value& root = program.values[program.root(id)];
      if (root.storage == Value::Storage::kVariable && program.variables[root.index].variable.on_host)
        bytes += static_cast<double>(program.local_bytes(id));
    }
    return bytes;
  };
  return std::max(bytes_of_host(instruction.inputs), bytes_of_host(instruction.outputs));
}

/// Returns the bytes that a movement touches. An operand whose memory the result takes stays where it is: the
/// other operands are read and written to it. Of a table, a lookup reads as much as it writes.
double bytes_moved(const Program& program, const Instruction& instruction, std::string_view name) {
  const double results = local_bytes(program, instruction.outputs);
  double operands = 0, others = 0;
  bool in_place = false;
  for (const ValueId id : instruction.inputs) {
    const bool stays = std::ranges::any_of(
        instruction.outputs, [&](ValueId output) { return program.root(output) == program.root(id); });
    in_place |= stays;
    operands += static_cast<double>(program.local_bytes(id));
    if (!stays) others += static_cast<double>(program.local_bytes(id));
  }
  if (in_place) return 2 * others;
  if (name == "gather" || name == "slice") return 2 * results;
  return operands + results;
}

/// Returns the bytes of an instruction without an operation.
double bytes_of_move(const Program& program, const Instruction& instruction) {
  // A microbatch is placed into the batch; a sum reads its term and the total.
  if (instruction.is<action::Place>()) return 2 * local_bytes(program, instruction.inputs);
  return (instruction.is<action::Accumulate>() ? 3 : 2) * local_bytes(program, instruction.outputs);
}

}  // namespace

double local_bytes(const Program& program, const std::vector<ValueId>& ids) {
  double bytes = 0;
  for (const ValueId id : ids) bytes += static_cast<double>(program.local_bytes(id));
  return bytes;
}

std::string_view name_of(WorkKind kind) {
  constexpr std::array<std::string_view, kWorkKinds> names = {"products", "attention",  "elementwise",
                                                              "norms",    "reductions", "sums",
                                                              "movement", "updates",    "collectives"};
  return names[static_cast<size_t>(kind)];
}

Work work_of(const Operation& operation, const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
             DType dtype) {
  Work work;
  work.flops = operation.cost(inputs, outputs).flops;
  work.kind = kind_of(operation, work.flops);
  if (has_flops(work.kind)) work.factors = factors_of(operation, dtype);
  if (work.kind == WorkKind::kProduct) {
    if (const auto* convolution = dynamic_cast<const Convolution*>(&operation)) {
      set_extents(*convolution, inputs, outputs, work);
    } else {
      work.product = extents_of(operation, inputs, outputs, work.flops);
    }
  }
  if (work.kind == WorkKind::kAttention) {
    work.computed = computed_share(operation, inputs);
    count_logits(operation, inputs, work);
    work.is_gradient = operation.name() != "attention";
  }
  return work;
}

const Work& WorkFinder::of_operation(const Instruction& instruction) {
  key_.set(program_, instruction);
  const auto [known, is_new] = known_.try_emplace(key_);
  if (is_new) {
    std::vector<Shape> inputs, outputs;
    for (const ValueId id : instruction.inputs) inputs.push_back(program_.local_shape(id));
    for (const ValueId id : instruction.outputs) outputs.push_back(program_.local_shape(id));
    const DType dtype =
        instruction.inputs.empty() ? DType::kFloat32 : program_.values[instruction.inputs[0]].dtype;
    known->second = work_of(*instruction.operation(), inputs, outputs, dtype);
  }
  return known->second;
}

std::optional<Work> WorkFinder::of(const Instruction& instruction) {
  if (instruction.is<action::Loop>() || instruction.is<action::Transfer>() || instruction.is<action::Done>())
    return std::nullopt;
  if (instruction.is_collective()) return Work{WorkKind::kCollective, 0, bytes_sent(program_, instruction)};
  const bool updates = instruction.provenance.phase == Phase::kUpdate;
  Work work;
  if (const Operation* operation = instruction.operation()) {
    work = of_operation(instruction);
    work.bytes = work.kind == WorkKind::kMovement
                     ? bytes_moved(program_, instruction, operation->name())
                     : local_bytes(program_, instruction.inputs) + local_bytes(program_, instruction.outputs);
    if (instruction.is<action::Accumulate>()) work.bytes += local_bytes(program_, instruction.outputs);
  } else {
    work.kind = instruction.is<action::Accumulate>() ? WorkKind::kElementwise : WorkKind::kMovement;
    work.bytes = bytes_of_move(program_, instruction);
  }
  work.host_bytes = bytes_on_host(program_, instruction);
  if (updates && !has_flops(work.kind)) work.kind = WorkKind::kUpdate;
  return work;
}

}  // namespace mtf
