// Distillation: the loss is the one of the formula, the teacher is applied as in evaluation and nothing of it is trained,
// and neither layouts nor microbatches nor processes change the result.
#include "models/distillation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <utility>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/trainer/teacher_testing.h"
#include "tests/trainer/text_heads.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/model_inputs.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kTaughtVocabulary = 21, kTaughtRows = 8, kTaughtLength = 8;

/// A language model of `width`, with dropout in all layers.
std::string taught_model(int64_t width, int64_t divisor, double dropout) {
  return fmt::format(
      "{{type: lm, d_model: {0}, max_length: 8, vocab_divisor: {1}, num_layers: 2, dropout: {2}, "
      "token_dropout: {2}, "
      "z_loss: 0.01, label_smoothing: 0.1, layer_defaults: {{SelfAttention: {{num_heads: 8, key_value_size: "
      "2, "
      "dropout: {2}}}, DenseReluDense: {{hidden_size: {0}, dropout: {2}}}}}, block: [SelfAttention, "
      "DenseReluDense]}}",
      width, divisor, dropout);
}
std::string student_yaml(double dropout = 0) { return taught_model(8, 8, dropout); }
std::string teacher_yaml(double dropout = 0) { return taught_model(16, 16, dropout); }

std::unique_ptr<Distillation> distillation(const DistillOptions& options, double dropout = 0,
                                           const std::string& teacher = teacher_yaml()) {
  return std::make_unique<Distillation>(parse_model(student_yaml(dropout)), parse_model(teacher), options,
                                        Mark{});
}

/// Two texts in each row, then padding.
std::pair<std::vector<Feature>, std::map<std::string, Values>> taught_rows() {
  std::vector<Feature> features{{"targets", {{"length", kTaughtLength}}, DType::kInt32, kTaughtVocabulary}};
  std::map<std::string, Values> feeds;
  for (const char* extra : {"targets_segmentation", "targets_position"})
    features.push_back({extra, {{"length", kTaughtLength}}, DType::kInt32, 0});
  for (int64_t row = 0; row < kTaughtRows; ++row) {
    for (int64_t i = 0; i < kTaughtLength; ++i) {
      const bool padding = i >= 7 - row % 3;
      feeds["targets"].push_back(
          padding ? 0 : static_cast<double>(1 + (i * 7 + row * 5) % (kTaughtVocabulary - 1)));
      feeds["targets_segmentation"].push_back(padding ? 0 : 1 + i / 3 % 2);
      feeds["targets_position"].push_back(padding ? 0 : static_cast<double>(i % 3));
    }
  }
  return {features, feeds};
}

TrainStepOptions gradients_only() {
  TrainStepOptions options;
  options.batch_size = kTaughtRows;
  options.keep_prediction = true;
  return options;
}

/// Outputs of forward and backward pass at `step`, which counts from 0.
std::map<std::string, Values> run_step(const Model& model, int64_t step,
                                       TrainStepOptions options = gradients_only()) {
  auto [features, feeds] = taught_rows();
  const TrainStep built = build_train_step(model, features, options);
  for (const StepScalar& scalar : built.scalars) feeds[scalar.input] = {scalar.value(step)};
  return run_on_mesh(*built.graph, Layouts::single(), feeds, {.variables = teacher_weights(*built.graph)})
      .outputs;
}

/// The logits of the teacher by itself, in evaluation.
Values teacher_logits() {
  const auto [features, feeds] = taught_rows();
  const auto model = parse_model(teacher_yaml());
  Graph graph;
  Context context(graph, Mode::kEvaluate, {}, {"batch", kTaughtRows});
  context.set_vocabularies(vocabulary_sizes(features));
  Features inputs;
  for (const Feature& feature : features)
    inputs[feature.name] = graph.input(feature.name, Shape{context.batch()} + feature.shape, feature.dtype);
  graph.set_output("logits", model->build(context, inputs).logits);
  return run_on_mesh(graph, Layouts::single(), feeds, {.variables = teacher_weights(graph, "teacher/")})
      .outputs.at("logits");
}

