#include "engine/graph/structural.h"

#include <fmt/format.h>

#include "engine/base/check.h"

namespace mtf {

std::string Constant::attributes() const { return fmt::format("{}", value); }

Assign::Assign(const Variable& variable, const Tensor& value, const Tensor& guard)
    : OperationBase(guard ? Tensors{value, guard} : Tensors{value}, {}), variable(&variable) {
  if (value.shape() != variable.shape || value.dtype() != variable.dtype) {
    shape_error("assign", fmt::format("`{}` is {} and cannot take a value of {}", variable.name,
                                      variable.shape.to_string(), value.shape().to_string()));
  }
}

AddN::AddN(Tensors terms) : OperationBase(terms, {{terms.at(0).shape(), terms.at(0).dtype()}}) {
  for (const Tensor& term : inputs()) {
    if (term.shape() != inputs()[0].shape() || term.dtype() != inputs()[0].dtype()) {
      shape_error("add_n",
                  fmt::format("{} and {} differ", inputs()[0].shape().to_string(), term.shape().to_string()));
    }
  }
}

std::optional<ElementwiseStep> AddN::elementwise_step() const {
  if (!is_floating(kernel_dtype()) && kernel_dtype() != DType::kInt32) return std::nullopt;
  return ElementwiseStep{ElementwiseStep::Kind::kSum};
}

Tensors AddN::gradient(const Tensors& dy) const { return Tensors(inputs().size(), dy[0]); }

ShardingRule AddN::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request);
}

Tensor add_n(const Tensors& terms) {
  return terms.size() == 1 ? terms[0] : terms.at(0).graph().add<AddN>(terms).output();
}

Repeat::Repeat(int64_t count, Block body, Tensors loop_values, LoopResult result,
               std::vector<OutputInfo> outputs, Microbatching microbatching, Domain sums_domain)
    : OperationBase({}, std::move(outputs)),
      count(count),
      body(std::move(body)),
      loop_values(std::move(loop_values)),
      result(std::move(result)),
      microbatching(std::move(microbatching)),
      sums_domain(sums_domain) {}

std::string Repeat::attributes() const { return fmt::format("{}", count); }

Tensors repeat(Graph& graph, int64_t count, const Tensors& initial, const Microbatching& microbatching,
               const std::function<LoopResult(const Tensors&)>& build, Domain sums_domain) {
  Tensors loop_values;
  LoopResult result;
  Block body = graph.capture(microbatching, [&] {
    for (const Tensor& t : initial) loop_values.push_back(graph.add<LoopValue>(t).output());
    result = build(loop_values);
  });
  MTF_CHECK(result.carried.size() == initial.size(), "a loop carries {} tensors and returns {}",
            initial.size(), result.carried.size());
  std::vector<OutputInfo> outputs;
  for (size_t i = 0; i < initial.size(); ++i) {
    if (result.carried[i].shape() != initial[i].shape()) {
      shape_error("repeat",
                  fmt::format("carried value {} changes from {} to {}", i, initial[i].shape().to_string(),
                              result.carried[i].shape().to_string()));
    }
    outputs.push_back({initial[i].shape(), initial[i].dtype()});
  }
  for (const Tensor& t : result.sums) outputs.push_back({t.shape(), t.dtype()});
  for (const Tensor& t : result.placed) {
    const std::string& name = microbatching.dimension;
    outputs.push_back({t.shape().resized(name, t.shape().dimension(name).size * count), t.dtype()});
  }
  Operation& loop = graph.add<Repeat>(count, std::move(body), loop_values, result, std::move(outputs),
                                      microbatching, sums_domain);
  Tensors tensors;
  for (size_t i = 0; i < loop.outputs().size(); ++i) tensors.push_back(loop.output(static_cast<int>(i)));
  return tensors;
}

MicrobatchSlice::MicrobatchSlice(const Tensor& x, const Microbatching& microbatching)
    : OperationBase(
          {x}, {{x.shape().resized(microbatching.dimension,
                                   x.shape().dimension(microbatching.dimension).size / microbatching.count),
                 x.dtype()}}),
      microbatching(microbatching) {
  const int64_t size = x.shape().dimension(microbatching.dimension).size;
  if (size % microbatching.count != 0) {
    shape_error("microbatch_slice",
                fmt::format("{} examples cannot be cut into {} microbatches", size, microbatching.count));
  }
}

std::string MicrobatchSlice::attributes() const {
  return fmt::format("{}, {}", microbatching.dimension, microbatching.count);
}

Tensor microbatch_slice(const Tensor& x) {
  return x.graph().add<MicrobatchSlice>(x, x.graph().microbatching()).output();
}

Tensor whole_batch(const Tensor& x) {
  const bool is_part = dynamic_cast<const MicrobatchSlice*>(&x.operation()) != nullptr;
  return is_part ? x.operation().input(0) : x;
}

}  // namespace mtf
