// Tests the conversion of ModernBERT: its two forms, published ones, tensors that hold several variables, what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/base/error.h"
#include "tests/trainer/hugging_face_directory.h"
#include "tests/trainer/small_bert.h"
#include "trainer/programs/convert/bert.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/bert_names.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message;
using testing::yaml;

constexpr std::array kModernHeads = {BertHead::kMaskedLm, BertHead::kClassifier, BertHead::kRegression,
                                     BertHead::kTagger, BertHead::kSpans};

BertConfig small_modern(BertHead head) {
  BertConfig bert = testing::small_bert(head);
  bert.family = BertFamily::kModernBert;
  bert.token_types = 2;
  bert.max_positions = 8192;
  bert.num_layers = 4;
  bert.dropout = 0.125;
  bert.classifier_dropout = 0.375;
  bert.begin = 5;
  bert.end = 1;
  bert.modern = {.local = {false, true},
                 .window = 3,
                 .rotary_base = 500,
                 .local_rotary_base = 90,
                 .embedding_dropout = 0.5,
                 .pools_mean = head != BertHead::kClassifier,
                 .head_activation = Activation::kSwish,
                 .padding = 0};
  return bert;
}

TEST(ModernBertConfig, SurvivesBothOfItsForms) {
  for (const BertHead head : kModernHeads) {
    const BertConfig bert = small_modern(head);
    EXPECT_EQ(parse_bert_config(bert_json(bert), "config.json"), bert);
    BertConfig again = bert_of(ConfigText(yaml(bert), "bert").load());
    if (head == BertHead::kMaskedLm) again.classifier_dropout = bert.classifier_dropout;
    // What only the weights and the vocabulary say.
    std::tie(again.vocab_size, again.hidden, again.max_positions) =
        std::tie(bert.vocab_size, bert.hidden, bert.max_positions);
    std::tie(again.begin, again.end, again.modern.padding) =
        std::tie(bert.begin, bert.end, bert.modern.padding);
    EXPECT_EQ(again, bert);
  }
}

/// What the published config.json says of answerdotai/ModernBERT-base, ...
constexpr const char* kPublishedModernBert =
    R"({"architectures": ["ModernBertForMaskedLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 50281,
        "classifier_activation": "gelu", "classifier_bias": false, "classifier_dropout": 0.0, "classifier_pooling": "mean",
        "cls_token_id": 50281, "decoder_bias": true, "deterministic_flash_attn": false, "embedding_dropout": 0.0,
        "eos_token_id": 50282, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": false,
        "hidden_activation": "gelu", "hidden_size": 768, "initializer_cutoff_factor": 2.0, "initializer_range": 0.02,
        "intermediate_size": 1152, "layer_norm_eps": 1e-05, "local_attention": 128, "local_rope_theta": 10000.0,
        "max_position_embeddings": 8192, "mlp_bias": false, "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": false,
        "norm_eps": 1e-05, "num_attention_heads": 12, "num_hidden_layers": 22, "pad_token_id": 50283,
        "position_embedding_type": "absolute", "sep_token_id": 50282, "tie_word_embeddings": true, "torch_dtype": "float32",
        "transformers_version": "4.47.0.dev0", "vocab_size": 50368})";

TEST(ModernBertConfig, PublishedModelsAreRead) {
  const BertConfig base = parse_bert_config(kPublishedModernBert, "config.json");
  EXPECT_EQ(std::tie(base.hidden, base.num_layers, base.num_heads, base.intermediate, base.vocab_size),
            std::tuple(768, 22, 12, 1152, 50368));
  EXPECT_EQ(std::tie(base.begin, base.end, base.modern.padding, base.epsilon),
            std::tuple(50281, 50282, 50283, 1e-5));
  EXPECT_EQ(std::tie(base.modern.window, base.modern.rotary_base, base.modern.local_rotary_base,
                     base.modern.pools_mean),
            std::tuple(64, 160000.0, 10000.0, true));
  EXPECT_EQ(base.activation, Activation::kGeluErf);
  ASSERT_EQ(base.modern.pattern(), 22);  // no part of 22 layers repeats
  for (size_t layer = 0; layer < 22; ++layer) EXPECT_EQ(base.modern.local[layer], layer % 3 != 0) << layer;
  // As versions of transformers from 5 on write it, the same model has lists of types and of angles.
  nlohmann::json newer = nlohmann::json::parse(kPublishedModernBert);
  for (const char* key : {"global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"})
    newer.erase(key);
  for (int layer = 0; layer < 22; ++layer)
    newer["layer_types"].push_back(layer % 3 == 0 ? "full_attention" : "sliding_attention");
  newer["rope_parameters"] = {{"full_attention", {{"rope_theta", 160000.0}, {"rope_type", "default"}}},
                              {"sliding_attention", {{"rope_theta", 10000.0}, {"rope_type", "default"}}}};
  EXPECT_EQ(parse_bert_config(newer.dump(), "config.json"), base);
  // All that it does not say is what transformers takes.
  BertConfig bare = parse_bert_config(R"({"model_type": "modernbert"})", "config.json");
  EXPECT_FALSE(bare.modern.pools_mean);
  bare.modern.pools_mean = true;
  EXPECT_EQ(bare, base);
}

