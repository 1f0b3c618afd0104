// The part of a row that answers a question: a list of layers from the tokens to two logits for each, softmax
// cross-entropy of the first and of the last token of the answer over the positions of the row.
#include <fmt/format.h>

#include <array>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "models/loss.h"
#include "models/model.h"
#include "models/sequential.h"

namespace mtf {
namespace {

struct SpansOptions final : ModelOptions, SequentialOptions {
  static constexpr std::string_view type_name = "spans";
  static constexpr std::array common_names = {CommonName{"question_answering", "`spans`"},
                                              CommonName{"squad", "`spans`"}};
  static constexpr bool type_required = true;
  SpansOptions() { input = "inputs"; }

  config::Name start = "answer_start", end = "answer_end", mask = "answer_mask";
  LossOptions loss = "cross_entropy";

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

void describe(config::Visitor& visit, SpansOptions& options) {
  describe_sequential(visit, options);
  visit("start", options.start, "the feature with the position of an answer's first token",
        config::fixed_on_resume);
  visit("end", options.end, "the feature with the position of its last token", config::fixed_on_resume);
  visit("mask", options.mask, "the feature that is not 0 at the positions where an answer may begin and end",
        config::fixed_on_resume);
  describe_loss(visit, options.loss, LossTarget::kClasses);
}

/// The last layer makes one dimension of 2 entries: the logits of the beginning and of the end. Loss: the mean over the
/// examples of the mean of both cross-entropies.
class Spans final : public Model {
 public:
  Spans(const SpansOptions& options, Diagnostics& diagnostics)
      : options_(options), layers_(options, diagnostics) {}
  std::vector<std::string> features() const override {
    return {layers_.input(), options_.start.text, options_.end.text, options_.mask.text};
  }
  std::vector<std::string> optional_features() const override { return layers_.optional_features(); }
  std::vector<std::string> metrics() const override {
    return {"loss", "accuracy", "exact_match", "answer_f1"};
  }
  ModelOutput build(Context& context, const Features& features) const override;
  std::vector<std::string> features_of_prediction() const override {
    return {layers_.input(), options_.mask.text};
  }
  /// Sets `start` and `end`, the logits of both ends at the positions of the row, -1e9 where none may be.
  ModelOutput predict(Context& context, const Features& features) const override;

 private:
  /// Sets output.logits. Returns the logits of both ends, float32 of the shape of `mask`, -1e9 where none may be.
  std::array<Tensor, 2> apply(Context& context, const Features& features, const Tensor& mask,
                              ModelOutput& output) const;
  void check(const Context& context, const LayerTensor& logits, const Tensor& mask) const;

  SpansOptions options_;
  Sequential layers_;
};

void Spans::check(const Context& context, const LayerTensor& logits, const Tensor& mask) const {
  const Shape made = context.made(logits);
  if (made.size() == 2 && made.rank() == 1 && same_dimensions(logits.shape() - made, mask.shape()) &&
      mask.shape().rank() == 2)
    return;
  throw Error(ErrorKind::kConfig, layers_.mark(),
              fmt::format("the layers make {}, but feature `{}` is {}", logits.shape().to_string(),
                          options_.mask.text, mask.shape().to_string()),
              "end with `dense: {output: {span: 2}}` on the tokens of a Transformer");
}

std::array<Tensor, 2> Spans::apply(Context& context, const Features& features, const Tensor& mask,
                                   ModelOutput& output) const {
  const LayerTensor logits = layers_(context, features);
  check(context, logits, mask);
  output.logits = logits;
  const auto scope = context.graph().scope("loss", layers_.mark());
  Graph& graph = context.graph();
  const std::string span = context.made(logits)[0].name;
  const Tensor allowed = not_equal(mask, graph.constant(0, mask.dtype()));
  const Tensor forbidden = graph.constant(-1e9, DType::kFloat32, mask.shape());
  std::array<Tensor, 2> result;
  for (int64_t side = 0; side < 2; ++side) {
    const Tensor one = gather(cast(logits, DType::kFloat32), side, span);
    result[static_cast<size_t>(side)] = where(allowed, transpose(one, mask.shape()), forbidden);
  }
  return result;
}

ModelOutput Spans::predict(Context& context, const Features& features) const {
  ModelOutput output;
  const std::array<Tensor, 2> ends =
      apply(context, features, layers_.feature(features, options_.mask), output);
  output.predictions["start"] = ends[0];
  output.predictions["end"] = ends[1];
  return output;
}

ModelOutput Spans::build(Context& context, const Features& features) const {
  const Tensor& mask = layers_.feature(features, options_.mask);
  ModelOutput output;
  const std::array<Tensor, 2> ends = apply(context, features, mask, output);
  const auto scope = context.graph().scope("loss", layers_.mark());
  const std::string length = (mask.shape() - Shape{context.batch()})[0].name;
  const std::array<const Tensor*, 2> targets = {&layers_.feature(features, options_.start),
                                                &layers_.feature(features, options_.end)};
  std::array<Tensor, 2> losses, hits;
  for (size_t side = 0; side < 2; ++side) {
    losses[side] =
        weighted_loss(options_.loss, {.prediction = ends[side], .target = *targets[side], .classes = length});
    output.class_losses.push_back({.logits = ends[side], .classes = length, .scale = 0.5});
    hits[side] = cast(equal(argmax(ends[side], length), *targets[side]), DType::kFloat32);
  }
  const Tensor mean = scalar_multiply(add(losses[0], losses[1]), 0.5);
  output.metrics["loss"] = {mean};
  output.loss = reduce_mean(mean, Shape{});
  if (context.training()) return output;
  output.metrics["accuracy"] = {multiply(hits[0], hits[1])};
  output.predictions["start"] = ends[0];
  output.predictions["end"] = ends[1];
  return output;
}

std::unique_ptr<Model> SpansOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Spans>(*this, diagnostics);
}

const config::Registration<ModelOptions, SpansOptions> spans;

}  // namespace
}  // namespace mtf
