// Tests Context::loss_chunks(): losses, metrics and gradients are those of all logits at once, on any mesh, and the
// logits of one part alone take memory.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/runtime/memory_plan.h"
#include "tests/support/failure.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kChunkedRows = 4, kRowLength = 8, kIds = 24;

struct ChunkedModel {
  std::string name, model;
  std::vector<Feature> features;
};

const std::string kSizes = "d_model: 8, max_length: 8, vocab_divisor: 1, label_smoothing: 0.1, z_loss: 0.01";
const std::string kBlock =
    "[SelfAttention: {num_heads: 2, key_value_size: 4}, DenseReluDense: {hidden_size: 8}]";
const std::string kBothBlocks = "encoder: {num_layers: 1, block: " + kBlock +
                                "}, decoder: {num_layers: 1, block: [SelfAttention: {num_heads: 2, "
                                "key_value_size: 4}, EncDecAttention: {num_heads: 2, key_value_size: 4}, "
                                "DenseReluDense: {hidden_size: 8}]}";

std::vector<ChunkedModel> chunked_models() {
  const Feature targets{"targets", {{"length", kRowLength}}, DType::kInt32, kIds};
  const Feature inputs{"inputs", {{"length", kRowLength}}, DType::kInt32, kIds};
  return {
      {"tied lm",
       fmt::format("{{type: lm, {}, num_layers: 1, block: {}, logit_bias: true, logit_soft_cap: 2}}", kSizes,
                   kBlock),
       {targets}},
      {"lm with a kernel of its own",
       fmt::format("{{type: lm, {}, num_layers: 1, block: {}, shared_embedding_and_softmax: false, "
                   "loss_denominator: 20}}",
                   kSizes, kBlock),
       {targets}},
      {"factorized lm without padding",
       "{type: lm, d_model: 8, max_length: 8, vocab_divisor: 1, num_layers: 1, block: " + kBlock +
           ", embedding: {type: factorized, inner_size: 4}, predict_padding: false}",
       {targets}},
      {"bitransformer",
       fmt::format("{{type: bitransformer, {}, {}, shared_embedding: true}}", kSizes, kBothBlocks),
       {inputs, targets}},
      {"aligned",
       fmt::format("{{type: aligned, {}, num_layers: 1, block: {}}}", kSizes, kBlock),
       {inputs, targets}},
  };
}

std::map<std::string, Values> feeds_of(const ChunkedModel& c) {
  std::map<std::string, Values> feeds{{std::string(kWeightsInput), Values(kChunkedRows, 1)}};
  std::mt19937 random(7);
  for (const Feature& feature : c.features) {
    for (int64_t i = 0; i < kChunkedRows * kRowLength; ++i)
      feeds[feature.name].push_back(
          i % kRowLength > 5 + i / kRowLength ? 0 : static_cast<double>(random() % kIds));
  }
  return feeds;
}

TrainStepOptions training(int64_t chunks) {
  TrainStepOptions options;
  options.batch_size = kChunkedRows;
  options.trainable = {".*"};
  options.loss_chunks = chunks;
  return options;
}

std::map<std::string, Values> gradients_of(const ChunkedModel& c, const TrainStepOptions& options,
                                           const Layouts& layouts) {
  const TrainStep step = build_train_step(*parse_model(c.model), c.features, options);
  auto feeds = feeds_of(c);
  feeds.erase(std::string(kWeightsInput));
  return run_on_mesh(*step.graph, layouts, feeds).outputs;
}

void expect_near(const std::map<std::string, Values>& found, const std::map<std::string, Values>& wanted,
                 double bound, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (const auto& [name, values] : wanted)
    EXPECT_LE(relative_difference(found.at(name), values), bound) << what << " " << name;
}