/// The soft loss by its definition: the mean over all positions of what the targets above 0 add.
double soft_loss_by_hand(const Values& student, const Values& teacher, double temperature, double z_loss) {
  const Values targets = taught_rows().second.at("targets");
  const size_t padded = student.size() / targets.size(), of_teacher = teacher.size() / targets.size();
  double sum = 0;
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] == 0) continue;
    double z = 0, log_z = 0, cross = 0;
    for (size_t i = 0; i < kTaughtVocabulary; ++i) z += std::exp(teacher[row * of_teacher + i] / temperature);
    for (size_t i = 0; i < padded; ++i) log_z += std::exp(student[row * padded + i] / temperature);
    log_z = std::log(log_z);
    for (size_t i = 0; i < kTaughtVocabulary; ++i) {
      const double soft = std::exp(teacher[row * of_teacher + i] / temperature) / z;
      cross += soft * (log_z - student[row * padded + i] / temperature);
    }
    sum += cross + z_loss * log_z * log_z;
  }
  return sum / static_cast<double>(targets.size());
}

TEST(Distillation, TheLossIsTheMixtureOfHardAndSoftLoss) {
  const Values teacher = teacher_logits();
  const auto alone = run_step(*parse_model(student_yaml()), 0);
  for (const auto& [temperature, weight] : {std::pair(2.0, 0.5), std::pair(3.0, 0.7), std::pair(1.0, 1.0)}) {
    SCOPED_TRACE(fmt::format("T {} weight {}", temperature, weight));
    const auto model = distillation({.weight = weight, .temperature = temperature});
    const auto outputs = run_step(*model, 0);
    const double soft = soft_loss_by_hand(outputs.at("output/logits"), teacher, temperature, 0.01),
                 hard = alone.at("loss")[0];
    EXPECT_NEAR(outputs.at("report/hard_loss")[0], hard, 1e-6);
    EXPECT_NEAR(outputs.at("report/soft_loss")[0], soft, 1e-6);
    EXPECT_NEAR(outputs.at("loss")[0], (1 - weight) * hard + temperature * temperature * weight * soft, 1e-5);
  }
}

/// The formula of distillation in single operations.
class ComposedDistillation final : public Model {
 public:
  std::vector<std::string> features() const override { return student_->features(); }
  std::vector<std::string> optional_features() const override { return student_->optional_features(); }
  std::vector<std::string> metrics() const override { return student_->metrics(); }
  ModelOutput build(Context& context, const Features& features) const override {
    constexpr double kTemperature = 3, kWeight = 0.7, kZLoss = 0.01;
    ModelOutput output = student_->build(context, features);
    Context applied = Context::applied(context);
    const auto scope = context.graph().scope("teacher");
    const Tensor teacher = teacher_->build(applied, features).logits;
    const Tensor soft = softmax(scalar_multiply(teacher, 1 / kTemperature), "vocab");
    const Tensor scaled = scalar_multiply(output.logits, 1 / kTemperature);
    const Shape rows = scaled.shape() - Shape{scaled.shape().dimension("vocab")};
    const Tensor cross = negative(reduce_sum(multiply(soft, log_softmax(scaled, "vocab")), rows));
    const Tensor z = scalar_multiply(square(reduce_logsumexp(scaled, "vocab")), kZLoss);
    const Tensor& targets = features.at("targets");
    const Tensor counts = cast(greater(targets, context.graph().constant(0, DType::kInt32)), DType::kFloat32);
    const Tensor mean = reduce_mean(multiply(add(cross, z), counts), Shape{});
    output.loss = add(scalar_multiply(output.loss, 1 - kWeight),
                      scalar_multiply(mean, kTemperature * kTemperature * kWeight));
    return output;
  }

 private:
  // A divisor of 7 leaves no padding of the vocabulary.
  std::unique_ptr<Model> student_ = parse_model(taught_model(8, 7, 0)),
                         teacher_ = parse_model(taught_model(16, 7, 0));
};

