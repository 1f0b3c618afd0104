// Transformers with layers and options that single families of models use: losses, gradients and logits of Mesh
// TensorFlow where it has them, and the same for every layout, number of microbatches and choice of recomputed layers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/spmd/program_facts.h"
#include "layers/span_positions.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/sine_weights.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

/// How a step is computed; none of it changes the result.
struct StepArrangement {
  std::string mesh, layout;
  int64_t microbatches = 1;
  std::vector<std::string> recompute = {};

  std::string to_string() const {
    return fmt::format("`{}` on `{}`, {} microbatches, recompute [{}]", layout, mesh, microbatches,
                       fmt::join(recompute, ", "));
  }
};

/// A small model with weights that follow a formula, and packed rows of eight tokens.
class TinyVariant {
 public:
  explicit TinyVariant(const std::string& yaml, int64_t rows = 2) : rows_(rows), model_(parse_model(yaml)) {
    fill("targets", {5, 9, 3, 1, 7, 12, 1, 0, 4, 4, 17, 2, 30, 1, 0, 0},
         {1, 1, 1, 1, 2, 2, 2, 0, 1, 1, 1, 1, 1, 1, 0, 0}, {0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 2, 3, 4, 5, 0, 0});
    const std::vector<std::string> names = model_->features();
    if (std::ranges::find(names, "inputs") != names.end())
      fill("inputs", {6, 2, 8, 1, 11, 3, 1, 0, 9, 21, 1, 0, 0, 0, 0, 0},
           {1, 1, 1, 1, 2, 2, 2, 0, 1, 1, 1, 0, 0, 0, 0, 0},
           {0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 2, 0, 0, 0, 0, 0});
  }

  MeshRun run(const StepArrangement& arrangement = {}) const {
    const TrainStep step = build(arrangement);
    const Layouts layouts =
        arrangement.mesh.empty() ? Layouts::single() : testing::layouts(arrangement.mesh, arrangement.layout);
    Diagnostics diagnostics;
    check_layouts(*step.graph, layouts, diagnostics);
    diagnostics.throw_if_errors();
    return run_on_mesh(*step.graph, layouts, feeds_, {.variables = sine_weights(*step.graph)});
  }

  /// Compares the slope of the loss along the gradient of each variable with the length of the gradient.
  void expect_gradients_are_slopes() const {
    const TrainStep step = build({});
    // Larger weights than those of the published values, so that norms do not bend the loss.
    std::map<std::string, Values> start = sine_weights(*step.graph);
    for (auto& [variable, values] : start) {
      if (variable.ends_with("scale")) continue;
      const double size = variable.ends_with("embedding") ? 1 : 0.3;
      for (size_t i = 0; i < values.size(); ++i)
        values[i] =
            size * std::sin(1.7 * static_cast<double>(i * i % 1009) + static_cast<double>(variable.size()));
    }
    const auto run_at = [&](const std::map<std::string, Values>& at) {
      return run_on_mesh(*step.graph, Layouts::single(), feeds_, {.variables = at}).outputs;
    };
    const std::map<std::string, Values> outputs = run_at(start);
    for (const auto& [variable, values] : start) {
      const Values& gradient = outputs.at("grad/" + variable);
      double length = 0;
      for (const double g : gradient) length += g * g;
      length = std::sqrt(length);
      if (length < 1e-4) continue;
      constexpr double kStep = 1e-3;
      const auto loss = [&](double step_size) {
        std::map<std::string, Values> moved = start;
        for (size_t i = 0; i < gradient.size(); ++i) moved[variable][i] += step_size * gradient[i] / length;
        return run_at(moved).at("loss")[0];
      };
      EXPECT_NEAR((loss(kStep) - loss(-kStep)) / (2 * kStep), length, 0.03 * length + 2e-3) << variable;
    }
  }

  TrainStep build(const StepArrangement& arrangement) const {
    TrainStepOptions options;
    options.batch_size = rows_;
    options.keep_prediction = true;
    options.microbatches = arrangement.microbatches;
    if (!arrangement.recompute.empty()) options.recompute = arrangement.recompute;
    return build_train_step(*model_, features_, options);
  }