TEST(LossChunks, GiveTheSameGradientsOnAnyMesh) {
  const std::vector<std::pair<std::string, std::string>> meshes = {{"x:2", "batch:x"},
                                                                   {"x:2", "vocab:x"},
                                                                   {"x:2", "length:x"},
                                                                   {"x:2", "d_model:x"},
                                                                   {"x:2;y:2", "batch:x;vocab:y"}};
  for (const ChunkedModel& c : chunked_models()) {
    const auto whole = gradients_of(c, training(1), Layouts::single());
    EXPECT_GT(whole.size(), 5u);
    for (const int64_t chunks : {2, 8})
      expect_near(gradients_of(c, training(chunks), Layouts::single()), whole, 2e-5,
                  fmt::format("{}, {}", c.name, chunks));
    for (const auto& [mesh, layout] : meshes)
      expect_near(gradients_of(c, training(4), layouts(mesh, layout)), whole, 2e-5, c.name + ", " + layout);
    expect_near(gradients_of(c, training(4), layouts("x:2", "batch:x", "vocab:x")), whole, 2e-5,
                c.name + ", FSDP");
  }
}

TEST(LossChunks, WorkInMicrobatchesAndInBFloat16) {
  for (const ChunkedModel& c : chunked_models()) {
    TrainStepOptions whole = training(1), parts = training(4);
    whole.microbatches = parts.microbatches = 2;
    expect_near(gradients_of(c, parts, Layouts::single()), gradients_of(c, whole, Layouts::single()), 2e-5,
                c.name);
    whole.precision.activation = parts.precision.activation = DType::kBFloat16;
    expect_near(gradients_of(c, parts, Layouts::single()), gradients_of(c, whole, Layouts::single()), 0.02,
                c.name);
  }
}

TEST(LossChunks, GiveTheSameMetrics) {
  for (const ChunkedModel& c : chunked_models()) {
    const auto measured = [&](int64_t chunks, const Layouts& layouts) {
      EvaluationGraphOptions options;
      options.loss_chunks = chunks;
      return run_on_mesh(*build_evaluation(*parse_model(c.model), c.features, kChunkedRows, options).graph,
                         layouts, feeds_of(c))
          .outputs;
    };
    const auto whole = measured(1, Layouts::single());
    expect_near(measured(4, Layouts::single()), whole, 1e-5, c.name);
    expect_near(measured(2, layouts("x:2;y:2", "batch:x;vocab:y")), whole, 1e-5, c.name);
    expect_near(measured(3, Layouts::single()), whole, 1e-5, c.name + ", a divisor below");
  }
}

TEST(LossChunks, ThatDoNotDivideTheRowsAreRefused) {
  const ChunkedModel c = chunked_models()[0];
  TrainStepOptions options = training(3);
  options.loss_chunks_mark.file = "run.yaml";
  options.loss_chunks_mark.line = 7;
  options.loss_chunks_mark.column = 22;
  EXPECT_THAT(
      failure([&] { build_train_step(*parse_model(c.model), c.features, options); }, ErrorKind::kConfig),
      HasSubstr("run.yaml:7:22: `train.loss_chunks` is 3, which does not divide the 8 places"));
}

TEST(LossChunks, NeedModelsOfTokens) {
  const std::vector<Feature> features{{"image", {{"pixels", 4}}, DType::kFloat32},
                                      {"labels", {}, DType::kInt32}};
  const auto model = parse_model("{type: classifier, layers: [dense: {output: {classes: 3}}]}");
  EXPECT_THAT(failure([&] { build_train_step(*model, features, training(2)); }, ErrorKind::kConfig),
              HasSubstr("is for models that predict tokens"));
}

TEST(LossChunks, TakeTheMemoryOfOnePart) {
  const Feature targets{"targets", {{"length", 256}}, DType::kInt32, 4096};
  const auto model = parse_model(
      "{type: lm, d_model: 16, max_length: 256, num_layers: 1, block: [DenseReluDense: {hidden_size: 16}]}");
  const auto temporaries = [&](int64_t chunks, const Layouts& layouts) {
    const TrainStep step = build_train_step(*model, {targets}, training(chunks));
    return plan_memory(partition(*step.graph, layouts)).position().temporaries;
  };
  for (const Layouts& of : {Layouts::single(), layouts("x:2", "vocab:x"), layouts("x:2", "batch:x"),
                            layouts("x:2", "batch:x", "d_model:x"), layouts("x:2", "length:x")})
    EXPECT_LT(4 * temporaries(16, of), temporaries(1, of));
}

}  // namespace
}  // namespace mtf::testing
