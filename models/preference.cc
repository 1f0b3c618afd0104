#include "models/preference.h"

#include <fmt/format.h>

#include <utility>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

constexpr const char* kSegments = "targets_segmentation";
constexpr int kChosen = 1, kRejected = 2;

constexpr const char* kAccuracies = "rewards/accuracies";
constexpr const char* kMargins = "rewards/margins";
constexpr const char* kChosenRewards = "rewards/chosen";
constexpr const char* kRejectedRewards = "rewards/rejected";
constexpr const char* kChosenScores = "logps/chosen";
constexpr const char* kRejectedScores = "logps/rejected";

}  // namespace

void describe(config::Visitor& visit, PreferenceOptions& options) {
  visit("checkpoint", options.teacher.checkpoint,
        "weights of the reference model: a run's directory (its newest checkpoint), a checkpoint or a "
        ".safetensors file; by default `checkpoint.init`");
  describe_teacher(visit, options.teacher, "reference model");
  visit("loss", options.loss,
        "of beta times the margin between both answers: sigmoid: -log sigmoid (DPO); hinge: what it lacks to "
        "1 (SLiC); ipo: of the margin by itself, in mean log probabilities of tokens, the squared distance "
        "from 1 / (2 beta)");
  visit("beta", options.beta, "the larger, the closer the model stays to the reference", config::positive);
  visit("label_smoothing", options.label_smoothing,
        "share of the pairs that is taken to be labelled the wrong way round (conservative DPO)",
        config::Bounds{0, 0.5});
  visit.check([&options](const config::Report& report) {
    if (options.loss != PreferenceLoss::kSigmoid && options.label_smoothing > 0)
      report.error("label_smoothing", "`label_smoothing` is that of `loss: sigmoid`",
                   "0, or `loss: sigmoid`");
  });
}

Preference::Preference(std::unique_ptr<Model> policy, std::unique_ptr<Model> reference,
                       const PreferenceOptions& options, Mark mark)
    : TaughtModel(std::move(policy), std::move(reference), std::move(mark), "reference model"),
      options_(options) {}

std::vector<std::string> Preference::features() const {
  std::vector<std::string> names = student().features();
  names.emplace_back(kSegments);
  return names;
}

std::vector<std::string> Preference::metrics() const {
  return {"loss", kAccuracies, kMargins, kChosenRewards, kRejectedRewards, kChosenScores, kRejectedScores};
}

ModelOutput Preference::build(Context& context, const Features& features) const {
  ModelOutput output = built_student(context, features);
  const ModelOutput reference = applied_teacher(context, features);
  const auto scope = context.graph().scope("preference", mark());
  check(output, reference, features.at("targets"));
  const Scores trained = scores(context, output, features), given = scores(context, reference, features);
  const Tensor gained = subtract(trained.chosen, stop_gradient(given.chosen));
  const Tensor lost = subtract(trained.rejected, stop_gradient(given.rejected));
  const Tensor margin = subtract(gained, lost);
  const Tensor losses = pair_losses(margin);
  output.loss = reduce_mean(losses, Shape{});
  const Tensor is_right = cast(greater(gained, lost), DType::kFloat32);
  const auto reward = [&](const Tensor& ratio) { return scalar_multiply(ratio, options_.beta); };
  output.metrics = {{"loss", {losses}},
                    {kAccuracies, {is_right}},
                    {kMargins, {reward(margin)}},
                    {kChosenRewards, {reward(gained)}},
                    {kRejectedRewards, {reward(lost)}},
                    {kChosenScores, {trained.chosen}},
                    {kRejectedScores, {trained.rejected}}};
  if (!context.training()) return output;
  for (const auto& [name, metric] : output.metrics) {
    if (name != "loss") context.report(name, reduce_mean(metric.value, Shape{}));
  }
  return output;
}

void Preference::check(const ModelOutput& policy, const ModelOutput& reference, const Tensor& targets) const {
  const auto predicts_targets = [&](const ModelOutput& output) {
    if (output.class_losses.size() != 1) return false;
    const ClassLoss& loss = output.class_losses.front();
    const Shape& shape = loss.logits.shape();
    return loss.weights && same_dimensions(shape - shape.dimension(loss.classes), targets.shape());
  };
  if (!predicts_targets(policy)) {
    throw Error(ErrorKind::kConfig, mark(),
                "`preference` needs a model that predicts the tokens of `targets`", "`model.type: lm`");
  }
  if (!predict_the_same(policy, reference)) {
    throw Error(ErrorKind::kConfig, mark(),
                fmt::format("the reference model predicts {} and the trained model {}", predicted(reference),
                            predicted(policy)),
                "models of the same tokens");
  }
}

Preference::Scores Preference::scores(const Context& context, const ModelOutput& output,
                                      const Features& features) const {
  const ClassLoss& predicted = output.class_losses.front();
  const Tensor &targets = features.at("targets"), &segments = features.at(kSegments);
  Graph& graph = targets.graph();
  const Tensor ids = maximum(targets, graph.constant(0, targets.dtype()));
  const Tensor losses = softmax_cross_entropy(predicted.logits, ids, predicted.classes).loss;
  const auto score = [&](int segment) {
    const Tensor is_here = equal(segments, graph.constant(segment, segments.dtype()));
    const Tensor counts = multiply(predicted.weights, cast(is_here, DType::kFloat32));
    const Shape rows{context.batch()};
    const Tensor sum = negative(reduce_sum(multiply(losses, counts), rows));
    if (options_.loss != PreferenceLoss::kIpo) return sum;
    return divide(sum, maximum(reduce_sum(counts, rows), graph.constant(1)));
  };
  return {score(kChosen), score(kRejected)};
}

Tensor Preference::pair_losses(const Tensor& margin) const {
  const Tensor scaled = scalar_multiply(margin, options_.beta);
  switch (options_.loss) {
    case PreferenceLoss::kHinge:
      return relu(scalar_add(negative(scaled), 1));
    case PreferenceLoss::kIpo:
      return square(scalar_add(margin, -0.5 / options_.beta));
    case PreferenceLoss::kSigmoid:
      break;
  }
  const Tensor right = softplus(negative(scaled));
  if (options_.label_smoothing == 0) return right;
  return add(scalar_multiply(right, 1 - options_.label_smoothing),
             scalar_multiply(softplus(scaled), options_.label_smoothing));
}

}  // namespace mtf
