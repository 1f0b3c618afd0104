// Tests models with bfloat16 activations (precision.activation) and with products in bfloat16 (precision.matmul): every
// layer, training and evaluation, on layouts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "engine/graph/structural.h"
#include "tests/support/amx_emulator.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kBatchSize = 8, kVocabularySize = 24;
constexpr Precision kNarrow{.activation = DType::kBFloat16};
constexpr Precision kRounded{.matmul = MatmulPrecision::kBFloat16};
/// The tolerance of losses against those of float32: bfloat16 has 8 bits of precision.
constexpr double kTolerance = 0.02;

struct Case {
  const char* name;
  std::string model;
  std::vector<Feature> features;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const Shape kLength{{"length", 8}};
const std::vector<Feature> kImages = {{"image", Shape{{"rows", 4}, {"cols", 6}}, DType::kFloat32},
                                      {"labels", Shape{}, DType::kInt32}};
const std::vector<Feature> kVectors = {{"x", Shape{{"io", 6}}, DType::kFloat32},
                                       {"y", Shape{{"io", 6}}, DType::kFloat32}};
const std::vector<Feature> kTexts = {{"targets", kLength, DType::kInt32, kVocabularySize},
                                     {"targets_segmentation", kLength, DType::kInt32},
                                     {"targets_position", kLength, DType::kInt32}};
const std::vector<Feature> kAligned = {{"inputs", kLength, DType::kInt32, kVocabularySize},
                                       {"targets", kLength, DType::kInt32, kVocabularySize}};
const std::vector<Feature> kPairs = {
    {"inputs", kLength, DType::kInt32, kVocabularySize}, {"inputs_segmentation", kLength, DType::kInt32},
    {"inputs_position", kLength, DType::kInt32},         {"targets", kLength, DType::kInt32, kVocabularySize},
    {"targets_segmentation", kLength, DType::kInt32},    {"targets_position", kLength, DType::kInt32}};

/// Returns the values of a feature: each row of 8 tokens has two sequences, and the last position is padding.
Values values_of(const Feature& feature) {
  Values values;
  const int64_t size = kBatchSize * feature.shape.size();
  for (int64_t i = 0; i < size; ++i) {
    const int64_t place = i % 8;
    if (feature.name.ends_with("_segmentation")) {
      values.push_back(place == 7 ? 0 : place < 4 ? 1 : 2);
    } else if (feature.name.ends_with("_position")) {
      values.push_back(static_cast<double>(place == 7 ? 0 : place % 4));
    } else if (feature.vocabulary > 0) {
      values.push_back(static_cast<double>(place == 7 ? 0 : place % 4 == 3 ? 1 : 2 + (i * 7 + i / 8) % 20));
    } else if (feature.dtype == DType::kInt32) {
      values.push_back(static_cast<double>(i * 7 % 4));
    } else {
      values.push_back(std::sin(static_cast<double>(i)));
    }
  }
  return values;
}

/// Returns the losses of some steps of Adam.
Values losses(const Case& c, const Precision& precision, const Layouts& layouts = Layouts::single(),
              int64_t microbatches = 1, RecomputeWord recompute = RecomputeWord::kNone) {
  const auto model = parse_model(c.model);
  TrainStepOptions options;
  options.batch_size = kBatchSize;
  options.microbatches = microbatches;
  options.recompute = recompute;
  options.precision = precision;
  options.update = UpdateOptions{parse_optimizer("adam"), {0.01}, 1000, 0.9};
  const TrainStep step = build_train_step(*model, c.features, options);
  Program program = partition(*step.graph, layouts);
  const auto backend = test_backend();
  VariableStore variables(*backend, program.mesh, program.variables, {.replicate = true});
  variables.initialize(1);
  for (const std::string& name : variables.names())
    EXPECT_EQ(variables.variable(name).dtype, DType::kFloat32) << name;
  for (const char* output : {"loss", "grad_norm"})
    EXPECT_EQ(program.values[program.output(output)].dtype, DType::kFloat32);
  Executor executor(std::move(program), *backend, variables, {.threads = 2, .check_replicas = true});
  for (const Feature& feature : c.features) {
    const Shape shape = Shape{{"batch", kBatchSize}} + feature.shape;
    if (executor.program().input(feature.name) != kNoValue)
      executor.feed(feature.name, to_host(shape, feature.dtype, values_of(feature)).bytes.data());
  }
  Values result;
  for (int64_t i = 0; i < 12; ++i) {
    for (const StepScalar& scalar : step.scalars) executor.feed_scalar(scalar.input, scalar.value(i));
    executor.run(static_cast<uint64_t>(i));
    result.push_back(executor.scalar("loss"));
  }
  return result;
}

/// Returns the metrics of an evaluation with the initial weights.
std::map<std::string, Values> metrics(const Case& c, const Precision& precision) {
  const auto model = parse_model(c.model);
  const auto graph =
      build_evaluation(*model, c.features, kBatchSize, {.precision = precision, .averaged = {}}).graph;
  std::map<std::string, Values> feeds{{std::string(kWeightsInput), Values(kBatchSize, 1)}};
  for (const Feature& feature : c.features) feeds[feature.name] = values_of(feature);
  for (const auto& [name, tensor] : graph->outputs()) EXPECT_EQ(tensor.dtype(), DType::kFloat32) << name;
  return run_on_mesh(*graph, Layouts::single(), feeds).outputs;
}

std::string narrow_language_model(const std::string& keys, const std::string& attention = {},
                                  const std::string& feed_forward = {}) {
  return fmt::format(
      "{{type: lm, d_model: 16, num_layers: 2, max_length: 8, vocab_divisor: 8, {} block: [SelfAttention: "
      "{{num_heads: 4, key_value_size: 4, dropout: 0.1, {}}}, DenseReluDense: {{hidden_size: 32, dropout: "
      "0.1, "
      "{}}}]}}",
      keys, attention, feed_forward);
}

const std::string kPairModel =
    "{type: bitransformer, d_model: 16, max_length: 8, vocab_divisor: 8, label_smoothing: 0.1, "
    "layer_defaults: "
    "{SelfAttention: {num_heads: 4, key_value_size: 4, dropout: 0.1}, EncDecAttention: {num_heads: 4, "
    "key_value_size: 4, dropout: 0.1}, DenseReluDense: {hidden_size: 32, dropout: 0.1}}, encoder: "
    "{num_layers: 2, "
    "block: [SelfAttention, DenseReluDense]}, decoder: {num_layers: 2, block: [SelfAttention, "
    "EncDecAttention, "
    "DenseReluDense]}}";

std::vector<Case> cases() {
  return {
      {"classifier",
       "{type: classifier, input: image, layers: [{dense: {output: {hidden: 16}, activation: [swish, "
       "linear]}}, "
       "{dropout: 0.2}, layer_norm, {residual: {layers: [{dense: {output: {hidden: 16}, activation: gelu}}, "
       "{rezero: 0.5}]}}, rms_norm, {save: kept}, {activation: tanh}, {add: {with: kept}}, scale_norm, "
       "{concat: {with: kept, along: hidden}}, {scale: 0.5}, {branches: {along: hidden, paths: "
       "[[{activation: "
       "elu}], [{activation: sigmoid}], []]}}, {dense: {output: {classes: 4}}}]}",
       kImages},
      {"shapes",
       "{type: classifier, input: image, layers: [{dense: {output: {hidden: 12}, over: [cols]}}, {mean: "
       "[rows]}, "
       "{reshape: {output: {a: 3, b: 4}, over: [hidden]}}, {rename: {from: a, to: c}}, {repeat: {times: 2, "
       "layers: "
       "[{activation: softplus}, {activation: squared_relu}]}}, {dense: {output: {classes: 4}, over: [c, "
       "b]}}]}",
       kImages},
      {"regression",
       "{type: regression, input: x, target: y, layers: [{dense: {output: {hidden: 8}, activation: selu}}, "
       "{dense: "
       "{output: {io: 6}}}]}",
       kVectors},
      {"lm", narrow_language_model(""), kTexts},
      {"lm_sinusoid", narrow_language_model("positions: sinusoid, token_dropout: 0.1,"), kTexts},
      {"lm_relative",
       narrow_language_model("positions: none,", "relative_attention_type: bias_shared",
                             "activation: [gelu, linear]"),
       kTexts},
      {"lm_relative_of_each_layer",
       narrow_language_model("positions: none,", "relative_attention_type: bias, num_memory_heads: 1"),
       kTexts},
      {"lm_rotary",
       narrow_language_model("positions: none,", "rotary: true, num_memory_heads: 2",
                             "activation: [swish, linear], bias: true"),
       kTexts},
      {"lm_shared_kv",
       narrow_language_model("", "shared_kv: true, extra_logit: 0, fold_scaling_into_initializer: false"),
       kTexts},
      {"lm_unshared",
       narrow_language_model("shared_embedding_and_softmax: false, label_smoothing: 0.1, z_loss: 0.001,"),
       kTexts},
      {"lm_rezero",
       narrow_language_model(
           "sublayers: {per_layer: [call_layer, dropout: 0.1, rezero: 0.1, residual], final: "
           "[layer_norm]},"),
       kTexts},
      {"lm_prefix", narrow_language_model("input_full_attention: true, loss_on_targets_only: true,"), kTexts},
      {"lm_local",
       "{type: lm, d_model: 16, num_layers: 2, max_length: 8, vocab_divisor: 8, block: [LocalSelfAttention: "
       "{num_heads: 4, key_value_size: 4, radius: 3, dropout: 0.1}, DenseReluDense: {hidden_size: 32}]}",
       kTexts},
      {"aligned",
       "{type: aligned, d_model: 16, num_layers: 1, max_length: 8, vocab_divisor: 8, block: [SelfAttention: "
       "{num_heads: 4, key_value_size: 4}, DenseReluDense: {hidden_size: 32}]}",
       kAligned},
      {"bitransformer", kPairModel, kPairs},
  };
}

class NarrowActivations : public ::testing::TestWithParam<Case> {};

TEST_P(NarrowActivations, LearnAsFloat32Does) {
  const Values wide = losses(GetParam(), {}), narrow = losses(GetParam(), kNarrow);
  expect_close("losses", narrow, wide, kTolerance, 0.01);
  EXPECT_NE(narrow, wide);
  EXPECT_LT(narrow.back(), narrow.front());
}

TEST_P(NarrowActivations, AreEvaluatedAsInFloat32) {
  const auto wide = metrics(GetParam(), {}), narrow = metrics(GetParam(), kNarrow);
  for (const auto& [name, values] : wide) {
    if (name.ends_with("accuracy")) continue;  // predictions that are nearly equal may change
    expect_close(name, narrow.at(name), values, kTolerance, 0.01);
  }
}

TEST_P(NarrowActivations, WithMicrobatchesAndRecomputationTheyAreTheSameUpToRounding) {
  const Values once = losses(GetParam(), kNarrow);
  expect_close("microbatches", losses(GetParam(), kNarrow, Layouts::single(), 4), once, kTolerance, 0.01);
  expect_close("recomputed", losses(GetParam(), kNarrow, Layouts::single(), 1, RecomputeWord::kBlock), once,
               kTolerance, 0.01);
}

class RoundedFactors : public ::testing::TestWithParam<Case> {};

TEST_P(RoundedFactors, LearnAsFloat32Does) {
  const Values wide = losses(GetParam(), {}), rounded = losses(GetParam(), kRounded);
  expect_close("losses", rounded, wide, kTolerance, 0.01);
  EXPECT_NE(rounded, wide);
}

TEST_P(RoundedFactors, ComeWithNarrowActivationsToo) {
  const Precision both{.activation = DType::kBFloat16, .matmul = MatmulPrecision::kBFloat16};
  expect_close("losses", losses(GetParam(), both), losses(GetParam(), {}), kTolerance, 0.01);
}

constexpr auto kNameOfCase = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Models, NarrowActivations, ::testing::ValuesIn(cases()), kNameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, RoundedFactors, ::testing::ValuesIn(cases()), kNameOfCase);