TEST(Distillation, GradientsAreThoseOfTheFormula) {
  const Distillation fused(parse_model(taught_model(8, 7, 0)), parse_model(taught_model(16, 7, 0)),
                           {.weight = 0.7, .temperature = 3}, Mark{});
  const auto actual = run_step(fused, 0), expected = run_step(ComposedDistillation(), 0);
  int gradients = 0;
  for (const auto& [name, values] : expected) {
    expect_close(name, actual.at(name), values, 1e-5);
    gradients += name.starts_with("grad/");
  }
  EXPECT_GT(gradients, 10);
}

TEST(Distillation, TheTeacherCountsFromTheStepBehindStartStepOn) {
  const auto student = parse_model(student_yaml(0.2));
  const auto model = distillation({.weight = 0.5, .temperature = 2, .start_step = 3}, 0.2);
  for (const int64_t step : {0, 2}) {  // the third step has index 2
    const auto alone = run_step(*student, step), taught = run_step(*model, step);
    for (const auto& [name, values] : alone) EXPECT_EQ(taught.at(name), values) << name;
    EXPECT_GT(taught.at("report/soft_loss")[0], 0);
  }
  const auto alone = run_step(*student, 3), taught = run_step(*model, 3);
  EXPECT_EQ(taught.at("report/hard_loss"), alone.at("loss"))
      << "the teacher changes no dropout of the student";
  EXPECT_NEAR(taught.at("loss")[0],
              0.5 * taught.at("report/hard_loss")[0] + 2 * taught.at("report/soft_loss")[0], 1e-5);
}

TEST(Distillation, TheTeacherHasNoDropout) {
  const DistillOptions options{.weight = 0.5, .temperature = 2};
  const auto with = run_step(*distillation(options, 0, teacher_yaml(0.5)), 0),
             without = run_step(*distillation(options), 0);
  for (const auto& [name, values] : without) EXPECT_EQ(with.at(name), values) << name;
}

TEST(Distillation, NothingOfTheTeacherIsTrained) {
  TrainStepOptions options;
  options.batch_size = kTaughtRows;
  options.precision.activation = DType::kBFloat16;
  options.update = UpdateOptions{parse_optimizer("adam"), {0.1}, 10, 0.9};
  const TrainStep step = build_train_step(*distillation({}), taught_rows().first, options);
  int constants = 0;
  for (const auto& variable : step.graph->variables()) {
    const bool of_teacher = variable->name.starts_with("teacher/");
    EXPECT_EQ(of_teacher, variable->kind == Variable::Kind::kConstant) << variable->name;
    EXPECT_EQ(of_teacher, !variable->is_saved()) << variable->name;
    if (!of_teacher) continue;
    EXPECT_EQ(variable->dtype, DType::kBFloat16) << "a constant needs no wider master";
    ++constants;
  }
  EXPECT_GT(constants, 10);
  const auto evaluation = build_evaluation(*distillation({}), taught_rows().first, kTaughtRows, {}).graph;
  for (const auto& variable : evaluation->variables()) EXPECT_FALSE(variable->name.starts_with("teacher/"));
}

/// Three steps of Adam.
std::map<std::string, Values> train_taught(TrainStepOptions options, const Layouts& layouts,
                                           int processes = 1) {
  options.batch_size = kTaughtRows;
  options.update = UpdateOptions{parse_optimizer("{type: adam, epsilon: 1e-3}"), {0.01}, 10, {}};
  auto [features, feeds] = taught_rows();
  const TrainStep step = build_train_step(
      *distillation({.weight = 0.5, .temperature = 2, .start_step = 1}, 0.1, taught_model(16, 16, 0.1)),
      features, options);
  return run_taught_steps(step, layouts, std::move(feeds), processes);
}

void expect_same_values(const std::map<std::string, Values>& actual,
                        const std::map<std::string, Values>& expected) {
  for (const auto& [name, values] : expected) expect_close(name, actual.at(name), values, 2e-5, 2e-6);
}

