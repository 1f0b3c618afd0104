// Tests every layout of a small encoder-decoder on a 2x2 mesh: the legal ones give the loss and the gradients
// of one position, with replicas compared bit for bit, and decode the same texts; the illegal ones are
// rejected.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "data/vocabulary/vocabulary.h"
#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "tests/support/budget.h"
#include "tests/support/legality.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "tests/trainer/decode_testing.h"

namespace mtf::testing {
namespace {

constexpr int64_t kVocabulary = 14;
constexpr const char* kMesh = "x:2;y:2";
/// The dimensions that a layout can name.
const std::vector<std::string> kNames = {"batch",   "heads", "d_kv",   "d_ff",
                                         "d_model", "vocab", "length", "memory_length"};

constexpr const char* kTranslator =
    "{type: bitransformer, d_model: 8, max_length: 16, vocab_divisor: 4, "
    "layer_defaults: {SelfAttention: {num_heads: 2, key_value_size: 4}, "
    "EncDecAttention: {num_heads: 2, key_value_size: 4}, DenseReluDense: {hidden_size: 8}}, "
    "encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}, "
    "decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}}";

std::unique_ptr<Model> translator() { return parse_model(kTranslator); }

/// Adds the loss of four pairs of texts and its gradient by each variable as outputs.
void set_gradient_outputs(const Model& model, Graph& graph) {
  const Dimension batch{"batch", 4}, length{"length", 8};
  Context context(graph, Mode::kEvaluate, {}, batch);
  context.set_vocabularies({{"inputs", kVocabulary}, {"targets", kVocabulary}});
  Features features;
  for (const char* name : {"inputs", "targets"})
    features[name] = graph.input(name, {batch, length}, DType::kInt32);
  const Tensor loss = model.build(context, features).loss;
  Tensors weights;
  for (const auto& variable : graph.variables()) weights.push_back(graph.read(*variable));
  const Tensors gradient = gradients({loss}, weights);
  graph.set_output("loss", loss);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (gradient[i]) graph.set_output("grad/" + graph.variables()[i]->name, gradient[i]);
  }
}

/// Returns texts of several lengths with end-of-sequence tokens, padded with 0.
std::map<std::string, Values> texts() {
  std::map<std::string, Values> result;
  for (const char* name : {"inputs", "targets"}) {
    Values& ids = result[name];
    for (int64_t row = 0; row < 4; ++row) {
      const int64_t tokens = 7 - 2 * row + (name[0] == 't');
      for (int64_t i = 0; i < 8; ++i)
        ids.push_back(i < tokens    ? static_cast<double>(2 + (5 * i + 3 * row + name[0]) % 12)
                      : i == tokens ? kEosId
                                    : kPadId);
    }
  }
  return result;
}

std::vector<GivenText> given_texts() {
  std::vector<GivenText> given = growing_texts(5, 12);
  given[3].prefix = {4, 5};
  return given;
}

std::vector<Layouts> legal_layouts(const Graph& graph, int& illegal) {
  std::vector<Layouts> legal;
  for (const Layouts& layouts : all_layouts(kNames, kMesh)) {
    Diagnostics diagnostics;
    check_layouts(graph, layouts, diagnostics);
    const std::string reason = why_illegal(graph, layouts);
    EXPECT_EQ(diagnostics.has_errors(), !reason.empty()) << describe(layouts) << reason;
    if (reason.empty()) {
      legal.push_back(layouts);
    } else {
      ++illegal;
    }
  }
  return legal;
}

TEST(EncoderDecoderLayouts, LegalOnesGiveTheLossAndGradientsOfOnePosition) {
  Graph graph;
  const auto model = translator();
  set_gradient_outputs(*model, graph);
  MeshRunOptions options;
  options.threads = 1;
  const MeshRun one = run_on_mesh(graph, Layouts::single(), texts(), options);
  ASSERT_TRUE(std::isfinite(one.outputs.at("loss")[0]));
  int illegal = 0;
  const std::vector<Layouts> legal = legal_layouts(graph, illegal);
  for (const Layouts& layouts : legal) {
    const MeshRun run = run_on_mesh(graph, layouts, texts(), options);
    for (const auto& [name, values] : one.outputs)
      ASSERT_LE(relative_difference(run.outputs.at(name), values), 1e-5) << name << " " << describe(layouts);
  }
  fmt::print("{} legal and {} illegal layouts\n", legal.size(), illegal);
  EXPECT_GE(legal.size(), 100u);
  EXPECT_GE(illegal, 100);
}

/// True for one of two layouts that are each other's mirror image: the two dimensions of the mesh are equal,
/// so testing one is enough.
bool is_mirrored(const Layouts& layouts) {
  const auto& rules = layouts.activation.rules();
  return !rules.empty() && rules.front().mesh_dimensions.front() == "y";
}

/// True if a rule splits lengths; such rules are ignored in decoding.
bool splits_lengths(const Layouts& layouts) {
  return std::ranges::any_of(layouts.activation.rules(),
                             [](const LayoutRule& rule) { return rule.dimension.ends_with("length"); });
}

TEST(EncoderDecoderLayouts, LegalOnesWriteTheTextsOfOnePosition) {
  Graph graph;
  set_gradient_outputs(*translator(), graph);
  const DecodeOptions options{.beam_size = 3, .n_best = 3};
  DecodeRun one(kTranslator, kVocabulary);
  one.set_varied(0.8);
  const std::vector<Written> expected = one.decode(given_texts(), options);
  ASSERT_NE(expected[0][0].tokens, expected[1][0].tokens);
  int illegal = 0, compared = 0;
  for (const Layouts& layouts : legal_layouts(graph, illegal)) {
    if (splits_lengths(layouts) || is_mirrored(layouts)) continue;
    ++compared;
    const std::string text = describe(layouts);
    DecodeRun run(kTranslator, kVocabulary, layouts);
    run.set_varied(0.8);
    const std::vector<Written> written = run.decode(given_texts(), options);
    for (size_t i = 0; i < written.size(); ++i) {
      ASSERT_EQ(written[i].size(), expected[i].size()) << text;
      for (size_t rank = 0; rank < written[i].size(); ++rank) {
        ASSERT_EQ(written[i][rank].tokens, expected[i][rank].tokens)
            << text << " text " << i << " rank " << rank;
        ASSERT_NEAR(written[i][rank].score, expected[i][rank].score, 1e-4) << text;
      }
    }
  }
  fmt::print("{} layouts\n", compared);
  EXPECT_GE(compared, 30);
}

void expect_same_texts(const std::vector<Written>& written, const std::vector<Written>& expected) {
  ASSERT_EQ(written.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(written[i][0].tokens, expected[i][0].tokens) << i;
    EXPECT_NEAR(written[i][0].score, expected[i][0].score, 1e-4) << i;
  }
}

TEST(EncoderDecoderLayouts, HeadsApartWriteTheTextsOfHeadsTogether) {
  const std::string key = "num_heads", option = "combine_dims: false, ";
  std::string apart = kTranslator;
  for (size_t at = apart.find(key); at != std::string::npos; at = apart.find(key, at + option.size() + 1))
    apart.insert(at, option);
  DecodeRun one(kTranslator, kVocabulary);
  one.set_varied(0.8);
  const std::vector<Written> expected = one.decode(given_texts(), {});
  for (const char* rules : {"", "heads:x;d_kv:y", "batch:x;d_kv:y", "heads:y;d_model:x"}) {
    SCOPED_TRACE(rules);
    DecodeRun run(apart, kVocabulary, layouts(kMesh, rules));
    EXPECT_EQ(run.weights().variable("decoder/block_000/layer_001/EncDecAttention/k").shape.rank(), 3);
    run.set_varied(0.8);
    expect_same_texts(run.decode(given_texts(), {}), expected);
  }
}

TEST(EncoderDecoderLayouts, UnusualLayersWriteTheTextsOfOnePosition) {
  const std::string yaml =
      "{type: bitransformer, d_model: 8, max_length: 16, vocab_divisor: 4, encoder: {num_layers: 2, block: "
      "[SelfAttention: {num_heads: 2, key_value_size: 4}]}, decoder: {num_layers: 1, block: [SelfAttention: "
      "{num_heads: 2, key_value_size: 4, qk_norm: true, soft_cap: 2, convolution_width: 3, prefix_length: "
      "2}, "
      "TransparentEncDecAttention: {num_heads: 2, key_value_size: 4, layers_per_encoder_module: 1, "
      "encoder_num_modules: 2, layers_per_decoder_module: 2, decoder_num_modules: 3}, causal_conv: 3, "
      "TalkingHeadsSelfAttention: {key_heads: {heads: 2}, softmax_heads: {hs: 4}, value_heads: {heads: 2}, "
      "key_size: "
      "4, value_size: 4}, TalkingHeadsEncDecAttention: {key_heads: {heads: 2}, softmax_heads: {heads: 2}, "
      "value_heads: {heads: 2}, key_size: 4, value_size: 4}]}}";
  const DecodeOptions options{.beam_size = 3};
  DecodeRun one(yaml, kVocabulary);
  one.set_varied(0.8);
  const std::vector<Written> expected = one.decode(given_texts(), options);
  for (const char* rules : {"batch:x;heads:y", "heads:x;d_model:y", "batch:y;d_model:x", "vocab:x;heads:y"}) {
    SCOPED_TRACE(rules);
    DecodeRun run(yaml, kVocabulary, layouts(kMesh, rules));
    run.set_varied(0.8);
    expect_same_texts(run.decode(given_texts(), options), expected);
  }
}

/// True if the model can be trained with the layouts, on texts with or without positions.
bool trains(const Model& model, const Layouts& layouts, bool with_positions) {
  const Dimension batch{"batch", 12};
  Graph graph;
  Context context(graph, Mode::kTrain, {}, batch);
  context.set_vocabularies({{"inputs", kVocabulary}, {"targets", kVocabulary}});
  Features features;
  for (const std::string name : {"inputs", "targets"}) {
    for (const std::string kind : {"", "_segmentation", "_position"}) {
      const Shape row{batch, {"length", 12}};
      if (kind != "_position" || with_positions)
        features[name + kind] = graph.input(name + kind, row, DType::kInt32);
    }
  }
  const Tensor loss = model.build(context, features).loss;
  Tensors weights;
  for (const auto& variable : graph.variables()) weights.push_back(graph.read(*variable));
  graph.set_output("gradient", gradients({loss}, weights).front());
  Diagnostics diagnostics;
  check_layouts(graph, layouts, diagnostics);
  return !diagnostics.has_errors();
}

/// A model, and further dimensions that a layout can name.
struct TrainedModel {
  std::string name, yaml;
  std::vector<std::string> dimensions;
};
std::ostream& operator<<(std::ostream& out, const TrainedModel& model) { return out << model.name; }

class TrainedLayouts : public ::testing::TestWithParam<TrainedModel> {};
constexpr const char* kAttention =
    "layer_defaults: {SelfAttention: {num_heads: 6, num_memory_heads: 3, key_value_size: 6}, "
    "EncDecAttention: "
    "{num_heads: 6, key_value_size: 6, combine_dims: false}, LocalSelfAttention: {num_heads: 6, "
    "key_value_size: 6, radius: 4}}, d_model: 12, vocab_divisor: 6, ";
INSTANTIATE_TEST_SUITE_P(
    Models, TrainedLayouts,
    ::testing::Values(
        TrainedModel{"short_learned_positions",
                     "{type: bitransformer, max_length: 6, encoder: {num_layers: 1, block: [SelfAttention]}, "
                     "decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention]}, ",
                     {"max_length", "query_heads"}},
        TrainedModel{"sinusoids",
                     "{type: bitransformer, positions: sinusoid, encoder: {num_layers: 1, block: "
                     "[LocalSelfAttention]}, decoder: {num_layers: 1, block: [SelfAttention, "
                     "EncDecAttention]}, ",
                     {"sinusoid_length", "max_length"}},
        TrainedModel{"sinusoids_of_a_language_model",
                     "{type: lm, positions: sinusoid, num_layers: 1, block: [SelfAttention, "
                     "LocalSelfAttention], ",
                     {"sinusoid_length", "query_heads"}}),
    [](const auto& info) { return info.param.name; });

/// Decoding programs can be made for texts and caches of many sizes, on every layout with which training
/// works.
TEST_P(TrainedLayouts, TakeTextsOfAnyLength) {
  const std::string yaml = GetParam().yaml + kAttention + "}";
  const auto model = parse_model(yaml);
  std::vector<std::string> names = {"batch", "heads", "d_kv", "d_model", "vocab", "length", "memory_length"};
  std::ranges::copy(GetParam().dimensions, std::back_inserter(names));
  const DecodeOptions options{.beam_size = 5};
  // Every fourth layout, or all of them with MTF_TEST_BUDGET=400.
  const int stride = std::max(1, 400 / tries(100));
  int looked_at = 0, tried = 0;
  for (const char* mesh : {"x:3", "x:2;y:3"}) {
    for (const Layouts& layouts : all_layouts(names, mesh)) {
      if (looked_at++ % stride != 0) continue;
      if (!trains(*model, layouts, true) || layouts.activation.empty()) continue;
      ++tried;
      SCOPED_TRACE(describe(layouts));
      const DecodeRun run(yaml, kVocabulary, layouts);
      DecodePrograms programs(run.session());
      const DecodePlanner planner(programs.environment(), options);
      for (const int32_t length : {1, 5}) {
        GivenText text{.inputs = {}, .prefix = {}, .limit = 20};
        (model->decoder()->has_encoder() ? text.inputs : text.prefix) = std::vector<int32_t>(length, 3);
        DecodePlan plan = planner.first({&text, 1});
        ASSERT_NO_THROW(programs.prefill(plan));
        plan.sizes.memory = planner.memory(length + planner.limit(text));
        ASSERT_NO_THROW(programs.step(plan));
      }
    }
  }
  fmt::print("{} layouts\n", tried);
  EXPECT_GE(tried, 40 / stride);
}

/// Tables of sinusoids are as long as the texts, so no rule can split them.
TEST(Decoder, RulesForLearnedPositionsDoNotMeanSinusoids) {
  std::string model = kTranslator;
  model.insert(model.find("max_length"), "positions: sinusoid, ");
  DecodeRun one(model, kVocabulary), three(model, kVocabulary, layouts("x:3", "max_length:x"));
  one.set_varied(0.8);
  three.set_varied(0.8);
  const std::vector<Written> expected = one.decode(given_texts(), {}),
                             written = three.decode(given_texts(), {});
  expect_same_texts(written, expected);
  DecodeRun five(model, kVocabulary, layouts("x:5", "sinusoid_length:x"));
  five.set_varied(0.8);
  expect_same_texts(five.decode(given_texts(), {}), expected);
}

TEST(Decoder, TextsFillPositionsThatAreFewerThanTheSmallestBucket) {
  for (const int32_t positions : {1, 5, 15}) {
    std::string model = kTranslator;
    model.replace(model.find("max_length: 16"), 14, fmt::format("max_length: {}", positions));
    DecodeRun run(model, kVocabulary);
    run.set_varied(0.8);
    GivenText text{.inputs = std::vector<int32_t>(positions, 5), .prefix = {}, .limit = 100};
    text.inputs.back() = kEosId;
    const std::vector<Written> written = run.decode({text}, {.beam_size = 3});
    EXPECT_GE(std::ssize(written[0][0].tokens), 1);
    EXPECT_LE(std::ssize(written[0][0].tokens), positions);
  }
}

TEST(Decoder, ATextAloneIsWhatItIsAmongOthers) {
  DecodeRun run(kTranslator, kVocabulary);
  run.set_varied(0.8);
  const DecodeMethod sampling = SampleMethod{.temperature = 1.5, .top_k = 9, .samples = 2};
  for (const DecodeMethod& method : {DecodeMethod(BeamMethod{}), DecodeMethod(GreedyMethod{}), sampling}) {
    const DecodeOptions options{.method = method};
    const std::vector<Written> together = run.decode(given_texts(), options);
    for (size_t i = 0; i < together.size(); ++i) {
      const std::vector<Written> alone = run.decode({given_texts()[i]}, options);
      EXPECT_EQ(alone[0][0].tokens, together[i][0].tokens) << i;
      EXPECT_NEAR(alone[0][0].log_prob, together[i][0].log_prob, 1e-4) << i;
    }
  }
}

TEST(Decoder, TextsFillTheModelsPositions) {
  DecodeRun run(kTranslator, kVocabulary);
  run.set_varied(0.8);
  for (const int32_t prefix : {0, 1, 7, 14, 15}) {  // the model has 16 positions
    GivenText text{.inputs = std::vector<int32_t>(15, 5), .prefix = {}, .limit = 100};
    text.inputs.push_back(kEosId);
    for (int32_t i = 0; i < prefix; ++i) text.prefix.push_back(2 + i % 12);
    for (const DecodeMethod& method : {DecodeMethod(BeamMethod{}), DecodeMethod(GreedyMethod{})}) {
      const std::vector<Written> written = run.decode({text}, {.method = method});
      EXPECT_LE(static_cast<int32_t>(written[0][0].tokens.size()), 16 - prefix);
      EXPECT_GE(written[0][0].tokens.size(), 1u);
    }
  }
}

TEST(Decoder, RefusesProbabilitiesThatAreNoNumbers) {
  DecodeRun run(kTranslator, kVocabulary);
  run.set_varied(0.8);
  const std::string name = run.weights().names().front();
  run.set(name, Values(static_cast<size_t>(run.weights().variable(name).shape.size()),
                       std::numeric_limits<double>::quiet_NaN()));
  for (const DecodeMethod& method :
       {DecodeMethod(BeamMethod{}), DecodeMethod(GreedyMethod{}), DecodeMethod(SampleMethod{})})
    EXPECT_THROW(run.decode(given_texts(), {.method = method}), Error);
}

}  // namespace
}  // namespace mtf::testing
