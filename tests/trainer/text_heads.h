// Models over a Transformer's tokens that predict from encoded texts, and a batch for them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "data/source.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {

struct Head {
  std::string name, model, layers;
  std::vector<Feature> targets;
};
inline std::ostream& operator<<(std::ostream& out, const Head& head) { return out << head.name; }

constexpr int64_t kHeadRows = 8, kHeadTokens = 8, kHeadPredictions = 2;
constexpr int64_t kHeadVocabulary = 20;

inline std::vector<Head> text_heads() {
  const Shape row{{"length", kHeadTokens}}, places{{"predictions", kHeadPredictions}};
  const Feature targets{"targets", places, DType::kInt32, kHeadVocabulary},
      targets_place{"targets_place", places, DType::kInt32};
  const Feature label{"class", {}, DType::kInt32};
  return {
      {"classifier",
       "type: classifier, input: inputs, labels: class",
       "pooler, dense: {output: {classes: 4}}",
       {label}},
      {"mean_of_tokens",
       "type: classifier, input: inputs, labels: class",
       "pooler: mean, dense: {output: {classes: 4}}",
       {label}},
      {"mean_without_biases",
       "type: classifier, input: inputs, labels: class",
       "pooler: {from: mean, activation: gelu_erf, bias: false}, layer_norm: {bias: false}, "
       "dense: {output: {classes: 4}}",
       {label}},
      {"regression",
       "type: regression, input: inputs",
       "pooler, dense: {output: {targets: 1}}",
       {{"y", {{"targets", 1}}, DType::kFloat32}}},
      {"tagger", "type: tagger, labels: tags", "dense: {output: {tags: 4}}", {{"tags", row, DType::kInt32}}},
      {"spans",
       "type: spans",
       "dense: {output: {span: 2}}",
       {{"answer_mask", row, DType::kInt32},
        {"answer_start", {}, DType::kInt32},
        {"answer_end", {}, DType::kInt32}}},
      {"masked_lm", "type: masked_lm", "layer_norm", {targets, targets_place}},
      {"capped_masked_lm", "type: masked_lm, logit_soft_cap: 0.2", "layer_norm", {targets, targets_place}},
      {"pretraining",
       "type: masked_lm",
       "layer_norm",
       {targets, targets_place, {"next_sentence", {}, DType::kInt32}}},
  };
}

/// The model of vectors of `width`.
inline std::unique_ptr<Model> text_head_model(const Head& head, int64_t width = 8,
                                              int64_t vocab_divisor = 128) {
  return parse_model(fmt::format(R"({{{}, layers: [
  embedding: {{output: {{d_model: {}}}, vocab_divisor: {}}},
  token_types,
  positions: learned,
  transformer: {{num_layers: 2, block: [{{SelfAttention: {{num_heads: 2, key_value_size: 4, bias: true, bias_initializer: {{type: normal, stddev: 0.5}}}}}},
    {{DenseReluDense: {{hidden_size: 16, activation: gelu_erf, bias: true}}}}]}},
  {}]}})",
                                 head.model, width, vocab_divisor, head.layers));
}

inline std::vector<Feature> text_head_features(const Head& head) {
  const Shape row{{"length", kHeadTokens}};
  std::vector<Feature> features{{"inputs", row, DType::kInt32, kHeadVocabulary},
                                {"inputs_segmentation", row, DType::kInt32},
                                {"inputs_type", row, DType::kInt32, 2}};
  features.insert(features.end(), head.targets.begin(), head.targets.end());
  return features;
}

/// Row r has 3 + r % 5 tokens, of which the last two are of the second text. `padding` is the id in the padding.
inline std::map<std::string, Values> text_head_feeds(const Head& head, int padding = 0) {
  std::map<std::string, Values> feeds;
  for (int64_t row = 0; row < kHeadRows; ++row) {
    const int64_t length = 3 + row % 5;
    for (int64_t i = 0; i < kHeadTokens; ++i) {
      const bool token = i < length;
      feeds["inputs"].push_back(token ? static_cast<double>((row * 7 + i * 3) % 17 + 2) : padding);
      feeds["inputs_segmentation"].push_back(token);
      feeds["inputs_type"].push_back(token && i >= length - 2);
      feeds["tags"].push_back(token && i > 0 && i % 2 == 1 ? static_cast<double>((row + i) % 4) : -1);
      feeds["answer_mask"].push_back(i == 0 || (token && i >= length - 2));
    }
    feeds["class"].push_back(static_cast<double>(row % 4));
    feeds["y"].push_back(static_cast<double>(row) / 4);
    feeds["next_sentence"].push_back(static_cast<double>(row % 2));
    for (int64_t i = 0; i < kHeadPredictions; ++i) {
      feeds["targets"].push_back(i < 1 + row % 2 ? static_cast<double>((row + i) % 17 + 2) : 0);
      feeds["targets_place"].push_back(static_cast<double>(i < 1 + row % 2 ? i + 1 : 0));
    }
    feeds["answer_start"].push_back(static_cast<double>(row % 3 == 0 ? 0 : length - 2));
    feeds["answer_end"].push_back(static_cast<double>(row % 3 == 0 ? 0 : length - 1));
  }
  std::map<std::string, Values> wanted;
  for (const Feature& feature : text_head_features(head)) wanted[feature.name] = feeds.at(feature.name);
  return wanted;
}

inline std::vector<Layouts> text_head_meshes() {
  return {layouts("a:2", "batch:a"),   layouts("a:2", "heads:a;d_ff:a"),
          layouts("a:2", "d_model:a"), layouts("a:2;b:2", "batch:a;heads:b;d_ff:b"),
          layouts("a:8", "batch:a"),   layouts("a:2", "length:a")};
}

}  // namespace mtf::testing
