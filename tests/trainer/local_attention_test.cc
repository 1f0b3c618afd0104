// Tests models with LocalSelfAttention: training is the same if the length is split, and the bytes that a
// layer sends do not grow with the length; decoding step by step generates what the model predicts for whole
// rows.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/spmd/program_facts.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "tests/trainer/decode_testing.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kLocalVocabulary = 24;

constexpr const char* kLocalLayers = "d_model: 16, max_length: 4096, vocab_divisor: 8, dropout: 0.1, ";

std::string local_block(int64_t radius, const std::string& options = "", const std::string& between = "") {
  return "block: [LocalSelfAttention: {num_heads: 4, key_value_size: 4, dropout: 0.1, radius: " +
         std::to_string(radius) + options + "}, " + between +
         "DenseReluDense: {hidden_size: 16, dropout: 0.1}]";
}

/// The features of a batch of `rows` packed rows: three texts, then padding.
struct PackedRows {
  PackedRows(int64_t rows, int64_t length, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      features.push_back({name, {{"length", length}}, DType::kInt32, kLocalVocabulary});
      for (const char* extra : {"_segmentation", "_position"})
        features.push_back({name + extra, {{"length", length}}, DType::kInt32, 0});
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t end = length - 3 - row, each = end / 3 + 1;
        for (int64_t i = 0; i < length; ++i) {
          const bool padding = i >= end, last = i % each == each - 1 || i == end - 1;
          const int64_t token = last ? 1 : 2 + (i * 7 + row * 5 + name[0]) % (kLocalVocabulary - 2);
          feeds[name].push_back(padding ? 0 : static_cast<double>(token));
          feeds[name + "_segmentation"].push_back(padding ? 0 : static_cast<double>(1 + i / each));
          feeds[name + "_position"].push_back(padding ? 0 : static_cast<double>(i % each));
        }
      }
    }
  }

  std::vector<Feature> features;
  std::map<std::string, Values> feeds;
};

/// Returns the losses of `steps` steps of Adafactor; with microbatches the attention is recomputed in the
/// backward pass.
std::vector<double> local_losses(const Model& model, const PackedRows& rows, const Layouts& layout,
                                 int64_t steps, int64_t microbatches) {
  TrainStepOptions options;
  options.batch_size = 4;
  options.microbatches = microbatches;
  if (microbatches > 1) options.recompute = std::vector<std::string>{"LocalSelfAttention"};
  options.update = UpdateOptions{parse_optimizer("adafactor"), {}, 1000};
  const TrainStep step = build_train_step(model, rows.features, options);
  Diagnostics diagnostics;
  check_layouts(*step.graph, layout, diagnostics);
  diagnostics.throw_if_errors();
  const auto backend = test_backend();
  Program program = partition(*step.graph, layout);
  VariableStore variables(*backend, program.mesh, program.variables, {.replicate = true});
  variables.initialize(1);
  Executor executor(std::move(program), *backend, variables, {.threads = 1, .check_replicas = true});
  for (const Feature& feature : rows.features) {
    if (executor.program().input(feature.name) == kNoValue) continue;
    const Shape shape = Shape{{"batch", options.batch_size}} + feature.shape;
    executor.feed(feature.name, to_host(shape, DType::kInt32, rows.feeds.at(feature.name)).bytes.data());
  }
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    for (const StepScalar& scalar : step.scalars) executor.feed_scalar(scalar.input, scalar.value(i));
    executor.run(static_cast<uint64_t>(i));
    losses.push_back(executor.scalar("loss"));
  }
  return losses;
}

struct LocalModel {
  std::string name, yaml;
  std::vector<std::string> features = {"targets"};
};
std::ostream& operator<<(std::ostream& out, const LocalModel& model) { return out << model.name; }

