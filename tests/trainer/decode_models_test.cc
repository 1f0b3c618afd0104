// Tests that texts which models of unusual layers generate step by step have the log-probabilities that the
// model gives to whole rows.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "models/transformer.h"
#include "tests/trainer/decode_testing.h"

namespace mtf::testing {
namespace {

constexpr int64_t kDecodedVocabulary = 24, kDecodedPrompt = 5, kDecodedTokens = 16;

struct DecodedModel {
  std::string name, keys;
};
std::ostream& operator<<(std::ostream& out, const DecodedModel& model) { return out << model.name; }

class DecodedModels : public ::testing::TestWithParam<DecodedModel> {};
INSTANTIATE_TEST_SUITE_P(
    Models, DecodedModels,
    ::testing::Values(
        DecodedModel{"relative_prefix",
                     "input_full_attention: true, positions: none, block: [SelfAttention: {num_heads: 2, "
                     "key_value_size: 4, relative_attention_type: bias}, LocalSelfAttention: {num_heads: 2, "
                     "key_value_size: 4, radius: 4}]"},
        DecodedModel{"rotary_prefix",
                     "input_full_attention: true, block: [SelfAttention: {num_heads: 4, num_memory_heads: 2, "
                     "key_value_size: 4, rotary: true}]"},
        DecodedModel{"without_padding",
                     "predict_padding: false, positions: none, block: [SelfAttention: {num_heads: 2, "
                     "key_value_size: 4, rotary: true, rotary_scaling: {type: linear, factor: 3}}]"},
        DecodedModel{"with_alibi",
                     "positions: none, block: [SelfAttention: {num_heads: 6, num_memory_heads: 2, "
                     "key_value_size: 4, alibi: true}]"},
        DecodedModel{"heads_apart",
                     "block: [SelfAttention: {num_heads: 4, num_memory_heads: 2, key_value_size: 4, "
                     "combine_dims: false}, LocalSelfAttention: {num_heads: 4, num_memory_heads: 1, "
                     "key_value_size: 4, radius: 4, shared_kv: true, combine_dims: false}]"},
        DecodedModel{"shared_by_name",
                     "block_scope: false, block: [SelfAttention: {num_heads: 2, key_value_size: 4, name: a}, "
                     "LocalSelfAttention: {num_heads: 2, key_value_size: 4, radius: 3, name: b}]"},
        DecodedModel{"experts",
                     "block: [SelfAttention: {num_heads: 2, key_value_size: 4}, MoE1D: {num_experts: 4, "
                     "hidden_size: 12, gating: switch, dispatch: dropless}]"},
        DecodedModel{"top_k_experts",
                     "block: [SelfAttention: {num_heads: 2, key_value_size: 4}, MoE1D: {num_experts: 6, "
                     "hidden_size: 12, gating: top_k, experts_per_token: 3, score: sigmoid, selection_bias: "
                     "true, shared_experts: 1, activation: [swish, linear]}]"},
        DecodedModel{"normalised_and_convolved",
                     "block: [SelfAttention: {num_heads: 2, key_value_size: 4, qk_norm: true, soft_cap: 0.7, "
                     "convolution_width: 3, rotary: true}, causal_conv: 4], logit_soft_cap: 2"},
        DecodedModel{
            "with_prefixes",
            "block: [SelfAttention: {num_heads: 4, num_memory_heads: 2, key_value_size: 4, "
            "prefix_length: 3, extra_logit: 0.5}, LocalSelfAttention: {num_heads: 2, key_value_size: 4, "
            "radius: 3, prefix_length: 2, convolution_width: 2}]"},
        DecodedModel{
            "in_parallel",
            "block: [parallel: {layers: [SelfAttention: {num_heads: 2, key_value_size: 4}, "
            "DenseReluDense: {hidden_size: 16, activation: squared_relu}, causal_conv: 2], scale: none}]"},
        DecodedModel{
            "talking_heads",
            "block: [TalkingHeadsSelfAttention: {key_heads: {hk: 2}, softmax_heads: {hs: 3}, value_heads: "
            "{hv: 2}, key_size: 4, value_size: 4, relative_attention_type: bias, dynamic_projections: [x2l, "
            "m2l, x2w, m2w]}]"},
        DecodedModel{"called_twice",
                     "block: [SelfAttention: {num_heads: 2, key_value_size: 4}], sublayers: {per_layer: "
                     "[rms_norm, call_layer, call_layer, residual]}"}),
    [](const auto& info) { return info.param.name; });

/// Returns log_softmax of the logits of row 0 [length, vocab], at `token` of position `i`.
double log_probability(const Values& logits, int64_t i, int32_t token) {
  const auto begin = logits.begin() + i * kDecodedVocabulary;
  double sum = 0;
  for (int64_t k = 0; k < kDecodedVocabulary; ++k) sum += std::exp(begin[k]);
  return begin[token] - std::log(sum);
}

TEST_P(DecodedModels, WriteTextsOfTheProbabilityOfWholeRows) {
  const std::string yaml = "{type: lm, d_model: 8, num_layers: 2, vocab_divisor: 8, " + GetParam().keys + "}";
  DecodeRun run(yaml, kDecodedVocabulary);
  run.set_varied(0.6);
  const GivenText text{.inputs = {},
                       .prefix = {3, 9, 4, 17, 5},
                       .prompt = kDecodedPrompt,
                       .limit = kDecodedTokens - kDecodedPrompt};
  std::vector<Hypothesis> all = run.decode({text}, {.method = GreedyMethod{}})[0];
  ASSERT_GT(all[0].tokens.size(), 4u);
  const Written of_beam = run.decode({text}, {.beam_size = 3, .n_best = 3})[0];
  all.insert(all.end(), of_beam.begin(), of_beam.end());

  const auto model = parse_model(yaml);
  Graph graph;
  Context context(graph, Mode::kEvaluate, {}, {"batch", 1});
  context.set_vocabularies({{"targets", kDecodedVocabulary}});
  const Tensor targets = graph.input("targets", {{"batch", 1}, {"length", kDecodedTokens}}, DType::kInt32);
  const Tensor prompt = graph.input("prompt", {{"batch", 1}}, DType::kInt32);
  const Features features{{"targets", targets}, {std::string(kPromptFeature), prompt}};
  graph.set_output("logits", model->build(context, features).logits);
  std::map<std::string, Values> weights;
  for (const std::string& name : run.weights().names()) weights[name] = from_host(run.weights().get(name));
  for (const Hypothesis& written : all) {
    Values row(text.prefix.begin(), text.prefix.end());
    row.insert(row.end(), written.tokens.begin(), written.tokens.end());
    row.resize(kDecodedTokens);
    const std::map<std::string, Values> feeds{{"targets", row}, {"prompt", {kDecodedPrompt}}};
    const Values logits =
        run_on_mesh(graph, Layouts::single(), feeds, {.variables = weights}).outputs.at("logits");
    ASSERT_EQ(written.log_probs.size(), written.tokens.size());
    for (size_t i = 0; i < written.tokens.size(); ++i) {
      const double expected =
          log_probability(logits, kDecodedPrompt + static_cast<int64_t>(i), written.tokens[i]);
      EXPECT_NEAR(written.log_probs[i], expected, 1e-5) << "token " << i;
    }
  }
}

class DecodedExperts : public ::testing::TestWithParam<const char*> {};

/// Tokens compete for experts, and experts are drawn, in training and evaluation only: a text is written alone as among
/// others, greedily and by beam search.
TEST_P(DecodedExperts, WriteATextAsAmongOthersOnEveryLayout) {
  const std::string yaml = fmt::format(
      "{{type: lm, d_model: 8, num_layers: 2, vocab_divisor: 8, block: [SelfAttention: {{num_heads: 2, "
      "key_value_size: 4}}, MoE1D: {{num_experts: 4, hidden_size: 12, {}}}]}}",
      GetParam());
  std::vector<GivenText> texts;
  for (int32_t i = 0; i < 8; ++i)
    texts.push_back({.inputs = {}, .prefix = {2 + i, 9, 20 - i}, .prompt = 3, .limit = 8});
  for (const bool beam : {false, true}) {
    DecodeOptions options{.beam_size = 3};
    if (!beam) options = {.method = GreedyMethod{}};
    DecodeRun one(yaml, kDecodedVocabulary);
    one.set_varied(0.6);
    std::vector<std::vector<int32_t>> alone;
    for (const GivenText& text : texts) {
      const Hypothesis written = one.decode({text}, options)[0][0];
      alone.emplace_back(written.tokens.begin(), written.tokens.end());
    }
    for (const auto& [mesh, layout] :
         {std::pair("x:1", ""), std::pair("x:2", "batch:x;experts:x"), std::pair("x:4", "experts:x"),
          std::pair("x:2;y:2", "batch:x;experts:y"),
          std::pair("x:2;y:2", "batch:x;experts:x;expert_hidden:y")}) {
      SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
      DecodeRun run(yaml, kDecodedVocabulary, layouts(mesh, layout));
      run.set_varied(0.6);
      const std::vector<Written> written = run.decode(texts, options);
      for (size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(std::vector<int32_t>(written[i][0].tokens.begin(), written[i][0].tokens.end()), alone[i])
            << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gatings, DecodedExperts,
                         ::testing::Values("gating: top_2, min_expert_capacity: 1, capacity_factor_eval: 0.5",
                                           "gating: top_2, second_policy_eval: random, parity: true",
                                           "gating: switch, switch_policy_eval: sample"));

TEST(Decoder, PaddingThatTheModelDoesNotPredictIsNeverWritten) {
  DecodeRun run(
      "{type: lm, d_model: 8, num_layers: 1, predict_padding: false, vocab_divisor: 1, positions: none, "
      "block: "
      "[SelfAttention: {num_heads: 1, key_value_size: 4}]}",
      4);
  run.set_varied(0.6);
  const GivenText text{.inputs = {}, .prefix = {2}, .limit = 6};
  DecodeOptions beams{.beam_size = 4, .n_best = 4},
      greedy{.method = GreedyMethod{}, .min_length = 5, .no_repeat_ngram_size = 1};
  for (const DecodeOptions& options : {beams, greedy}) {
    const std::vector<Written> written = run.decode({text}, options);
    for (const Hypothesis& hypothesis : written[0])
      EXPECT_THAT(hypothesis.tokens, ::testing::Each(::testing::Gt(0)));
  }
}

TEST(Decoder, ADecoderMayLeaveWhatTheEncoderHasReadUnread) {
  const std::string stack = "{num_layers: 1, block: [SelfAttention: {num_heads: 1, key_value_size: 4}]}";
  DecodeRun run(
      "{type: bitransformer, d_model: 8, positions: none, encoder: " + stack + ", decoder: " + stack + "}",
      12);
  run.set_varied(0.6);
  const std::vector<Written> written = run.decode(growing_texts(3, 8), {});
  EXPECT_THAT(written, ::testing::SizeIs(3));
}

}  // namespace
}  // namespace mtf::testing
