#include "models/missing_labels.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/concat.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"

namespace mtf {
namespace {

/// In place of a sum of weights that is 0, by which nothing can be divided.
constexpr double kLeastWeight = 1e-30;

}  // namespace

Tensor has_label(const Tensor& labels, std::optional<int64_t> missing) {
  Graph& graph = labels.graph();
  const Tensor there = missing
                           ? not_equal(labels, graph.constant(static_cast<double>(*missing), labels.dtype()))
                           : greater_equal(labels, graph.constant(0, labels.dtype()));
  return cast(there, DType::kFloat32);
}

Tensor Model::label_weights(const Tensor& labels) const { return has_label(labels, missing_label()); }

Tensor class_weights(const Tensor& labels, const std::vector<double>& of_classes) {
  const std::string classes = "_classes";
  Tensors parts;
  for (size_t begin = 0, end; begin < of_classes.size(); begin = end) {
    for (end = begin + 1; end < of_classes.size() && of_classes[end] == of_classes[begin];) ++end;
    parts.push_back(labels.graph().constant(of_classes[begin], DType::kFloat32,
                                            Shape{{classes, static_cast<int64_t>(end - begin)}}));
  }
  return gather(parts.size() == 1 ? parts[0] : concat(parts, classes), labels, classes);
}

Tensor sum_of_weights(const Tensor& weights) {
  return maximum(reduce_sum(weights, Shape{}), weights.graph().constant(kLeastWeight));
}

void add_labelled_loss(const Context& context, const Tensor& losses, const Tensor& weights,
                       ModelOutput& output) {
  const Shape examples{context.batch()};
  const Tensor number =
      context.training() ? context.scalar(std::string(kNumberOfLabels)) : sum_of_weights(weights);
  const Tensor sums = reduce_sum(multiply(losses, weights), examples);
  output.metrics["loss"] = {sums, reduce_sum(weights, examples)};
  output.loss = divide(reduce_sum(sums, Shape{}), number);
  output.class_losses = {{.logits = output.logits,
                          .classes = output.classes->name,
                          .weights = divide(weights, number, weights.shape()),
                          .scale = static_cast<double>(context.batch().size)}};
}

Metric share_of_labels(const Context& context, const Tensor& hit, const Tensor& counts) {
  const Shape examples{context.batch()};
  return {reduce_sum(multiply(cast(hit, DType::kFloat32), counts), examples), reduce_sum(counts, examples)};
}

}  // namespace mtf