class LocalAttentionModels : public ::testing::TestWithParam<LocalModel> {};
INSTANTIATE_TEST_SUITE_P(
    Models, LocalAttentionModels,
    ::testing::Values(
        LocalModel{"lm", std::string("{type: lm, num_layers: 2, ") + kLocalLayers +
                             local_block(5, ", rotary: true, num_memory_heads: 2") + "}"},
        LocalModel{"shared_multi_query", std::string("{type: lm, num_layers: 2, ") + kLocalLayers +
                                             local_block(11, ", shared_kv: true, num_memory_heads: 1") + "}"},
        LocalModel{"prefix", std::string("{type: delimited_lm, num_layers: 2, input_full_attention: true, "
                                         "loss_on_targets_only: true, ") +
                                 kLocalLayers + local_block(5) + "}"},
        LocalModel{"aligned",
                   std::string("{type: aligned, num_layers: 2, ") + kLocalLayers + local_block(6) + "}",
                   {"inputs", "targets"}},
        LocalModel{"encoder_decoder",
                   std::string("{type: bitransformer, ") + kLocalLayers + "encoder: {num_layers: 1, " +
                       local_block(4) + "}, decoder: {num_layers: 1, " +
                       local_block(7, "", "EncDecAttention: {num_heads: 4, key_value_size: 4}, ") + "}}",
                   {"inputs", "targets"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(LocalAttentionModels, FiftyStepsWithDropoutAreThoseOfOnePosition) {
  const auto model = parse_model(GetParam().yaml);
  const PackedRows rows(4, 32, GetParam().features);
  for (const int64_t microbatches : {1, 2}) {
    const std::vector<double> one = local_losses(*model, rows, Layouts::single(), 50, microbatches);
    ASSERT_LT(one.back(), one.front());
    for (const auto& [mesh, layout] :
         std::vector<std::pair<std::string, std::string>>{{"x:2", "length:x"},
                                                          {"x:2;y:2", "batch:x;length:y"},
                                                          {"x:2;y:4", "heads:x;d_ff:x;length:y"},
                                                          {"x:8", "length:x"}}) {
      if (microbatches > 1 && mesh.size() > 5 && layout[0] != 'b') continue;
      SCOPED_TRACE(layout + " on " + mesh);
      const std::vector<double> split = local_losses(*model, rows, layouts(mesh, layout), 50, microbatches);
      for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(split[i], one[i], 1e-4 * one[i]) << "step " << i;
    }
  }
}

/// Returns the bytes that the LocalSelfAttention of the first layer sends in a training step, by kind of
/// collective.
std::map<std::string, double> sent_by_local_attention(int64_t length, int64_t radius) {
  const auto model =
      parse_model(std::string("{type: lm, num_layers: 2, ") + kLocalLayers + local_block(radius) + "}");
  TrainStepOptions options;
  options.batch_size = 4;
  const TrainStep step = build_train_step(*model, PackedRows(1, length, {"targets"}).features, options);
  const ProgramFacts facts = program_facts(partition(*step.graph, layouts("x:4", "length:x")));
  std::map<std::string, double> sent;
  for (const CollectiveFact& collective : facts.collectives) {
    // The gradients of weights are summed over the positions, whatever the length.
    const bool of_weights = collective.kind == "all_reduce" || collective.kind == "reduce_scatter";
    if (collective.origin.layer.path().find("layer_000/LocalSelfAttention") != std::string::npos &&
        !of_weights)
      sent[std::string(collective.kind)] += collective.bytes_sent * static_cast<double>(collective.times);
  }
  return sent;
}

TEST(LocalAttentionTraffic, GrowsWithTheRadiusNotWithTheLength) {
  using ::testing::ElementsAre;
  using ::testing::Pair;
  const double at_8 = sent_by_local_attention(1024, 8)["exchange"];
  EXPECT_GT(at_8, 0);
  // A quarter of a block has at least as many entries as the widest margin, so that none is exchanged twice.
  for (const int64_t length : {1024, 2048, 4096}) {
    for (const int64_t radius : {8, 15, 29, 57}) {
      const double expected = at_8 / 7 * static_cast<double>(radius - 1);
      EXPECT_THAT(sent_by_local_attention(length, radius), ElementsAre(Pair("exchange", expected)))
          << length << " " << radius;
    }
  }
}

TEST(LocalAttentionDecoding, GreedyTextIsWhatTheModelPredictsOfWholeRows) {
  const Layouts four = layouts("x:2;y:2", "heads:x;d_ff:x;batch:y");
  for (const auto& [layout, options] : std::vector<std::pair<Layouts, std::string>>{
           {Layouts::single(), ""}, {four, ""}, {four, ", rotary: true"}}) {
    const std::string yaml =
        std::string("{type: lm, num_layers: 2, ") + kLocalLayers + local_block(8, options) + "}";
    DecodeRun run(yaml, kLocalVocabulary, layout);
    run.set_varied(0.6);
    constexpr int64_t kTokens = 48;
    std::vector<GivenText> texts;
    for (int32_t first : {3, 9})
      texts.push_back({.inputs = {}, .prefix = {first, 5, 7}, .limit = kTokens - 3});
    const std::vector<Written> written = run.decode(texts, {.method = GreedyMethod{}});
    const auto model = parse_model(yaml);
    Graph graph;
    Context context(graph, Mode::kEvaluate, {}, {"batch", 2});
    context.set_vocabularies({{"targets", kLocalVocabulary}});
    const Tensor targets = graph.input("targets", {{"batch", 2}, {"length", kTokens}}, DType::kInt32);
    graph.set_output("logits", model->build(context, {{"targets", targets}}).logits);
    Values rows;
    for (size_t text = 0; text < 2; ++text) {
      std::vector<int32_t> tokens = texts[text].prefix;
      tokens.insert(tokens.end(), written[text][0].tokens.begin(), written[text][0].tokens.end());
      EXPECT_GT(tokens.size(), 24u);
      tokens.resize(kTokens);
      rows.insert(rows.end(), tokens.begin(), tokens.end());
    }
    std::map<std::string, Values> weights;
    for (const std::string& name : run.weights().names()) weights[name] = from_host(run.weights().get(name));
    const Values logits =
        run_on_mesh(graph, layouts("x:4", "length:x"), {{"targets", rows}}, {.variables = weights})
            .outputs.at("logits");
    for (size_t text = 0; text < 2; ++text) {
      for (size_t i = 0; i < written[text][0].tokens.size(); ++i) {
        const auto begin = logits.begin() + static_cast<int64_t>((text * kTokens + i + 3) * kLocalVocabulary);
        EXPECT_EQ(std::max_element(begin, begin + kLocalVocabulary) - begin, written[text][0].tokens[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
