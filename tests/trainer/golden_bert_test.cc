// Compares masked language models with recorded results of Mesh TensorFlow's BERT: losses, logits, gradients and five steps
// of its optimizer, on meshes of 1, 2x1, 1x2, 2x2 and 8 positions.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

/// A variable of ours and of the original.
using Names = std::vector<std::pair<std::string, std::string>>;

struct RecordedRows {
  explicit RecordedRows(const std::string& name, const Names& names)
      : golden(std::string(MTF_SOURCE_DIR "/tests/golden/") + name), names(names) {
    const std::map<std::string, std::pair<std::string, int64_t>> inputs = {
        {"input_ids", {"inputs", 100}},
        {"input_mask", {"inputs_segmentation", 0}},
        {"segment_ids", {"inputs_type", 2}},
        {"masked_lm_ids", {"targets", 100}},
        {"masked_lm_positions", {"targets_place", 0}},
        {"next_sentence_labels", {"next_sentence", 0}}};
    for (const auto& [input, feature] : inputs) {
      const GoldenTensor& tensor = golden.at("input/" + input);
      const bool predictions = input.starts_with("masked");
      Shape shape;
      if (tensor.shape.rank() > 1) shape = {{predictions ? "predictions" : "length", tensor.shape[1].size}};
      features.push_back({feature.first, shape, DType::kInt32, feature.second});
      feeds[feature.first] = tensor.values;
    }
    for (const auto& [ours, original] : names) weights[ours] = golden.at("weight/" + original).values;
  }

  int64_t batch_size() const { return golden.at("input/input_ids").shape[0].size; }
  /// The original divides by the number of predicted tokens + 1e-5.
  double predicted() const {
    const Values& counts = golden.at("input/masked_lm_weights").values;
    return std::accumulate(counts.begin(), counts.end(), 1e-5);
  }

  GoldenCase golden;
  Names names;
  std::vector<Feature> features;
  std::map<std::string, Values> feeds, weights;
};

const std::vector<std::pair<std::string, std::string>> kMeshes = {
    {"x:1", ""},
    {"x:2;y:1", "batch:x"},
    {"x:1;y:2", "vocab:y;d_ff:y;heads:y"},
    {"x:2;y:2", "batch:x;vocab:y;d_ff:y;heads:y"},
    {"x:2;y:2", "length:x;d_model:y"},
    {"x:2;y:4", "batch:x;vocab:y;d_ff:y;heads:y"},
    {"x:8", "vocab:x;d_ff:x"},
};

void expect_gradients(const Model& model, const RecordedRows& recorded) {
  TrainStepOptions options;
  options.batch_size = recorded.batch_size();
  options.keep_prediction = true;
  const TrainStep step = build_train_step(model, recorded.features, options);
  ASSERT_EQ(step.graph->variables().size(), recorded.names.size());
  for (const auto& [mesh, layout] : kMeshes) {
    SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
    const MeshRun run =
        run_on_mesh(*step.graph, layouts(mesh, layout), recorded.feeds, {.variables = recorded.weights});
    expect_close("loss", run.outputs.at("loss"), recorded.golden.at("loss").values, 1e-5, 0);
    expect_close("next_sentence", run.outputs.at("loss/next_sentence"),
                 recorded.golden.at("output/next_sentence_loss").values, 1e-5, 0);
    expect_close("logits", run.outputs.at("output/logits"),
                 recorded.golden.at("output/masked_lm_logits").values, 1e-5);
    for (const auto& [ours, original] : recorded.names)
      expect_close("grad/" + original, run.outputs.at("grad/" + ours),
                   recorded.golden.at("grad/" + original).values, 1e-4);
  }
}

