// Compares language models and encoder-decoders with recorded results of Mesh TensorFlow: losses, logits,
// gradients and ten Adafactor steps, on one position and on 2x2 layouts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

/// A recorded batch. Recorded names may be abbreviated (`segmentation` for that of the targets).
struct Recorded {
  explicit Recorded(const std::string& name, int64_t vocabulary)
      : golden(std::string(MTF_SOURCE_DIR "/tests/golden/") + name) {
    for (const std::string& input : golden.names("input/")) {
      const GoldenTensor& tensor = golden.at("input/" + input);
      std::string feature = input;
      if (input == "segmentation" || input == "position") feature = "targets_" + input;
      Shape shape;
      for (int axis = 1; axis < tensor.shape.rank(); ++axis) shape = shape + Shape{tensor.shape[axis]};
      batch_size = tensor.shape[0].size;
      features.push_back({feature, shape, DType::kInt32, vocabulary});
      feeds[feature] = tensor.values;
    }
    for (const std::string& variable : golden.names("weight/"))
      weights[variable] = golden.at("weight/" + variable).values;
  }

  GoldenCase golden;
  int64_t batch_size = 0;
  std::vector<Feature> features;
  std::map<std::string, Values> feeds, weights;
};

const std::vector<std::vector<std::string>> kLayouts = {
    {"", ""},
    {"x:2;y:2", "batch:x;d_ff:y;heads:y;vocab:y"},
    {"x:2;y:2", "batch:x;d_model:y"},
    {"x:2", "length:x"},
    {"x:2;y:2", "batch:x;length:y"},
};

/// Runs `steps` steps of Adafactor on the recorded batch and returns the loss before each.
std::vector<double> train(const Model& model, const Recorded& recorded, const Layouts& layout, int64_t steps,
                          std::map<std::string, Values>& weights, int64_t least_factored = 16) {
  const Optimizer adafactor =
      parse_optimizer(fmt::format("{{type: adafactor, min_dim_size_to_factor: {}}}", least_factored));
  TrainStepOptions options;
  options.batch_size = recorded.batch_size;
  options.update = UpdateOptions{adafactor, {}, 1000};
  const TrainStep step = build_train_step(model, recorded.features, options);
  Program program = partition(*step.graph, layout);
  const auto backend = test_backend();
  VariableStore variables(*backend, program.mesh, program.variables, {.replicate = true});
  variables.initialize(1);
  for (const auto& [name, values] : recorded.weights) {
    const Variable& variable = variables.variable(name);
    variables.set(name, to_host(variable.shape, variable.dtype, values));
  }
  Executor executor(std::move(program), *backend, variables, {.threads = 2, .check_replicas = true});
  for (const Feature& feature : recorded.features) {
    const Shape shape = Shape{{"batch", recorded.batch_size}} + feature.shape;
    if (executor.program().input(feature.name) != kNoValue)
      executor.feed(feature.name,
                    to_host(shape, DType::kInt32, recorded.feeds.at(feature.name)).bytes.data());
  }
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    for (const StepScalar& scalar : step.scalars) executor.feed_scalar(scalar.input, scalar.value(i));
    executor.run(static_cast<uint64_t>(i));
    losses.push_back(executor.scalar("loss"));
  }
  for (const auto& [name, values] : recorded.weights) weights[name] = from_host(variables.get(name));
  return losses;
}

/// Returns the layouts of an entry, a name and a layout, of kLayouts and similar lists.
Layouts layouts_of(const std::vector<std::string>& words) {
  return words[0].empty() ? Layouts::single() : layouts(words[0], words[1]);
}

void expect_gradients(const Model& model, const Recorded& recorded,
                      const std::vector<std::vector<std::string>>& all_layouts) {
  TrainStepOptions options;
  options.batch_size = recorded.batch_size;
  options.keep_prediction = true;
  const TrainStep step = build_train_step(model, recorded.features, options);
  for (const std::vector<std::string>& words : all_layouts) {
    SCOPED_TRACE(fmt::format("{} on {}", words[1], words[0]));
    std::map<std::string, Values> feeds;
    for (const Feature& feature : recorded.features) feeds[feature.name] = recorded.feeds.at(feature.name);
    const MeshRun run = run_on_mesh(*step.graph, layouts_of(words), feeds, {.variables = recorded.weights});
    expect_close("loss", run.outputs.at("loss"), recorded.golden.at("loss").values, 1e-5, 0);
    expect_close("logits", run.outputs.at("output/logits"), recorded.golden.at("output/logits").values, 1e-5);
    const std::vector<std::string> gradients = recorded.golden.names("grad/");
    EXPECT_GT(gradients.size(), 8u);
    for (const std::string& variable : gradients)
      expect_close("grad/" + variable, run.outputs.at("grad/" + variable),
                   recorded.golden.at("grad/" + variable).values, 1e-4);
  }
}

