#include "models/missing_labels.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"

namespace mtf {

Tensor has_label(const Tensor& labels, std::optional<int64_t> missing) {
  Graph& graph = labels.graph();
  const Tensor there = missing
                           ? not_equal(labels, graph.constant(static_cast<double>(*missing), labels.dtype()))
                           : greater_equal(labels, graph.constant(0, labels.dtype()));
  return cast(there, DType::kFloat32);
}

Tensor number_of_labels(const Tensor& counts) {
  return maximum(reduce_sum(counts, Shape{}), counts.graph().constant(1));
}

void add_labelled_loss(const Context& context, const Tensor& losses, const Tensor& counts,
                       ModelOutput& output) {
  const Shape examples{context.batch()};
  const Tensor number =
      context.training() ? context.scalar(std::string(kNumberOfLabels)) : number_of_labels(counts);
  const Tensor sums = reduce_sum(multiply(losses, counts), examples);
  output.metrics["loss"] = {sums, reduce_sum(counts, examples)};
  output.loss = divide(reduce_sum(sums, Shape{}), number);
  output.class_losses = {{.logits = output.logits,
                          .classes = output.classes->name,
                          .weights = divide(counts, number, counts.shape()),
                          .scale = static_cast<double>(context.batch().size)}};
}

Metric share_of_labels(const Context& context, const Tensor& hit, const Tensor& counts) {
  const Shape examples{context.batch()};
  return {reduce_sum(multiply(cast(hit, DType::kFloat32), counts), examples), reduce_sum(counts, examples)};
}

}  // namespace mtf