TEST(ModernBertConfig, LayersThatRepeatAreListedOnce) {
  const auto pattern = [](int64_t layers, int64_t every) {
    return parse_bert_config(
               fmt::format(
                   R"({{"model_type": "modernbert", "num_hidden_layers": {}, "global_attn_every_n_layers": {}}})",
                   layers, every),
               "config.json")
        .modern.local;
  };
  EXPECT_THAT(pattern(6, 3), ElementsAre(false, true, true));
  EXPECT_THAT(pattern(4, 1), ElementsAre(false));
  EXPECT_THAT(pattern(4, 3), ElementsAre(false, true, true, false));
  EXPECT_THAT(pattern(3, 9), ElementsAre(false, true, true));
  BertConfig bert = small_modern(BertHead::kMaskedLm);
  bert.num_layers = 3;
  bert.modern.local = {true, false, false};
  const nlohmann::json json = nlohmann::json::parse(bert_json(bert));
  EXPECT_FALSE(json.contains("global_attn_every_n_layers"));  // which always begins with such a layer
  EXPECT_EQ(parse_bert_config(json.dump(), "config.json"), bert);
}

TEST(ModernBertConfig, WhatNoLayerHereComputesIsRefused) {
  const auto refusal = [](const nlohmann::json& changes) {
    nlohmann::json json = nlohmann::json::parse(kPublishedModernBert);
    json.merge_patch(changes);
    return message([&] { parse_bert_config(json.dump(), "config.json"); });
  };
  EXPECT_EQ(refusal({{"norm_bias", true}}),
            "config.json: `norm_bias` is true, and only false can be converted");
  for (const char* key : {"attention_bias", "mlp_bias", "classifier_bias"})
    EXPECT_THAT(refusal({{key, true}}), HasSubstr(fmt::format("`{}` is true", key)));
  EXPECT_THAT(refusal({{"decoder_bias", false}}), HasSubstr("`decoder_bias` is false"));
  EXPECT_THAT(refusal({{"tie_word_embeddings", false}}), HasSubstr("`tie_word_embeddings` is false"));
  EXPECT_THAT(refusal({{"rope_scaling", {{"factor", 2}}}}), HasSubstr("`rope_scaling` is"));
  EXPECT_THAT(refusal({{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}),
              HasSubstr("`rope_type` is \"yarn\", and only \"default\" can be converted"));
  EXPECT_THAT(refusal({{"classifier_pooling", "max"}}),
              HasSubstr("`classifier_pooling` is max, which cannot be converted"));
  EXPECT_THAT(refusal({{"hidden_activation", "mish"}}), HasSubstr("`hidden_activation` is mish"));
  EXPECT_THAT(refusal({{"num_attention_heads", 7}}), HasSubstr("768 cannot be divided among 7 heads"));
  EXPECT_THAT(refusal({{"layer_types", {"full_attention"}}}),
              HasSubstr("`layer_types` is no list of 22 types"));
  EXPECT_THAT(refusal({{"local_attention", 1}}), HasSubstr("`local_attention` is 1"));
  EXPECT_THAT(refusal({{"vocab_size", 50283}}), HasSubstr("`pad_token_id` is 50283, and `vocab_size` 50283"));
  EXPECT_THAT(refusal({{"sep_token_id", 50283}}), HasSubstr("`eos_token_id` is 50283, like `pad_token_id`"));
  EXPECT_THAT(refusal({{"architectures", {"ModernBertForMultipleChoice"}}}),
              HasSubstr("a ModernBertForMultipleChoice cannot be converted"));
}

TEST(ModernBertConfig, OtherModelsAreRefusedWithTheDifference) {
  const auto model = [](BertHead head, const std::string& from, const std::string& to) {
    std::string text = yaml(small_modern(head));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return message([&] { bert_of(ConfigText(text, "config.yaml").load()); });
  };
  const auto masked_lm = [&](const std::string& from, const std::string& to) {
    return model(BertHead::kMaskedLm, from, to);
  };
  EXPECT_THAT(masked_lm("symmetric: true", "symmetric: false"),
              HasSubstr("the model is no ModernBERT: later tokens are not seen as far as earlier ones"));
  EXPECT_THAT(masked_lm("epsilon: 1e-07, bias: false", "epsilon: 1e-07"), HasSubstr("its norms have biases"));
  EXPECT_THAT(masked_lm("first: [call_layer, residual]", "first: [layer_norm, call_layer, residual]"),
              HasSubstr("`sublayers.first` is [layer_norm, call_layer, residual]"));
  EXPECT_THAT(masked_lm("first: [call_layer, residual], ", ""),
              HasSubstr("it has no norm before each layer but the first one"));
  EXPECT_THAT(
      masked_lm("per_layer: [layer_norm, call_layer,", "per_layer: [layer_norm, call_layer, dropout: 0.1,"),
      HasSubstr("`sublayers.per_layer` is [layer_norm, call_layer, dropout, residual]"));
  EXPECT_THAT(masked_lm("activation: [relu, linear]", "activation: relu"),
              HasSubstr("DenseReluDense has the activation relu"));
  EXPECT_THAT(masked_lm("rotary: true", "rotary: false"), HasSubstr("its attention has other positions"));
  EXPECT_THAT(
      masked_lm("LocalSelfAttention, DenseReluDense", "LocalSelfAttention: {num_heads: 4}, DenseReluDense"),
      HasSubstr("its layers have several values of `num_heads`"));
  EXPECT_THAT(masked_lm("[SelfAttention, DenseReluDense, ", "[SelfAttention, "), HasSubstr("its block is"));
  EXPECT_THAT(masked_lm("  transform: ", "  # "), HasSubstr("it has the usual layers of `transform`"));
  EXPECT_THAT(model(BertHead::kTagger, "name: head,", "name: dense_1,"),
              HasSubstr("a dense layer has the name `dense_1`"));
  EXPECT_THAT(model(BertHead::kClassifier, "activation: swish, bias: false", "activation: swish"),
              HasSubstr("its pooler has a bias"));
  EXPECT_THAT(model(BertHead::kSpans, "    - layer_norm: {name: head_norm}\n", ""),
              HasSubstr("its layers are [embedding, layer_norm, transformer, dense, dense]"));
  // The other families have one list of sublayers for all layers.
  std::string bert = yaml(testing::small_bert(BertHead::kMaskedLm));
  const std::string initial = "{initial: [], ";
  bert.insert(bert.find(initial) + initial.size(), "first: [call_layer, residual, layer_norm], ");
  EXPECT_EQ(message([&] { bert_of(ConfigText(bert, "config.yaml").load()); }),
            "the model is no BERT: its first layer has `sublayers.first`");
}

TEST(ModernBertNames, SeveralVariablesAreInOneTensor) {
  // An encoder of four layers: 3 outer tensors, and 6 of each layer, of which the first has a norm less.
  const std::map<BertHead, size_t> of_head = {{BertHead::kMaskedLm, 3},
                                              {BertHead::kClassifier, 4},
                                              {BertHead::kRegression, 4},
                                              {BertHead::kTagger, 4},
                                              {BertHead::kSpans, 4}};
  for (const auto& [head, tensors] : of_head) {
    const BertConfig bert = small_modern(head);
    std::map<std::string, int64_t> rows;
    std::set<std::string> names;
    for (const Variable& variable : ConfigText(yaml(bert), "bert").variables()) {
      const std::optional<BertTensor> tensor = bert_tensor(variable.name, bert);
      ASSERT_TRUE(tensor) << variable.name;
      EXPECT_TRUE(names.insert(tensor->name).second || tensor->part) << tensor->name;
      if (tensor->part) rows[tensor->name] += tensor->part->count;
    }
    EXPECT_EQ(names.size(), 3 + 4 * 6 - 1 + tensors);
    for (int64_t layer = 0; layer < 4; ++layer) {
      EXPECT_EQ(rows[fmt::format("model.layers.{}.attn.Wqkv.weight", layer)], 3 * bert.hidden);
      EXPECT_EQ(rows[fmt::format("model.layers.{}.mlp.Wi.weight", layer)], 2 * bert.intermediate);
    }
  }
  const BertConfig bert = small_modern(BertHead::kMaskedLm);
  EXPECT_EQ(bert_tensor("transformer/block_001/layer_002/LocalSelfAttention/o", bert)->name,
            "model.layers.3.attn.Wo.weight");
  for (const char* other : {"transformer/block_000/layer_004/SelfAttention/o", "token_types/embedding",
                            "transformer/block_000/layer_000/SelfAttention/q_bias"})
    EXPECT_FALSE(bert_tensor(other, bert)) << other;
}

class ModernBertFiles : public testing::HuggingFaceDirectory {
 protected:
  /// A model in which each number of a variable is another one.
  static ModelWeights counted(BertHead head) {
    ModelWeights model = model_of(yaml(small_modern(head)));
    float next = 1;
    for (const ModelWeight& weight : model.weights) {
      float* const values = const_cast<ModelWeight&>(weight).value.data<float>();
      for (int64_t i = 0; i < weight.value.shape.size(); ++i) values[i] = next++;
    }
    return model;
  }
  static std::map<std::string, std::vector<float>> values_of(const ModelWeights& model) {
    std::map<std::string, std::vector<float>> values;
    for (const ModelWeight& weight : model.weights) {
      const float* const first = weight.value.data<float>();
      values[weight.name].assign(first, first + weight.value.shape.size());
    }
    return values;
  }
};

TEST_F(ModernBertFiles, EveryHeadSurvivesAnExport) {
  const std::map<BertHead, std::string> classes = {
      {BertHead::kMaskedLm, "ModernBertForMaskedLM"},
      {BertHead::kClassifier, "ModernBertForSequenceClassification"},
      {BertHead::kRegression, "ModernBertForSequenceClassification"},
      {BertHead::kTagger, "ModernBertForTokenClassification"},
      {BertHead::kSpans, "ModernBertForQuestionAnswering"}};
  for (const auto& [head, name] : classes) {
    const ModelWeights model = counted(head);
    export_bert(model, "run", hf());
    EXPECT_EQ(json()["architectures"], nlohmann::json{name});
    const HuggingFaceFiles files(hf());
    EXPECT_EQ(files.at("model.layers.2.attn.Wqkv.weight").shape, (std::vector<int64_t>{72, 24}));
    EXPECT_EQ(files.at("model.layers.3.mlp.Wi.weight").shape, (std::vector<int64_t>{80, 24}));
    EXPECT_FALSE(files.find("model.layers.0.attn_norm.weight"));
    const ModelWeights imported = import_bert(hf(), target()).model;
    EXPECT_EQ(values_of(imported), values_of(model));
    EXPECT_EQ(bert_of(ConfigText(imported.config, "bert").load()),
              bert_of(ConfigText(model.config, "bert").load()));
  }
}

TEST_F(ModernBertFiles, OneOutputIsARegression) {
  ModelWeights model = counted(BertHead::kRegression);
  export_bert(model, "run", hf());
  EXPECT_EQ(json()["problem_type"], "regression");
  EXPECT_EQ(bert_of(ConfigText(import_bert(hf(), target()).model.config, "bert").load()).head,
            BertHead::kRegression);
  change({{"problem_type", nullptr}});
  EXPECT_EQ(bert_of(ConfigText(import_bert(hf(), target()).model.config, "bert").load()).head,
            BertHead::kClassifier);  // of two outputs
}

TEST_F(ModernBertFiles, AnEncoderAloneStaysOne) {
  ModelWeights encoder = counted(BertHead::kMaskedLm);
  std::erase_if(encoder.weights,
                [](const ModelWeight& weight) { return weight.name.starts_with("predictions/"); });
  export_bert(encoder, "run", hf());
  EXPECT_EQ(json()["architectures"], nlohmann::json{"ModernBertModel"});
  EXPECT_TRUE(HuggingFaceFiles(hf()).find("layers.1.attn.Wqkv.weight"));
  const HuggingFaceImport import = import_bert(hf(), target());
  EXPECT_EQ(values_of(import.model), values_of(encoder));
  EXPECT_THAT(import.notes, Contains(HasSubstr("has an encoder alone")));
  EXPECT_THAT(ConfigText(import.model.config, "bert").load().checkpoint.init.exclude,
              ElementsAre("predictions/"));
}

TEST_F(ModernBertFiles, FilesThatDoNotFitAreRefused) {
  export_bert(counted(BertHead::kTagger), "run", hf());
  const auto refusal = [&] { return message([&] { import_bert(hf(), target()); }); };
  change({{"architectures", nullptr}});
  EXPECT_EQ(refusal(), hf() + "/config.json: `architectures` does not say what `classifier.weight` predicts");
  change({{"architectures", {"ModernBertForTokenClassification"}}, {"intermediate_size", 41}});
  EXPECT_THAT(refusal(), HasSubstr("`model.layers.0.mlp.Wi.weight` is"));
  change({{"intermediate_size", 40}, {"num_hidden_layers", 2}, {"layer_types", nullptr}});
  EXPECT_THAT(refusal(), HasSubstr("tensors that a ModernBERT of its config.json lacks"));
  change({{"num_hidden_layers", 5}});
  EXPECT_THAT(refusal(), HasSubstr("no tensor `model.layers.4."));
}

}  // namespace
}  // namespace mtf