 private:
  void fill(const std::string& name, const Values& ids, const Values& segments, const Values& positions) {
    const Shape length{{"length", 8}};
    features_.push_back({name, length, DType::kInt32, 40});
    features_.push_back({name + "_segmentation", length, DType::kInt32, 40});
    features_.push_back({name + "_position", length, DType::kInt32, 40});
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t i = 0; i < 8; ++i) {
        const auto at = static_cast<size_t>(row % 2 * 8 + i);
        const bool varied = row >= 2 && ids[at] > 1;
        feeds_[name].push_back(varied ? std::fmod(ids[at] * static_cast<double>(row + 3), 38) + 2 : ids[at]);
        feeds_[name + "_segmentation"].push_back(segments[at]);
        feeds_[name + "_position"].push_back(positions[at]);
      }
    }
  }

  int64_t rows_;
  std::unique_ptr<Model> model_;
  std::vector<Feature> features_;
  std::map<std::string, Values> feeds_;
};

std::string language_model(const std::string& block, const std::string& more = "") {
  return fmt::format(
      "{{type: lm, d_model: 16, num_layers: 2, max_length: 8, z_loss: 0.0001, {} block: [{}], "
      "layer_defaults: "
      "{{SelfAttention: {{num_heads: 2, key_value_size: 8}}, LocalSelfAttention: {{num_heads: 2, "
      "key_value_size: 8, "
      "radius: 3}}, DenseReluDense: {{hidden_size: 32}}}}}}",
      more, block);
}

/// `attention` is the decoder's layer that looks at the encoder.
std::string translator(const std::string& attention, const std::string& more = "") {
  return fmt::format(
      "{{type: bitransformer, d_model: 16, max_length: 8, z_loss: 0.0001, {} layer_defaults: "
      "{{SelfAttention: "
      "{{num_heads: 2, key_value_size: 8}}, EncDecAttention: {{num_heads: 2, key_value_size: 8}}, "
      "DenseReluDense: {{hidden_size: 32}}}}, encoder: {{num_layers: 2, block: [SelfAttention, "
      "DenseReluDense]}}, "
      "decoder: {{num_layers: 2, block: [SelfAttention, {}, DenseReluDense]}}}}",
      more, attention);
}

const std::string kTalkingHeads =
    "key_heads: {hk: 2}, softmax_heads: {hs: 3}, value_heads: {hv: 4}, key_size: 8, value_size: 8";
const std::string kTransparent =
    "TransparentEncDecAttention: {num_heads: 2, key_value_size: 8, layers_per_encoder_module: 2, "
    "layers_per_decoder_module: 3, encoder_num_modules: 2, decoder_num_modules: 2}";

