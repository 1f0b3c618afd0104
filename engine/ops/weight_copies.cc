#include "engine/ops/weight_copies.h"

#include <fmt/format.h>

#include "engine/graph/structural.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reshape.h"
#include "engine/ops/transpose.h"

namespace mtf {
namespace {

/// True for weights and their running means.
bool is_weight(const Variable& variable) {
  return variable.kind == Variable::Kind::kWeight || variable.kind == Variable::Kind::kSlot;
}

/// True for operations that only rename, reorder or convert the elements of their operand.
bool is_arrangement(const Operation& operation) {
  return operation.inputs().size() == 1 &&
         (operation.is_view() || dynamic_cast<const Cast*>(&operation) != nullptr ||
          dynamic_cast<const Transpose*>(&operation) != nullptr);
}

/// Returns the weight of which x is an arrangement; null: it is none.
const Variable* weight_of(const Tensor& x) {
  const Operation* operation = &x.operation();
  while (is_arrangement(*operation)) operation = &operation->input(0).operation();
  const auto* read = dynamic_cast<const ReadVariable*>(operation);
  return read != nullptr && is_weight(*read->variable) ? read->variable : nullptr;
}

/// Returns text that is equal for equal arrangements of a weight.
std::string origin_of(const Tensor& x) {
  const Operation& operation = x.operation();
  if (const auto* read = dynamic_cast<const ReadVariable*>(&operation)) return read->variable->name;
  return fmt::format("{} {} {}", origin_of(operation.input(0)), operation.name(), x.shape().to_string());
}

/// Returns the same variable in another graph.
const Variable& redeclared(const Variable& variable, Graph& graph) {
  return graph.variable(variable.name, variable.shape, variable.dtype, variable.initializer, variable.kind);
}

/// Adds the arrangement of a weight to another graph.
Tensor rebuilt(const Tensor& x, Graph& graph) {
  const Operation& operation = x.operation();
  const auto* read = dynamic_cast<const ReadVariable*>(&operation);
  if (read != nullptr) return graph.read(redeclared(*read->variable, graph));
  return graph.add_clone(operation, {rebuilt(operation.input(0), graph)}).output();
}

/// The last dimension of copies in strips.
Shape strip() { return {{"strip", kStripColumns}}; }

/// True if a product with float32 weights gains by a copy in strips that changes no bit of it.
bool is_faster_in_strips(const Tensor& x, const Tensor& weight, const Shape& summed) {
  const Shape& shape = weight.shape();
  if (x.dtype() != DType::kFloat32 || weight.dtype() != DType::kFloat32) return false;
  if (x.graph().matmul_precision() != MatmulPrecision::kFull) return false;
  const bool is_table = summed.contains(shape[shape.rank() - 1].name);
  return !is_table || shape.size() * static_cast<int64_t>(sizeof(float)) <= kMostTableBytes;
}

}  // namespace

Tensor WeightCopies::product(const Tensor& a, const Tensor& b, const Shape& output) {
  const bool a_is_weight = weight_of(a) != nullptr, b_is_weight = weight_of(b) != nullptr;
  if (a_is_weight == b_is_weight) return {};
  const Tensor &x = a_is_weight ? b : a, &weight = a_is_weight ? a : b;
  const ContractionClasses classes = classify(x.shape(), weight.shape(), output);
  const bool is_known_type = x.dtype() == DType::kFloat32 || x.dtype() == DType::kBFloat16;
  if (!is_known_type || classes.batch.rank() > 0) return {};
  if (classes.summed.size() < kLeastCopiedSum || classes.summed.size() > kMostInt8Products) return {};
  Copy wanted{weight, classes.columns, weight.shape() - classes.columns};
  wanted.in_strips = fits_strips(wanted, output);
  if (options_.type == DType::kFloat32 &&
      !(wanted.in_strips && is_faster_in_strips(x, wanted.weight, wanted.summed)))
    return {};
  const Copy& copy = copy_of(wanted);
  Graph& graph = x.graph();
  if (copy.scale == nullptr) {
    const Tensor rounded = cast(x, options_.type), values = graph.read(*copy.values);
    if (!copy.in_strips) return graph.add<Einsum>(rounded, values, output, x.dtype()).output();
    const Shape in_strips = grouped(output, kStripColumns) + strip();
    return reshape(graph.add<Einsum>(rounded, values, in_strips, x.dtype()).output(), output);
  }
  const Tensor y =
      int8_product(codes_of(x, wanted.summed), {graph.read(*copy.values), graph.read(*copy.scale)});
  return transpose(cast(y, x.dtype()), output);
}

const WeightCopies::Copy& WeightCopies::copy_of(const Copy& wanted) {
  const auto [known, is_new] =
      known_.try_emplace(fmt::format("{} over {}{}", origin_of(wanted.weight), wanted.summed.to_string(),
                                     wanted.in_strips ? " in strips" : ""),
                         copies_.size());
  if (is_new) copies_.push_back(declared(wanted));
  return copies_[known->second];
}

WeightCopies::Copy WeightCopies::declared(Copy copy) const {
  Graph& graph = copy.weight.graph();
  std::string name = fmt::format("{}/{}", weight_of(copy.weight)->name, name_of(options_.type));
  if (options_.type == DType::kInt8) {
    for (const Dimension& d : copy.summed) name += "_" + d.name;
  }
  std::string unique = name;
  for (int i = 1; graph.find_variable(unique) != nullptr; ++i) unique = fmt::format("{}_{}", name, i);
  const auto make = [&](const std::string& suffix, const Shape& shape, DType dtype) {
    return &graph.variable(unique + suffix, shape, dtype, Initializer::zeros(), Variable::Kind::kCopy);
  };
  if (options_.type == DType::kInt8) {
    const bool in_blocks = fits(copy.columns, kColumnsOfBlock) && fits(copy.summed, kDepthsOfBlock);
    copy.values = make("", int8_weight_shape(copy.columns, copy.summed, in_blocks), DType::kUInt8);
    copy.scale = make("/scale", copy.columns, DType::kFloat32);
  } else {
    copy.values = make(
        "",
        copy.in_strips ? grouped(copy.columns, kStripColumns) + copy.summed + strip() : copy.weight.shape(),
        options_.type);
  }
  return copy;
}

/// True if parts of the last dimension, too, consist of groups of so many entries.
bool WeightCopies::fits(const Shape& shape, int64_t group) const {
  if (shape.rank() == 0) return false;
  const Dimension& last = shape[shape.rank() - 1];
  return last.size % (group * (options_.parts ? options_.parts(last.name) : 1)) == 0;
}

/// True if the copy can be stored in strips, which a product down to `output` reads in order.
bool WeightCopies::fits_strips(const Copy& copy, const Shape& output) const {
  return options_.in_strips && options_.type != DType::kInt8 && fits(copy.columns, kStripColumns) &&
         output[output.rank() - 1].name == copy.columns[copy.columns.rank() - 1].name;
}

Quantized WeightCopies::codes_of(const Tensor& x, const Shape& summed) {
  Quantized& codes = codes_[{&x.operation(), x.index(), summed.to_string()}];
  if (!codes.codes) codes = quantize_rows(x, summed);
  return codes;
}

int64_t WeightCopies::weight_bytes(int64_t i) const {
  const Variable& weight = *weight_of(copies_[static_cast<size_t>(i)].weight);
  return bytes_of(weight.shape, weight.dtype);
}

std::unique_ptr<Graph> WeightCopies::conversion(int64_t first, int64_t last) const {
  auto graph = std::make_unique<Graph>();
  const auto domain = graph->domain(Domain::kParameter);  // weights are converted where they are at rest
  for (int64_t i = first; i < last; ++i) {
    const Copy& copy = copies_[static_cast<size_t>(i)];
    const Tensor weight = rebuilt(copy.weight, *graph);
    if (copy.scale == nullptr) {
      Tensor values = cast(weight, options_.type);
      if (copy.in_strips) {
        const Shape column{copy.columns[copy.columns.rank() - 1]};
        values = transpose(replace_dimensions(values, column, grouped(column, kStripColumns) + strip()),
                           copy.values->shape);
      }
      graph->assign(redeclared(*copy.values, *graph), values);
      continue;
    }
    const bool in_blocks = copy.values->shape.contains(kBlockColumns);
    const Quantized codes = quantize_weight(weight, copy.columns, copy.summed, in_blocks);
    graph->assign(redeclared(*copy.values, *graph), codes.codes);
    graph->assign(redeclared(*copy.scale, *graph), codes.scale);
  }
  return graph;
}

void use_weight_copies(Graph& graph, const std::optional<WeightCopyOptions>& options) {
  if (options) graph.set_weight_copies(std::make_shared<WeightCopies>(*options));
}

}  // namespace mtf