TEST(Distillation, IsTheSameOnEveryLayout) {
  const auto expected = train_taught({}, Layouts::single());
  const std::vector<std::array<std::string, 3>> all = {
      {"x:2", "batch:x", ""},
      {"y:2", "heads:y;d_ff:y;vocab:y", ""},
      {"x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y", ""},
      {"x:2;y:2", "batch:x;d_model:y", ""},
      {"x:2", "batch:x", "d_model:x"},  // FSDP
      {"x:2", "length:x", ""},
      {"x:8", "batch:x", "d_model:x"},
      {"x:8", "heads:x;d_ff:x;vocab:x", ""},
  };
  for (const auto& [mesh, layout, parameters] : all) {
    for (const int64_t microbatches : {1, 2}) {
      if (mesh == "x:8" && layout == "batch:x" && microbatches > 1) continue;
      if (microbatches > 1 && !parameters.empty() && mesh == "x:8") continue;
      SCOPED_TRACE(fmt::format("{} {} {} {}", mesh, layout, parameters, microbatches));
      TrainStepOptions options;
      options.microbatches = microbatches;
      if (microbatches > 1) options.recompute = RecomputeWord::kBlock;
      expect_same_values(train_taught(options, layouts(mesh, layout, parameters)), expected);
    }
  }
}

/// `split` with a layout of the teacher's own.
Layouts with_teacher_layout(Layouts split, const std::string& layout, const std::string& parameter_layout) {
  const LayoutRules activation = LayoutRules::parse(layout);
  split.part = ScopeLayouts{std::string(kTeacher), "distill", activation,
                            activation.plus(LayoutRules::parse(parameter_layout))};
  return split;
}

TEST(Distillation, TheTeacherHasALayoutOfItsOwn) {
  const auto expected = train_taught({}, Layouts::single());
  const std::vector<std::array<std::string, 4>> all = {
      {"x:2", "batch:x", "heads:x;d_ff:x;vocab:x", ""},
      {"x:2", "heads:x;d_ff:x;vocab:x", "batch:x", "d_ff:x"},
      {"x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y", "batch:y;d_ff:x", ""},
      {"x:2;y:2", "batch:x;d_model:y", "", ""},
      {"x:8", "batch:x", "heads:x", "d_ff:x"},
  };
  for (const auto& [mesh, layout, own, parameters] : all) {
    for (const int64_t microbatches : {1, 2}) {
      if (mesh == "x:8" && microbatches > 1) continue;
      SCOPED_TRACE(fmt::format("{} {} {} {} {}", mesh, layout, own, parameters, microbatches));
      TrainStepOptions options;
      options.microbatches = microbatches;
      const Layouts split = with_teacher_layout(layouts(mesh, layout), own, parameters);
      expect_same_values(train_taught(options, split), expected);
      if (mesh != "x:8") {
        const auto two = train_taught(options, split, 2), one = train_taught(options, split);
        for (const auto& [name, values] : one) EXPECT_EQ(two.at(name), values) << name;
      }
    }
  }
}

TEST(Distillation, MistakesInTheLayoutOfTheTeacherNameIt) {
  TrainStepOptions options;
  options.batch_size = kTaughtRows;
  const TrainStep step = build_train_step(*distillation({}), taught_rows().first, options);
  const auto first_mistake = [&](const std::string& own) {
    Diagnostics diagnostics;
    check_layouts(*step.graph, with_teacher_layout(layouts("x:3", ""), own, ""), diagnostics);
    return diagnostics.has_errors() ? diagnostics.errors()[0].message : "";
  };
  EXPECT_EQ(first_mistake(""), "");
  EXPECT_THAT(first_mistake("d_ff:x"), ::testing::StartsWith("distill.layout splits `d_ff` (16) over"));
  EXPECT_THAT(first_mistake("d_ff:z"), ::testing::StartsWith("distill.layout splits `d_ff` over `z`"));
}

TEST(Distillation, ProcessesChangeNoBit) {
  for (const auto& [mesh, layout, parameters] :
       {std::array{"x:2;y:2", "batch:x;heads:y;d_ff:y", ""}, std::array{"x:4", "batch:x", "d_model:x"}}) {
    const Layouts split = layouts(mesh, layout, parameters);
    const auto one = train_taught({}, split), two = train_taught({}, split, 2);
    for (const auto& [name, values] : one) EXPECT_EQ(two.at(name), values) << name;
  }
}