double gradient_norm(const MeshRun& run) {
  double squares = 0;
  for (const auto& [name, values] : run.outputs) {
    if (!name.starts_with("grad/")) continue;
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

struct PublishedVariant {
  std::string name, yaml;
  double loss, gradient_norm;
  std::array<double, 4> logits;
};
std::ostream& operator<<(std::ostream& out, const PublishedVariant& variant) { return out << variant.name; }

class PublishedVariants : public ::testing::TestWithParam<PublishedVariant> {};

TEST_P(PublishedVariants, GiveThePublishedLossGradientAndLogits) {
  const PublishedVariant& expected = GetParam();
  const MeshRun run = TinyVariant(expected.yaml).run();
  EXPECT_NEAR(run.outputs.at("loss")[0], expected.loss, 1e-5);
  EXPECT_NEAR(gradient_norm(run), expected.gradient_norm, 1e-4);
  const Values& logits = run.outputs.at("output/logits");
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(logits[128 + i], expected.logits[i], 1e-5);
  EXPECT_NEAR(logits[12 * 128 + 39], expected.logits[3], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Variants, PublishedVariants,
    ::testing::Values(
        PublishedVariant{"plain",
                         language_model("SelfAttention, DenseReluDense"),
                         3.921528,
                         4.878407,
                         {.212982, .226109, -.121180, .194030}},
        PublishedVariant{"parallel",
                         language_model("parallel: [DenseReluDense, SelfAttention]"),
                         3.921644,
                         5.252443,
                         {.205407, .231320, -.111488, .181784}},
        PublishedVariant{
            "talking_heads",
            language_model(fmt::format("TalkingHeadsSelfAttention: {{{}}}, DenseReluDense", kTalkingHeads)),
            3.936338,
            6.228583,
            {.191995, .239441, -.094779, .026726}},
        PublishedVariant{
            "talking_heads_with_dynamic_projections",
            language_model(fmt::format("TalkingHeadsSelfAttention: {{{}, dynamic_projections: [x2l, m2l, "
                                       "x2w, m2w]}}, DenseReluDense",
                                       kTalkingHeads)),
            3.935739,
            6.284101,
            {.192990, .238883, -.096001, .030200}},
        PublishedVariant{"encoder_decoder",
                         translator("EncDecAttention"),
                         3.934620,
                         3.968138,
                         {.228469, .213776, -.141673, .021512}},
        PublishedVariant{"transparent",
                         translator(kTransparent),
                         3.925454,
                         6.036620,
                         {.218332, .222122, -.128148, .125402}}),
    [](const auto& info) { return info.param.name; });

/// Section 6.2 of the layers' specification: one layer, vocabulary of 32.
double attention_z_loss_of_one_layer(const std::string& layer) {
  const auto model = parse_model(fmt::format(
      "{{type: lm, d_model: 16, num_layers: 1, max_length: 16, vocab_divisor: 8, z_loss: 0.0001, block: "
      "[{}], "
      "sublayers: {{initial: [], per_layer: [rms_norm, call_layer, residual], final: [rms_norm]}}}}",
      layer));
  const Shape length{{"length", 8}};
  const std::vector<Feature> features = {{"targets", length, DType::kInt32, 32},
                                         {"targets_segmentation", length, DType::kInt32, 32}};
  TrainStepOptions options;
  options.batch_size = 2;
  const TrainStep step = build_train_step(*model, features, options);
  const Values targets = {14, 17, 23, 2, 5, 29, 0, 0, 11, 21, 23, 20, 6, 25, 8, 26};
  Values segments;
  for (const double id : targets) segments.push_back(id > 0);
  return run_on_mesh(*step.graph, Layouts::single(),
                     {{"targets", targets}, {"targets_segmentation", segments}},
                     {.variables = sine_weights(*step.graph)})
      .outputs.at("loss")[0];
}

TEST(AttentionZLoss, HasThePublishedValues) {
  const auto attention = [](double z_loss) {
    return fmt::format("SelfAttention: {{num_heads: 2, key_value_size: 8, z_loss: {}}}", z_loss);
  };
  EXPECT_NEAR(attention_z_loss_of_one_layer(attention(0)), 3.1415713, 2e-6);
  EXPECT_NEAR(attention_z_loss_of_one_layer(attention(1e-3)), 3.1433327, 2e-6);
  EXPECT_NEAR(attention_z_loss_of_one_layer(attention(0.1)), 3.3177149, 2e-6);
  EXPECT_NEAR(
      attention_z_loss_of_one_layer(
          "parallel: [DenseReluDense: {hidden_size: 32}, SelfAttention: {num_heads: 2, key_value_size: 8}]"),
      3.1391208, 2e-6);
}

TEST(AttentionZLoss, LeavesTheExtraLogitOut) {
  const MeshRun with = TinyVariant(language_model("SelfAttention: {extra_logit: 2, z_loss: 0.1}")).run();
  const MeshRun without = TinyVariant(language_model("SelfAttention: {extra_logit: 2}")).run();
  const MeshRun other = TinyVariant(language_model("SelfAttention: {z_loss: 0.1}")).run();
  expect_close("logits", with.outputs.at("output/logits"), without.outputs.at("output/logits"), 1e-6);
  EXPECT_NEAR(with.outputs.at("loss")[0],
              without.outputs.at("loss")[0] + with.outputs.at("loss/attention_z")[0], 1e-5);
  // The first layer sees the same in both.
  EXPECT_NEAR(with.outputs.at("loss/attention_z")[0], other.outputs.at("loss/attention_z")[0], 1e-2);
}

struct Variant {
  std::string name, yaml;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

/// Options of attention, alone and together.
const std::vector<std::string> kAttentionOptions = {
    "qk_norm: true",
    "soft_cap: 0.05",
    "prefix_length: 3",
    "z_loss: 0.1",
    "convolution_width: 3",
    "qk_norm: true, soft_cap: 0.8, prefix_length: 2, z_loss: 0.1, convolution_width: 2, rotary: true",
    "prefix_length: 2, z_loss: 0.1, extra_logit: 0.5, dropout: 0.25",
    "prefix_length: 4, num_heads: 4, num_memory_heads: 2, combine_dims: false, key_value_size: 4",
    "qk_norm: true, convolution_width: 3, num_memory_heads: 1, fold_scaling_into_initializer: false",
    "qk_norm: all_heads, qk_norm_epsilon: 0.01, num_heads: 4, num_memory_heads: 2, key_value_size: 4",
    "alibi: true, num_heads: 4, key_value_size: 4, dropout: 0.25",
    "alibi: true, num_heads: 6, num_memory_heads: 2, key_value_size: 4, qk_norm: true, combine_dims: false",
};

std::vector<Variant> variants() {
  std::vector<Variant> result;
  for (size_t i = 0; i < kAttentionOptions.size(); ++i)
    result.push_back(
        {fmt::format("self_attention_{}", i),
         language_model(fmt::format("SelfAttention: {{{}}}, DenseReluDense", kAttentionOptions[i]))});
  result.push_back(
      {"norms_without_biases",
       language_model("SelfAttention, DenseReluDense",
                      "sublayers: {per_layer: [layer_norm: {bias: false}, call_layer, residual], "
                      "final: [layer_norm: {bias: false}]},")});
  result.push_back({"norms_before_all_layers_but_the_first",
                    language_model("SelfAttention, DenseReluDense",
                                   "sublayers: {initial: [layer_norm], first: [call_layer, residual], "
                                   "per_layer: [layer_norm, call_layer, residual], final: [layer_norm]},")});
  result.push_back(
      {"local_attention", language_model("LocalSelfAttention: {qk_norm: true, prefix_length: 2, z_loss: "
                                         "0.1, convolution_width: 3}, DenseReluDense")});
  result.push_back({"local_attention_with_soft_cap",
                    language_model("LocalSelfAttention: {soft_cap: 0.1, num_heads: 4, key_value_size: 4}")});
  result.push_back(
      {"causal_conv", language_model("causal_conv: 3, SelfAttention, causal_conv: 1, causal_conv: 9")});
  result.push_back(
      {"parallel", language_model("parallel: {layers: [SelfAttention, DenseReluDense: {activation: "
                                  "squared_relu}], scale: none}")});
  result.push_back(
      {"parallel_of_three", language_model("parallel: [SelfAttention: {z_loss: 0.1}, LocalSelfAttention, "
                                           "causal_conv: 2]")});
  result.push_back(
      {"capped_logits", language_model("SelfAttention, DenseReluDense", "logit_soft_cap: 0.2,")});
  result.push_back(
      {"without_padding", language_model("SelfAttention: {rotary: true, rotary_scaling: {type: llama3, "
                                         "original_length: 16}}, DenseReluDense",
                                         "predict_padding: false,")});
  result.push_back({"lora", language_model("SelfAttention: {lora: {rank: 2, alpha: 1, kernels: [q, k, o]}}, "
                                           "DenseReluDense: {lora: {rank: 3, alpha: 2, dropout: 0.25}}")});
  result.push_back(
      {"encoder_decoder", translator("EncDecAttention: {qk_norm: true, soft_cap: 0.5, prefix_length: 2, "
                                     "z_loss: 0.1}")});
  result.push_back(
      {"hugging_face_sinusoids_and_logit_bias",
       translator("EncDecAttention", "positions: sinusoid_hf, logit_bias: true, predict_padding: false,")});
  result.push_back({"talking_heads", language_model(fmt::format(
                                         "TalkingHeadsSelfAttention: {{{}, relative_attention_type: bias, "
                                         "relative_attention_num_buckets: 8, dropout: 0.25}}",
                                         kTalkingHeads))});
  result.push_back(
      {"talking_heads_that_stay",
       language_model("TalkingHeadsSelfAttention: {key_heads: {heads: 4, hk: 2}, softmax_heads: {heads: "
                      "4, hs: 3}, value_heads: {heads: 4}, key_size: 2, value_size: 4, "
                      "dynamic_projections: [x2l, m2w]}")});
  result.push_back({"talking_heads_in_the_decoder",
                    translator(fmt::format("TalkingHeadsEncDecAttention: {{{}, dynamic_projections: [m2l]}}",
                                           kTalkingHeads))});
  result.push_back({"transparent", translator(kTransparent)});
  result.push_back(
      {"relative_positions_of_spans", translator("EncDecAttention: {relative_attention_type: bias_shared, "
                                                 "relative_attention_num_buckets: 8, num_sentinels: 30}")});
  return result;
}

const std::vector<std::pair<std::string, std::string>> kVariantLayouts = {
    {"x:2", "batch:x"},
    {"y:2", "heads:y;d_ff:y;vocab:y"},
    {"x:2", "length:x"},
    {"x:2;y:2", "batch:x;heads:y"},
    {"x:2;y:2", "batch:x;length:y"},
    {"x:2;y:2", "batch:x;d_model:y"},
    {"x:2;y:2", "length:x;d_kv:y"},
    {"x:8", "batch:x"},
    {"x:4;y:2", "batch:x;heads:y;d_ff:y"},
};

class EveryVariant : public ::testing::TestWithParam<Variant> {};

/// Many tokens of the batch are alike, so that the gradients of embeddings are sums of large terms.
void expect_same_outputs(const MeshRun& run, const MeshRun& one) {
  for (const auto& [name, values] : one.outputs)
    expect_close(name, run.outputs.at(name), values, name.starts_with("grad/") ? 1e-4 : 1e-5, 2e-6);
}

/// Rotary positions join halves of d_kv, and ALiBi adds entries to it, which then cannot be split.
bool is_legal(const std::string& yaml, const std::string& layout) {
  const bool is_whole = yaml.find("rotary") != std::string::npos || yaml.find("alibi") != std::string::npos;
  return !is_whole || layout.find("d_kv") == std::string::npos;
}

TEST_P(EveryVariant, GivesTheSameOnEveryLayoutAndForAnyNumberOfMicrobatches) {
  const TinyVariant variant(GetParam().yaml, 8);
  const MeshRun one = variant.run();
  std::vector<StepArrangement> arrangements = {{"", "", 4},
                                               {"", "", 2, {"block"}},
                                               {"x:2;y:2", "batch:x;heads:y", 2},
                                               {"x:2", "batch:x", 4, {"block"}}};
  for (const auto& [mesh, layout] : kVariantLayouts) {
    if (is_legal(GetParam().yaml, layout)) arrangements.push_back({mesh, layout});
  }
  for (const StepArrangement& arrangement : arrangements) {
    SCOPED_TRACE(arrangement.to_string());
    expect_same_outputs(variant.run(arrangement), one);
  }
}

TEST_P(EveryVariant, HasTheGradientsOfItsLoss) { TinyVariant(GetParam().yaml).expect_gradients_are_slopes(); }

INSTANTIATE_TEST_SUITE_P(Variants, EveryVariant, ::testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

/// One of a list.
template <class T>
const T& pick(const std::vector<T>& from, std::mt19937& random) {
  return from[random() % from.size()];
}

/// A block of one to three layers with random options.
std::string random_block(std::mt19937& random) {
  const std::vector<std::string> layers = {"DenseReluDense: {activation: squared_relu}",
                                           "DenseReluDense: {activation: [gelu, linear]}",
                                           "causal_conv: 2",
                                           "causal_conv: 4",
                                           "LocalSelfAttention: {convolution_width: 2, qk_norm: true}",
                                           "LocalSelfAttention: {prefix_length: 3, z_loss: 0.2}"};
  const auto layer = [&] {
    if (random() % 2 == 0) return pick(layers, random);
    return fmt::format("SelfAttention: {{{}}}", pick(kAttentionOptions, random));
  };
  std::vector<std::string> block;
  for (size_t i = 0; i < 1 + random() % 3; ++i) {
    const std::string first = layer();
    if (random() % 3 != 0) {
      block.push_back(first);
    } else {
      block.push_back(fmt::format("parallel: {{layers: [{}, {}], scale: {}}}", first, layer(),
                                  random() % 2 == 0 ? "sqrt" : "none"));
    }
  }
  return fmt::format("{}", fmt::join(block, ", "));
}

TEST(RandomArrangements, OfRandomBlocksGiveTheSame) {
  std::mt19937 random(22);
  for (int round = 0; round < 24; ++round) {
    const std::string block = random_block(random);
    SCOPED_TRACE(block);
    const TinyVariant variant(language_model(block, random() % 2 == 0 ? "logit_soft_cap: 0.5," : ""), 8);
    const MeshRun one = variant.run();
    for (int i = 0; i < 3; ++i) {
      const auto& [mesh, layout] = pick(kVariantLayouts, random);
      if (!is_legal(block, layout)) continue;
      StepArrangement arrangement{mesh, layout};
      if (mesh != "x:8") arrangement.microbatches = 1 + static_cast<int64_t>(random() % 2);
      if (random() % 2 == 0) arrangement.recompute = {"block"};
      SCOPED_TRACE(arrangement.to_string());
      expect_same_outputs(variant.run(arrangement), one);
    }
  }
}

/// The all_reduces of a training step whose heads and d_ff are split.
int64_t all_reduces(const std::string& block) {
  const TrainStep step = TinyVariant(language_model(block)).build({});
  int64_t count = 0;
  for (const CollectiveFact& fact :
       program_facts(partition(*step.graph, layouts("y:2", "heads:y;d_ff:y"))).collectives)
    count += fact.kind == "all_reduce" ? fact.times : 0;
  return count;
}

TEST(ParallelLayers, AreSummedByOneCollective) {
  // In each of two blocks one all_reduce of the results and one of the gradients is saved.
  EXPECT_EQ(
      all_reduces("SelfAttention, DenseReluDense") - all_reduces("parallel: [SelfAttention, DenseReluDense]"),
      4);
}

TEST(SpanPositions, AreTheCountsOfEarlierSpans) {
  // A B C <S> F G H <S> / 0 <S> D E <S> I J, with 50 the first sentinel
  Graph graph;
  const Dimension batch{"batch", 1}, length{"length", 7}, memory{"memory_length", 8};
  const auto ids = [&](const char* name, const Dimension& d) {
    return graph.input(name, Shape{batch, d}, DType::kInt32);
  };
  const Tensor places = span_positions(ids("ids", length), ids("segment", length), ids("memory", memory),
                                       ids("memory_segment", memory), 50);
  const Values values = evaluate(graph, {places},
                                 {{"ids", {0, 52, 5, 6, 51, 9, 10}},
                                  {"segment", {1, 1, 1, 1, 1, 1, 1}},
                                  {"memory", {2, 3, 4, 52, 7, 8, 9, 51}},
                                  {"memory_segment", {1, 1, 1, 1, 1, 1, 1, 1}}})[0];
  EXPECT_EQ(values, (Values{0, 3, 3, 3, 7, 7, 7}));
}

TEST(SlidingWindow, SeesOnlyItsOwnSegment) {
  // The second text of a packed row gets the logits that it has alone.
  const std::string yaml =
      language_model("LocalSelfAttention: {convolution_width: 3}, causal_conv: 3", "positions: none,");
  const auto model = parse_model(yaml);
  const auto logits = [&](const Values& ids, const Values& segments) {
    Graph graph;
    Context context(graph, Mode::kEvaluate, {}, {"batch", 1});
    context.set_vocabularies({{"targets", 40}});
    const Shape shape{{"batch", 1}, {"length", static_cast<int64_t>(ids.size())}};
    const Features features{{"targets", graph.input("targets", shape, DType::kInt32)},
                            {"targets_segmentation", graph.input("segments", shape, DType::kInt32)}};
    graph.set_output("logits", model->build(context, features).logits);
    std::map<std::string, Values> weights;
    for (const auto& variable : graph.variables()) {
      for (int64_t i = 0; i < variable->shape.size(); ++i)
        weights[variable->name].push_back(std::sin(1.3 * static_cast<double>(i) + 1));
    }
    return run_on_mesh(graph, Layouts::single(), {{"targets", ids}, {"segments", segments}},
                       {.variables = weights})
        .outputs.at("logits");
  };
  const Values packed = logits({5, 9, 3, 1, 7, 12, 30, 1}, {1, 1, 1, 1, 2, 2, 2, 2});
  const Values alone = logits({7, 12, 30, 1}, {1, 1, 1, 1});
  expect_close("second text", Values(packed.begin() + 4 * 128, packed.end()), alone, 1e-5);
}

}  // namespace
}  // namespace mtf::testing