void expect_steps(const Model& model, const RecordedRows& recorded) {
  TrainStepOptions options;
  options.batch_size = recorded.batch_size();
  options.update =
      UpdateOptions{parse_optimizer("{type: adam_weight_decay, weight_decay: 0.01, clip_norm: 1, "
                                    "no_decay: [norm, bias]}"),
                    {0.001},
                    100};
  const TrainStep step = build_train_step(model, recorded.features, options);
  for (const auto& [mesh, layout] : kMeshes) {
    SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
    Program program = partition(*step.graph, layouts(mesh, layout));
    const auto backend = test_backend();
    VariableStore variables(*backend, program.mesh, program.variables, {.replicate = true});
    variables.initialize(1);
    for (const auto& [name, values] : recorded.weights) {
      const Variable& variable = variables.variable(name);
      variables.set(name, to_host(variable.shape, variable.dtype, values));
    }
    Executor executor(std::move(program), *backend, variables, {.threads = 2, .check_replicas = true});
    for (const Feature& feature : recorded.features) {
      const Shape shape = Shape{{"batch", recorded.batch_size()}} + feature.shape;
      executor.feed(feature.name,
                    to_host(shape, DType::kInt32, recorded.feeds.at(feature.name)).bytes.data());
    }
    const Values& trajectory = recorded.golden.at("trajectory/loss").values;
    for (size_t i = 0; i + 1 < trajectory.size(); ++i) {
      for (const StepScalar& scalar : step.scalars)
        executor.feed_scalar(scalar.input, scalar.value(static_cast<int64_t>(i)));
      executor.run(i);
      expect_close("loss", {executor.scalar("loss")}, {trajectory[i]}, 1e-4, 0);
    }
    for (const auto& [ours, original] : recorded.names)
      expect_close(original, from_host(variables.get(ours)),
                   recorded.golden.at("final_weight/" + original).values, 1e-3, 1e-5);
  }
}

/// The variables of both blocks.
void add_blocks(Names& names, const std::vector<std::pair<std::string, std::string>>& attention,
                const std::vector<std::pair<std::string, std::string>>& feed_forward) {
  for (int block = 0; block < 2; ++block) {
    for (const auto& [ours, original] : attention)
      names.emplace_back(fmt::format("transformer/block_{:03}/layer_000/{}", block, ours),
                         fmt::format("bert/encoder/block_{}/attention/{}", block, original));
    for (const auto& [ours, original] : feed_forward)
      names.emplace_back(fmt::format("transformer/block_{:03}/layer_001/{}", block, ours),
                         fmt::format("bert/encoder/block_{}/feedforward/{}", block, original));
  }
}

TEST(GoldenBert, NormBeforeEachLayerAndRelativePositions) {
  Names names = {{"embedding/embedding", "bert/embeddings/word_embeddings"},
                 {"token_types/embedding", "bert/embeddings/token_type_embeddings"},
                 {"rms_norm/scale", "bert/embeddings/layer_norm/scale"},
                 {"transformer/block_000/layer_000/SelfAttention/relative_attention_bias",
                  "bert/encoder/relative_attention_bias"},
                 {"transformer/rms_norm/scale", "bert/layer_norm/scale"},
                 {"predictions/dense/kernel", "cls/predictions/transform/dense/kernel"},
                 {"predictions/rms_norm/scale", "cls/predictions/transform/layer_norm/scale"},
                 {"predictions/output_bias", "cls/predictions/output_bias"},
                 {"pooler/kernel", "bert/pooler/dense/kernel"},
                 {"next_sentence/kernel", "cls/seq_relationship/kernel"}};
  add_blocks(names,
             {{"rms_norm/scale", "layer_norm/scale"},
              {"SelfAttention/q", "query/kernel"},
              {"SelfAttention/k", "key/kernel"},
              {"SelfAttention/v", "value/kernel"},
              {"SelfAttention/o", "output/kernel"}},
             {{"rms_norm/scale", "layer_norm/scale"},
              {"DenseReluDense/wi/kernel", "dense_1/kernel"},
              {"DenseReluDense/wo/kernel", "dense_2/kernel"}});
  const RecordedRows recorded("12_bert_direct_relative", names);
  const auto model = parse_model(fmt::format(
      R"({{type: masked_lm, loss_denominator: {}, layers: [
           embedding: {{output: {{d_model: 32}}, embedding: {{type: vocab, scale_logits: false}}}}, token_types, rms_norm,
           transformer: {{num_layers: 2, block: [
             SelfAttention: {{num_heads: 4, key_value_size: 8, combine_dims: false, fold_scaling_into_initializer: false,
                              relative_attention_type: bias_shared}},
             DenseReluDense: {{hidden_size: 48}}]}}],
           transform: [dense: {{output: {{d_model: 32}}, activation: relu, bias: false}}, rms_norm],
           next_sentence: [take: {{along: length}},
                           dense: {{name: pooler, output: {{d_model: 32}}, activation: tanh, bias: false}},
                           dense: {{name: next_sentence, output: {{class: 2}}, bias: false}}]}})",
      recorded.predicted()));
  expect_gradients(*model, recorded);
  expect_steps(*model, recorded);
}

