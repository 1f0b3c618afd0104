#include "engine/ops/narrow_products.h"

#include <fmt/format.h>

#include "engine/graph/structural.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
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
const Variable& declared(const Variable& variable, Graph& graph) {
  return graph.variable(variable.name, variable.shape, variable.dtype, variable.initializer, variable.kind);
}

/// Adds the arrangement of a weight to another graph.
Tensor rebuilt(const Tensor& x, Graph& graph) {
  const Operation& operation = x.operation();
  const auto* read = dynamic_cast<const ReadVariable*>(&operation);
  if (read != nullptr) return graph.read(declared(*read->variable, graph));
  return graph.add_clone(operation, {rebuilt(operation.input(0), graph)}).output();
}

}  // namespace

Tensor NarrowProducts::product(const Tensor& a, const Tensor& b, const Shape& output) {
  const bool a_is_weight = weight_of(a) != nullptr, b_is_weight = weight_of(b) != nullptr;
  if (a_is_weight == b_is_weight) return {};
  const Tensor &x = a_is_weight ? b : a, &weight = a_is_weight ? a : b;
  const ContractionClasses classes = classify(x.shape(), weight.shape(), output);
  const bool is_known_type = x.dtype() == DType::kFloat32 || x.dtype() == DType::kBFloat16;
  if (!is_known_type || classes.batch.rank() > 0) return {};
  if (classes.summed.size() < kLeastNarrowSum || classes.summed.size() > kMostInt8Products) return {};
  const Shape summed = weight.shape() - classes.columns;
  const Copy& copy = copy_of(weight, classes.columns, summed);
  Graph& graph = x.graph();
  if (copy.scale == nullptr) {
    const Tensor narrow = cast(x, options_.type);
    return graph.add<Einsum>(narrow, graph.read(*copy.values), output, x.dtype()).output();
  }
  const Tensor y = int8_product(codes_of(x, summed), {graph.read(*copy.values), graph.read(*copy.scale)});
  return transpose(cast(y, x.dtype()), output);
}

const NarrowProducts::Copy& NarrowProducts::copy_of(const Tensor& weight, const Shape& columns,
                                                    const Shape& summed) {
  const auto [known, is_new] =
      known_.try_emplace(fmt::format("{} over {}", origin_of(weight), summed.to_string()), copies_.size());
  if (is_new) copies_.push_back(declare(weight, columns, summed));
  return copies_[known->second];
}

NarrowProducts::Copy NarrowProducts::declare(const Tensor& weight, const Shape& columns,
                                             const Shape& summed) const {
  Graph& graph = weight.graph();
  const std::string type(name_of(options_.type));
  std::string name = weight_of(weight)->name + "/" + type;
  if (options_.type == DType::kInt8) {
    for (const Dimension& d : summed) name += "_" + d.name;
  }
  std::string unique = name;
  for (int i = 1; graph.find_variable(unique) != nullptr; ++i) unique = fmt::format("{}_{}", name, i);
  const auto make = [&](const std::string& suffix, const Shape& shape, DType dtype) {
    return &graph.variable(unique + suffix, shape, dtype, Initializer::zeros(), Variable::Kind::kNarrow);
  };
  Copy copy{weight, columns, summed};
  if (options_.type == DType::kInt8) {
    copy.values = make("", int8_weight_shape(columns, summed, fits_blocks(columns, summed)), DType::kUInt8);
    copy.scale = make("/scale", columns, DType::kFloat32);
  } else {
    copy.values = make("", weight.shape(), options_.type);
  }
  return copy;
}

/// True if parts of the last dimensions, too, consist of blocks.
bool NarrowProducts::fits_blocks(const Shape& columns, const Shape& summed) const {
  const auto fits = [this](const Shape& shape, int64_t group) {
    if (shape.rank() == 0) return false;
    const Dimension& last = shape[shape.rank() - 1];
    return last.size % (group * (options_.parts ? options_.parts(last.name) : 1)) == 0;
  };
  return fits(columns, kColumnsOfBlock) && fits(summed, kDepthsOfBlock);
}

Quantized NarrowProducts::codes_of(const Tensor& x, const Shape& summed) {
  Quantized& codes = codes_[{&x.operation(), x.index(), summed.to_string()}];
  if (!codes.codes) codes = quantize_rows(x, summed);
  return codes;
}

int64_t NarrowProducts::weight_bytes(int64_t i) const {
  const Variable& weight = *weight_of(copies_[static_cast<size_t>(i)].weight);
  return weight.shape.size() * static_cast<int64_t>(size_of(weight.dtype));
}

std::unique_ptr<Graph> NarrowProducts::conversion(int64_t first, int64_t last) const {
  auto graph = std::make_unique<Graph>();
  const auto domain = graph->domain(Domain::kParameter);  // weights are converted where they are at rest
  for (int64_t i = first; i < last; ++i) {
    const Copy& copy = copies_[static_cast<size_t>(i)];
    const Tensor weight = rebuilt(copy.weight, *graph);
    if (copy.scale == nullptr) {
      graph->assign(declared(*copy.values, *graph), cast(weight, options_.type));
      continue;
    }
    const bool in_blocks = copy.values->shape.contains(kBlockColumns);
    const Quantized codes = quantize_weight(weight, copy.columns, copy.summed, in_blocks);
    graph->assign(declared(*copy.values, *graph), codes.codes);
    graph->assign(declared(*copy.scale, *graph), codes.scale);
  }
  return graph;
}

void use_narrow_products(Graph& graph, const std::optional<NarrowOptions>& options) {
  if (options) graph.set_narrow_products(std::make_shared<NarrowProducts>(*options));
}

}  // namespace mtf