TEST(Distillation, ClassifiersTeachEachOther) {
  const std::vector<Feature> features = {{"image", {{"pixels", 6}}, DType::kFloat32},
                                         {"labels", {}, DType::kInt32}};
  const auto classifier = [](int64_t hidden, std::string_view classes) {
    return parse_model(fmt::format(
        "{{type: classifier, layers: [dense: {{output: {{hidden: {}}}, activation: relu}}, dropout: 0.3, "
        "dense: {{output: {{{}: 4}}}}]}}",
        hidden, classes));
  };
  const Distillation model(classifier(4, "classes"), classifier(16, "answers"),
                           {.weight = 0.5, .temperature = 4}, Mark{});
  TrainStepOptions options;
  options.batch_size = 4;
  const TrainStep step = build_train_step(model, features, options);
  std::map<std::string, Values> feeds{{"labels", {0, 1, 2, 3}}};
  for (int i = 0; i < 24; ++i) feeds["image"].push_back(std::cos(i));
  for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(0)};
  const MeshRunOptions run{.variables = teacher_weights(*step.graph)};
  const auto one = run_on_mesh(*step.graph, Layouts::single(), feeds, run).outputs;
  EXPECT_NEAR(one.at("loss")[0], 0.5 * one.at("report/hard_loss")[0] + 8 * one.at("report/soft_loss")[0],
              1e-5);
  const auto split = run_on_mesh(*step.graph, layouts("x:2;y:2", "batch:x;hidden:y"), feeds, run).outputs;
  for (const auto& [name, values] : one) expect_close(name, split.at(name), values, 1e-5);
}

/// The soft loss of a head in single operations, from the logits of both.
Tensor composed_soft_loss(const Head& head, const Features& features, const Tensor& student,
                          const Tensor& teacher, double temperature) {
  Graph& graph = student.graph();
  const auto cross = [&](const Tensor& of_student, const Tensor& of_teacher, const std::string& classes) {
    const Tensor soft = softmax(scalar_multiply(of_teacher, 1 / temperature), classes);
    const Tensor log_weights = log_softmax(scalar_multiply(of_student, 1 / temperature), classes);
    const Shape rows = of_student.shape() - Shape{of_student.shape().dimension(classes)};
    return negative(reduce_sum(multiply(soft, log_weights), rows));
  };
  const auto number = [&](const Tensor& is_true) { return cast(is_true, DType::kFloat32); };
  if (head.name == "regression") return reduce_mean(square(subtract(student, teacher)), Shape{});
  if (head.name == "classifier") return reduce_mean(cross(student, teacher, "classes"), Shape{});
  if (head.name == "tagger") {
    const Tensor has_tag = number(greater_equal(features.at("tags"), graph.constant(0, DType::kInt32)));
    const Tensor losses = multiply(cross(student, teacher, "tags"), has_tag);
    return divide(reduce_sum(losses, Shape{}), reduce_sum(has_tag, Shape{}));
  }
  if (head.name == "spans") {
    const Tensor& mask = features.at("answer_mask");
    const Tensor penalty = scalar_multiply(number(equal(mask, graph.constant(0, DType::kInt32))), -1e9);
    const auto side = [&](int64_t at) {
      const auto bounds = [&](const Tensor& logits) { return add(gather(logits, at, "span"), penalty); };
      return reduce_mean(cross(bounds(student), bounds(teacher), "length"), Shape{});
    };
    return scalar_multiply(add(side(0), side(1)), 0.5);
  }
  const Tensor is_hidden = number(greater(features.at("targets"), graph.constant(0, DType::kInt32)));
  return reduce_mean(multiply(cross(student, teacher, "vocab"), is_hidden), Shape{});
}

constexpr int64_t kStudentWidth = 8, kTeacherWidth = 12, kNoPadding = kHeadVocabulary;
constexpr double kHeadWeight = 0.7;