TEST(GoldenBert, NormAfterEachLayerBiasesAndLearnedPositions) {
  Names names = {{"embedding/embedding", "bert/embeddings/word_embeddings"},
                 {"token_types/embedding", "bert/embeddings/token_type_embeddings"},
                 {"positions/positional_embedding", "bert/embeddings/position_embeddings"},
                 {"layer_norm/layer_norm_scale", "bert/embeddings/layer_norm/scale"},
                 {"layer_norm/layer_norm_bias", "bert/embeddings/layer_norm/bias"},
                 {"predictions/dense/kernel", "cls/predictions/transform/dense/kernel"},
                 {"predictions/dense/bias", "cls/predictions/transform/dense_1/bias"},
                 {"predictions/layer_norm_scale", "cls/predictions/transform/layer_norm/scale"},
                 {"predictions/layer_norm_bias", "cls/predictions/transform/layer_norm/bias"},
                 {"predictions/output_bias", "cls/predictions/output_bias"},
                 {"pooler/kernel", "bert/pooler/dense/kernel"},
                 {"pooler/bias", "bert/pooler/dense_1/bias"},
                 {"next_sentence/kernel", "cls/seq_relationship/kernel"},
                 {"next_sentence/bias", "cls/seq_relationship/bias"}};
  const std::vector<std::pair<std::string, std::string>> norm = {
      {"layer_norm/layer_norm_scale", "layer_norm/scale"}, {"layer_norm/layer_norm_bias", "layer_norm/bias"}};
  std::vector<std::pair<std::string, std::string>> attention = norm, feed_forward = norm;
  for (const auto& [ours, original] : Names{{"q", "query"}, {"k", "key"}, {"v", "value"}, {"o", "output"}}) {
    attention.emplace_back("SelfAttention/" + ours, original + "/kernel");
    attention.emplace_back("SelfAttention/" + ours + "_bias", original + "/bias");
  }
  for (const auto& [ours, original] : Names{{"wi", "dense_1"}, {"wo", "dense_2"}}) {
    for (const std::string part : {"/kernel", "/bias"})
      feed_forward.emplace_back("DenseReluDense/" + ours + part, original + part);
  }
  add_blocks(names, attention, feed_forward);
  const RecordedRows recorded("12_bert_original", names);
  const auto model = parse_model(fmt::format(
      R"({{type: masked_lm, loss_denominator: {}, layers: [
           embedding: {{output: {{d_model: 32}}, embedding: {{type: vocab, scale_logits: false}}}}, token_types,
           positions: {{type: learned, max_length: 16}}, layer_norm,
           transformer: {{num_layers: 2, sublayers: {{initial: [], per_layer: [call_layer, residual, layer_norm], final: []}},
             block: [
               SelfAttention: {{num_heads: 4, key_value_size: 8, combine_dims: false, fold_scaling_into_initializer: false,
                                bias: true}},
               DenseReluDense: {{hidden_size: 48, activation: gelu, bias: true}}]}}]}})",
      recorded.predicted()));
  expect_gradients(*model, recorded);
  expect_steps(*model, recorded);
}

}  // namespace
}  // namespace mtf::testing
