// Tests blocks of layers within sublayers: their variables, and lists that are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/failure.h"
#include "tests/support/parse_model.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the names of the variables of a language model with these keys.
std::vector<std::string> variables_of(const std::string& keys) {
  const bool has_number = keys.find("num_layers") != std::string::npos;
  const auto model = parse_model("{type: lm, d_model: 8, vocab_divisor: 1, " + keys +
                                 (has_number ? "}" : ", num_layers: 1}"));
  Graph graph;
  Context context(graph, Mode::kTrain, {}, {"batch", 2});
  context.set_vocabularies({{"targets", 10}});
  const Shape rows{{"batch", 2}, {"length", 4}};
  model->build(context, {{"targets", graph.input("targets", rows, DType::kInt32)}});
  std::vector<std::string> names;
  for (const auto& variable : graph.variables()) names.push_back(variable->name);
  return names;
}

std::string error_of(const std::string& keys) {
  return failure([&] { variables_of(keys); });
}

const std::string kFeedForward = "block: [DenseReluDense: {hidden_size: 4}]";

TEST(LayerStack, SublayersWithoutANameShareNoWeights) {
  const auto around = variables_of(kFeedForward + ", sublayers: {initial: [rms_norm]}");
  EXPECT_THAT(around, Contains("transformer/rms_norm/scale"));
  EXPECT_THAT(around, Contains("transformer/rms_norm_1/scale"));
  const auto within = variables_of("block: [rms_norm]");
  EXPECT_THAT(within, Contains("transformer/block_000/layer_000/rms_norm/scale"));
  EXPECT_THAT(within, Contains("transformer/block_000/layer_000/rms_norm_1/scale"));
  const auto weighted =
      variables_of(kFeedForward + ", sublayers: {per_layer: [rezero, call_layer, rezero, residual]}");
  EXPECT_THAT(weighted, Contains("transformer/block_000/layer_000/rezero_weight"));
  EXPECT_THAT(weighted, Contains("transformer/block_000/layer_000/rezero_1/rezero_weight"));
}

TEST(LayerStack, SublayersOfOneNameShareWeights) {
  const auto shared = variables_of(kFeedForward +
                                   ", sublayers: {initial: [rms_norm: {name: norm}], "
                                   "final: [rms_norm: {name: norm}]}");
  EXPECT_EQ(std::ranges::count(shared, "transformer/norm/scale"), 1);
  EXPECT_THAT(shared, Not(Contains("transformer/norm_1/scale")));
}

TEST(LayerStack, TheLayerInHandIsOneOfSublayersOnly) {
  EXPECT_THAT(error_of("block: [call_layer]"), HasSubstr("call_layer has no layer to call"));
  EXPECT_THAT(error_of("block: [residual]"), HasSubstr("residual has no `layers`"));
  EXPECT_THAT(error_of(kFeedForward + ", sublayers: {final: [call_layer]}"),
              HasSubstr("call_layer has no layer to call"));
}

TEST(LayerStack, SublayersCallTheLayer) {
  const std::string message = "`sublayers.per_layer` leaves out the layers of the block; `call_layer`";
  EXPECT_THAT(error_of(kFeedForward + ", sublayers: {per_layer: [rms_norm, residual]}"), HasSubstr(message));
  EXPECT_THAT(error_of(kFeedForward + ", sublayers: {per_layer: []}"), HasSubstr(message));
  EXPECT_EQ(error_of(kFeedForward + ", sublayers: {per_layer: [residual: {layers: [rms_norm, call_layer]}]}"),
            "no error");
}

TEST(LayerStack, TheFirstLayerMayHaveSublayersOfItsOwn) {
  const std::string two = "num_layers: 2, block: [DenseReluDense: {hidden_size: 4}, SelfAttention]";
  const std::string first = ", sublayers: {first: [call_layer, residual]}";
  const std::string norm = "/rms_norm/scale", scope = "transformer/block_00";
  std::vector<std::string> without = variables_of(two + first), with = variables_of(two);
  EXPECT_THAT(without, Not(Contains(scope + "0/layer_000" + norm)));
  for (const char* other : {"0/layer_001", "1/layer_000", "1/layer_001"})
    EXPECT_THAT(without, Contains(scope + other + norm));
  std::erase(with, scope + "0/layer_000" + norm);
  EXPECT_EQ(without, with);
  EXPECT_THAT(error_of(two + ", sublayers: {first: [rms_norm, residual]}"),
              HasSubstr("`sublayers.first` leaves out the layers of the block; `call_layer`"));
  EXPECT_THAT(error_of(two + ", sublayers: {first: [call_layer, rms_nrm]}"), HasSubstr("rms_nrm"));
}

TEST(LayerStack, SublayersKeepTheRows) {
  EXPECT_THAT(error_of(kFeedForward + ", sublayers: {final: [mean: length]}"),
              HasSubstr("the sublayers make [batch=2, d_model=8] of [batch=2, length=4, d_model=8]"));
  const std::string narrower = ", sublayers: {final: [dense: {output: {hidden: 6}}]}";
  EXPECT_THAT(error_of(kFeedForward + narrower),
              HasSubstr("logits by the embedding need d_model=8, and the last layers make hidden=6"));
  EXPECT_EQ(error_of(kFeedForward + ", shared_embedding_and_softmax: false" + narrower), "no error");
}

TEST(LayerStack, RefusesDropoutOfAll) {
  EXPECT_THAT(error_of(kFeedForward + ", dropout: 1, token_dropout: 1"),
              HasSubstr("a dropout rate of 1 leaves nothing"));
}

}  // namespace
}  // namespace mtf::testing