/// The formula of distillation in single operations.
class ComposedHeads final : public Model {
 public:
  ComposedHeads(Head head, double temperature) : head_(std::move(head)), temperature_(temperature) {}
  std::vector<std::string> features() const override { return student_->features(); }
  std::vector<std::string> optional_features() const override { return student_->optional_features(); }
  std::vector<std::string> metrics() const override { return student_->metrics(); }
  std::string_view labels_feature() const override { return student_->labels_feature(); }
  bool labels_may_lack() const override { return student_->labels_may_lack(); }
  ModelOutput build(Context& context, const Features& features) const override {
    ModelOutput output = student_->build(context, features);
    Context applied = Context::applied(context);
    const auto scope = context.graph().scope("teacher");
    const Tensor teacher = teacher_->build(applied, features).logits;
    const Tensor soft = composed_soft_loss(head_, features, output.logits, teacher, temperature_);
    output.loss = add(scalar_multiply(output.loss, 1 - kHeadWeight),
                      scalar_multiply(soft, temperature_ * temperature_ * kHeadWeight));
    return output;
  }

 private:
  Head head_;
  double temperature_;
  std::unique_ptr<Model> student_ = text_head_model(head_, kStudentWidth, kNoPadding),
                         teacher_ = text_head_model(head_, kTeacherWidth, kNoPadding);
};

class DistilledHeads : public ::testing::TestWithParam<Head> {
 protected:
  static double temperature() { return GetParam().name == "regression" ? 1 : 3; }
  static std::unique_ptr<Model> distilled() {
    const DistillOptions options{.weight = kHeadWeight, .temperature = temperature()};
    return std::make_unique<Distillation>(text_head_model(GetParam(), kStudentWidth, kNoPadding),
                                          text_head_model(GetParam(), kTeacherWidth, kNoPadding), options,
                                          Mark{});
  }
  static MeshRun run(const Model& model, TrainStepOptions options, const Layouts& layouts) {
    options.batch_size = kHeadRows;
    const TrainStep step = build_train_step(model, text_head_features(GetParam()), options);
    std::map<std::string, Values> feeds = text_head_feeds(GetParam());
    for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(0)};
    return run_on_mesh(*step.graph, layouts, feeds, {.variables = teacher_weights(*step.graph)});
  }
};

TEST_P(DistilledHeads, HaveTheLossAndGradientsOfTheFormula) {
  const auto actual = run(*distilled(), {}, Layouts::single()).outputs,
             expected = run(ComposedHeads(GetParam(), temperature()), {}, Layouts::single()).outputs;
  int gradients = 0;
  for (const auto& [name, values] : expected) {
    expect_close(name, actual.at(name), values, 1e-5);
    gradients += name.starts_with("grad/");
  }
  EXPECT_GT(gradients, 10);
  EXPECT_GT(actual.at("report/soft_loss")[0], 0);
}

TEST_P(DistilledHeads, AreTheSameOnEveryLayout) {
  TrainStepOptions options;
  options.update = UpdateOptions{parse_optimizer("adam"), {0.01}, 10, {}};
  const MeshRun expected = run(*distilled(), options, Layouts::single());
  const auto expect_expected = [&](const MeshRun& other) {
    for (const auto& [name, values] : expected.outputs)
      expect_close(name, other.outputs.at(name), values, 1e-5);
  };
  for (const Layouts& layouts : text_head_meshes()) expect_expected(run(*distilled(), options, layouts));
  options.microbatches = 4;
  expect_expected(run(*distilled(), options, layouts("a:2", "batch:a")));
}

INSTANTIATE_TEST_SUITE_P(Heads, DistilledHeads, ::testing::ValuesIn([] {
                           std::vector<Head> heads = text_heads();
                           std::erase_if(heads,
                                         [](const Head& head) { return head.name.starts_with("mean_"); });
                           for (Head& head : heads) {
                             if (head.model.starts_with("type: masked_lm")) head.model += ", z_loss: 0";
                           }
                           return heads;
                         }()),
                         [](const auto& info) { return info.param.name; });