void expect_case(const std::string& name, int64_t vocabulary, const std::string& yaml,
                 const std::vector<std::vector<std::string>>& all_layouts = kLayouts) {
  const Recorded recorded(name, vocabulary);
  const auto model = parse_model(yaml);
  expect_gradients(*model, recorded, all_layouts);
  for (const std::vector<std::string>& words : all_layouts) {
    SCOPED_TRACE(fmt::format("{} on {}", words[1], words[0]));
    std::map<std::string, Values> weights;
    const std::vector<double> losses = train(*model, recorded, layouts_of(words), 10, weights);
    const Values& expected = recorded.golden.at("trajectory/loss").values;
    expect_close("trajectory", losses, Values(expected.begin(), expected.end() - 1), 1e-3);
    for (const std::string& variable : recorded.golden.names("final_weight/"))
      expect_close(variable, weights.at(variable), recorded.golden.at("final_weight/" + variable).values,
                   1e-3);
  }
}

/// With combine_dims: false variables have other dimensions, and everything has the recorded values except
/// the steps of an optimizer that factors the variables.
void expect_case_with_heads_apart(const std::string& name, int64_t vocabulary, std::string yaml) {
  const std::string key = "num_heads: 4, ", option = "combine_dims: false, ";
  ASSERT_NE(yaml.find(key), std::string::npos);
  const Recorded recorded(name, vocabulary);
  const auto together = parse_model(yaml);
  for (size_t at = yaml.find(key); at != std::string::npos; at = yaml.find(key, at + option.size() + 1))
    yaml.insert(at, option);
  const auto apart = parse_model(yaml);
  std::vector<std::vector<std::string>> all_layouts = kLayouts;
  all_layouts.push_back({"x:2;y:2", "heads:x;d_kv:y"});
  all_layouts.push_back({"x:2;y:4", "d_model:x;d_kv:y"});
  expect_gradients(*apart, recorded, all_layouts);
  std::map<std::string, Values> one;
  const std::vector<double> losses = train(*apart, recorded, Layouts::single(), 4, one, 8);
  for (const std::vector<std::string>& words : all_layouts) {
    SCOPED_TRACE(fmt::format("{} on {}", words[1], words[0]));
    std::map<std::string, Values> weights;
    expect_close("losses", train(*apart, recorded, layouts_of(words), 4, weights, 8), losses, 1e-5);
    for (const auto& [variable, values] : one) expect_close(variable, weights.at(variable), values, 1e-3);
  }
  // Adafactor's two largest dimensions are d_model and d_kv instead of d_model and heads * d_kv.
  std::map<std::string, Values> of_together;
  train(*together, recorded, Layouts::single(), 4, of_together, 8);
  const std::string o = std::ranges::find_if(one, [](const auto& weight) {
                          return weight.first.ends_with("SelfAttention/o");
                        })->first;
  EXPECT_GT(relative_difference(one.at(o), of_together.at(o)), 1e-4);
  // If it factors neither form, both have the same losses.
  train(*apart, recorded, Layouts::single(), 4, one, 1000);
  train(*together, recorded, Layouts::single(), 4, of_together, 1000);
  for (const auto& [variable, values] : one) EXPECT_EQ(values, of_together.at(variable)) << variable;
}

constexpr const char* kGoldenLanguageModel = "type: lm, d_model: 32, num_layers: 2, max_length: 16";

TEST(GoldenTransformer, LanguageModel) {
  expect_case("04_lm_default", 64,
              fmt::format("{{{}, block: [SelfAttention: {{num_heads: 4, key_value_size: 8}}, "
                          "DenseReluDense: {{hidden_size: 64}}]}}",
                          kGoldenLanguageModel));
}

TEST(GoldenTransformer, SeparateSoftmaxWeights) {
  expect_case(
      "04_lm_unshared", 64,
      fmt::format(
          "{{{}, vocab_divisor: 8, shared_embedding_and_softmax: false, label_smoothing: 0.1, z_loss: 0.001, "
          "loss_denominator: 50, "
          "block: [SelfAttention: {{num_heads: 4, key_value_size: 8}}, "
          "DenseReluDense: {{hidden_size: 64}}]}}",
          kGoldenLanguageModel));
}

TEST(GoldenTransformer, LocalAttentionWithSharedKeysAndValues) {
  expect_case(
      "04_lm_local_shared_kv", 64,
      fmt::format(
          "{{{}, vocab_divisor: 8, block: [LocalSelfAttention: {{num_heads: 4, key_value_size: 8, radius: 4, "
          "shared_kv: true}}, DenseReluDense: {{hidden_size: 64, activation: swish, bias: true}}]}}",
          kGoldenLanguageModel));
}