TEST(NarrowNumbersOnLayouts, LearnAsFloat32Does) {
  for (const Case& c : cases()) {
    const std::string name = c.name;
    if (name != "lm" && name != "lm_relative" && name != "bitransformer") continue;
    const Values wide = losses(c, {});
    for (const auto& [mesh, layout, parameters, slots] :
         std::vector<std::array<const char*, 4>>{{"x:2", "batch:x", "", ""},
                                                 {"y:2", "heads:y;d_ff:y;vocab:y", "", ""},
                                                 {"x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y", "", ""},
                                                 {"x:2", "d_model:x", "", ""},
                                                 {"x:2", "length:x", "", ""},
                                                 {"x:8", "batch:x", "", ""},
                                                 {"x:2", "batch:x", "d_model:x", ""},
                                                 {"x:2", "batch:x", "", "d_model:x"}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {} {}", name, mesh, layout, parameters, slots));
      for (const Precision& precision : {kNarrow, kRounded})
        expect_close("losses", losses(c, precision, layouts(mesh, layout, parameters, slots)), wide,
                     kTolerance, 0.01);
    }
  }
}

TEST(RoundedFactorsByAmx, LearnAsFloat32DoesOnLayouts) {
  const WithAmx amx;
  if (!amx.works() || !test_backend()->is_host())
    GTEST_SKIP() << "there is no AVX512-BF16, with which AMX comes";
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Values wide = losses(c, {}), once = losses(c, kRounded);
    EXPECT_NE(once, wide);
    expect_close("losses", once, wide, kTolerance, 0.01);
    for (const auto& [mesh, layout] : std::vector<std::pair<const char*, const char*>>{
             {"x:2", "batch:x"}, {"x:8", "batch:x"}, {"x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y"}})
      expect_close("losses on a mesh", losses(c, kRounded, layouts(mesh, layout)), once, kTolerance, 0.01);
  }
}

TEST(MatmulPrecision, IsAskedForByEveryContraction) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto model = parse_model(c.model);
    TrainStepOptions options;
    options.batch_size = kBatchSize;
    options.precision = {.matmul = MatmulPrecision::kTf32};
    const TrainStep step = build_train_step(*model, c.features, options);
    std::istringstream program(partition(*step.graph, Layouts::single()).to_string());
    int contractions = 0;
    for (std::string line; std::getline(program, line);) {
      if (line.find(" einsum(") == std::string::npos) continue;
      ++contractions;
      EXPECT_THAT(line, ::testing::HasSubstr(", tf32)"));
    }
    EXPECT_GT(contractions, 0);
  }
}

}  // namespace
}  // namespace mtf::testing