TEST(Distillation, RefusesATeacherOfOtherTexts) {
  // The targets of masked language models are hidden tokens, without a dimension `length`.
  const Head masked{"", "type: masked_lm", "layer_norm", text_heads().back().targets};
  const Distillation model(text_head_model(masked), parse_model(student_yaml()), {}, Mark{});
  TrainStepOptions options;
  options.batch_size = kHeadRows;
  try {
    build_train_step(model, text_head_features(masked), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("the teacher does not read these data: there is no dimension "
                                     "`length`"));
  }
}

TEST(Distillation, TheTeacherNeedsNoClassifierOfPairs) {
  const Head pairs = text_heads().back();
  ASSERT_EQ(pairs.name, "pretraining");
  const Distillation model(text_head_model(pairs), text_head_model(pairs, kTeacherWidth), {}, Mark{});
  TrainStepOptions options;
  options.batch_size = kHeadRows;
  const TrainStep step = build_train_step(model, text_head_features(pairs), options);
  int of_student = 0;
  for (const auto& variable : step.graph->variables()) {
    EXPECT_FALSE(variable->name.starts_with("teacher/next_sentence")) << variable->name;
    EXPECT_FALSE(variable->name.starts_with("teacher/pooler")) << variable->name;
    of_student += variable->name.starts_with("next_sentence/");
  }
  EXPECT_EQ(of_student, 2);
}

void expect_refused(const std::string& student, const std::string& teacher, const std::string& message,
                    const DistillOptions& distill = {}) {
  const Distillation model(parse_model(student), parse_model(teacher), distill, Mark{});
  const std::vector<Feature> features = {{"targets", {{"length", 8}}, DType::kInt32, kTaughtVocabulary},
                                         {"x", {{"io", 4}}, DType::kFloat32},
                                         {"y", {{"out", 2}}, DType::kFloat32},
                                         {"labels", {}, DType::kInt32},
                                         {"marks", {{"length", 8}}, DType::kInt32}};
  TrainStepOptions options;
  options.batch_size = kTaughtRows;
  try {
    build_train_step(model, features, options);
    FAIL() << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
  }
}

TEST(Distillation, RefusesModelsThatDoNotPredictTheSame) {
  const std::string regression = "{type: regression, layers: [dense: {output: {out: 2}}]}";
  const auto classifier = [](int64_t classes) {
    return fmt::format("{{type: classifier, input: x, layers: [dense: {{output: {{classes: {}}}}}]}}",
                       classes);
  };
  expect_refused(student_yaml(), regression,
                 "the teacher predicts numbers [batch=8, out=2] and the student [batch=8, ");
  expect_refused(regression, student_yaml(), "the student numbers [batch=8, out=2]");
  expect_refused(regression, regression, "the models predict numbers, which have no temperature (2)",
                 {.temperature = 2});
  const auto tokens = [](std::string_view model, std::string_view last) {
    return fmt::format(
        "{{type: {}, input: targets, layers: [embedding: {{output: {{d_model: 4}}}}, dense: {{output: "
        "{{{}}}}}]}}",
        model, last);
  };
  expect_refused(
      tokens("tagger, labels: marks", "tags: 4"), tokens("tagger, labels: marks", "tags: 5"),
      "the teacher predicts [batch=8, length=8, tags=5] and the student [batch=8, length=8, tags=4]");
  const std::string spans = tokens("spans, mask: marks, start: labels, end: labels", "span: 2");
  expect_refused(spans, tokens("tagger, labels: marks", "tags: 4"),
                 "the teacher predicts [batch=8, length=8, tags=4] and the student [batch=8, length=8], "
                 "[batch=8, length=8]");
  expect_refused(classifier(4), classifier(5),
                 "the teacher predicts [batch=8, classes=5] and the student [batch=8, classes=4]");
  expect_refused(student_yaml(), classifier(5),
                 "the teacher predicts [batch=8, classes=5] and the student [batch=8, ");
  expect_refused(
      student_yaml(),
      "{type: aligned, d_model: 8, num_layers: 1, max_length: 8, block: [DenseReluDense: {hidden_size: 8}]}",
      "the teacher reads feature `inputs`, which the data do not have");
}

}  // namespace
}  // namespace mtf::testing