TEST(GoldenTransformer, SharedRelativeBiasAndGatedUnits) {
  expect_case("04_lm_relative_t5", 64,
              fmt::format("{{{}, vocab_divisor: 8, positions: none, block: [SelfAttention: {{num_heads: 4, "
                          "key_value_size: 8, "
                          "relative_attention_type: bias_shared, relative_attention_num_buckets: 8}}, "
                          "DenseReluDense: {{hidden_size: 64, activation: [gelu, linear]}}]}}",
                          kGoldenLanguageModel));
}

TEST(GoldenTransformer, SwitchedExperts) {
  std::vector<std::vector<std::string>> all_layouts = kLayouts;
  all_layouts.push_back({"x:2", "batch:x;experts:x"});
  all_layouts.push_back({"x:2;y:2", "batch:x;heads:y;vocab:y;experts:x"});
  all_layouts.push_back({"x:2;y:4", "batch:x;experts:y"});
  all_layouts.push_back({"x:2;y:4", "experts:x;expert_hidden:y"});
  expect_case(
      "04_lm_moe_switch", 64,
      fmt::format("{{{}, vocab_divisor: 8, block: [SelfAttention: {{num_heads: 4, key_value_size: 8}}, "
                  "MoE1D: {{num_experts: 4, hidden_size: 64, group_size: 6, gating: switch, "
                  "switch_policy_train: argmax, z_loss: 0.001, capacity_factor_train: 1, "
                  "min_expert_capacity: 2}}]}}",
                  kGoldenLanguageModel),
      all_layouts);
}

TEST(GoldenTransformer, PrefixLanguageModelWithSinusoidsAndOneMemoryHead) {
  expect_case("04_lm_sinusoid_mqa_prefix", 64,
              fmt::format("{{{}, vocab_divisor: 8, positions: sinusoid, input_full_attention: true, "
                          "loss_on_targets_only: true, "
                          "block: [SelfAttention: {{num_heads: 4, key_value_size: 8, num_memory_heads: 1, "
                          "combine_dims: true, fold_scaling_into_initializer: false}}, "
                          "DenseReluDense: {{hidden_size: 64}}]}}",
                          kGoldenLanguageModel));
}

TEST(GoldenTransformer, HeadsApartWithOneMemoryHead) {
  expect_case_with_heads_apart(
      "04_lm_sinusoid_mqa_prefix", 64,
      fmt::format("{{{}, vocab_divisor: 8, positions: sinusoid, input_full_attention: true, "
                  "loss_on_targets_only: true, "
                  "block: [SelfAttention: {{num_heads: 4, key_value_size: 8, num_memory_heads: 1, "
                  "fold_scaling_into_initializer: false}}, DenseReluDense: {{hidden_size: 64}}]}}",
                  kGoldenLanguageModel));
}

TEST(GoldenTransformer, HeadsApartInLocalAttention) {
  expect_case_with_heads_apart(
      "04_lm_local_shared_kv", 64,
      fmt::format(
          "{{{}, vocab_divisor: 8, block: [LocalSelfAttention: {{num_heads: 4, key_value_size: 8, radius: 4, "
          "shared_kv: true}}, DenseReluDense: {{hidden_size: 64, activation: swish, bias: true}}]}}",
          kGoldenLanguageModel));
}

constexpr const char* kBitransformer = "type: bitransformer, d_model: 32, max_length: 16, vocab_divisor: 8";

TEST(GoldenTransformer, EncoderDecoder) {
  expect_case(
      "05_seq2seq_default", 40,
      fmt::format(
          "{{{}, layer_defaults: {{SelfAttention: {{num_heads: 4, key_value_size: 8}}, "
          "EncDecAttention: {{num_heads: 4, key_value_size: 8}}, DenseReluDense: {{hidden_size: 48}}}}, "
          "encoder: {{num_layers: 2, block: [SelfAttention, DenseReluDense]}}, "
          "decoder: {{num_layers: 2, block: [SelfAttention, EncDecAttention, DenseReluDense]}}}}",
          kBitransformer));
}

std::string golden_t5() {
  return fmt::format(
      "{{{}, positions: none, shared_embedding_and_softmax: false, "
      "layer_defaults: {{SelfAttention: {{num_heads: 4, key_value_size: 8, relative_attention_type: "
      "bias_shared, relative_attention_num_buckets: 8}}, EncDecAttention: {{num_heads: 4, key_value_size: "
      "8}}, DenseReluDense: {{hidden_size: 48, activation: [gelu, linear]}}}}, "
      "encoder: {{num_layers: 2, block: [SelfAttention, DenseReluDense]}}, "
      "decoder: {{num_layers: 2, block: [SelfAttention, EncDecAttention, DenseReluDense]}}}}",
      kBitransformer);
}

TEST(GoldenTransformer, EncoderDecoderOfT5) { expect_case("05_seq2seq_t5", 40, golden_t5()); }

TEST(GoldenTransformer, HeadsApartInAnEncoderDecoder) {
  expect_case_with_heads_apart("05_seq2seq_t5", 40, golden_t5());
}

}  // namespace
}  // namespace mtf::testing
