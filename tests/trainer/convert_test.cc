#include "trainer/programs/convert/convert.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "data/class_names.h"
#include "data/labelled/labelled_text.h"
#include "data/labelled/squad.h"
#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/error.h"
#include "tests/trainer/hugging_face_directory.h"
#include "tests/trainer/small_bert.h"
#include "trainer/predict/predict.h"
#include "trainer/programs/convert/bert.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/bert_names.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/t5.h"
#include "trainer/programs/convert/t5_config.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message;
using testing::small_bert;
using testing::yaml;

T5Config unusual() {
  T5Config t5;
  t5.vocab_size = 250;
  t5.d_model = 24;
  t5.d_kv = 10;
  t5.d_ff = 48;
  t5.num_layers = 2;
  t5.num_decoder_layers = 3;
  t5.num_heads = 5;
  t5.num_buckets = 16;
  t5.dropout = 0.25;
  t5.epsilon = 1e-5;
  t5.activation = {Activation::kGelu, Activation::kLinear};
  t5.tied = t5.scaled_logits = false;
  return t5;
}

std::string yaml(const T5Config& t5) {
  return t5_yaml(
      t5, {.vocabulary = "{type: sentencepiece, size: 200}", .target = {"/models/a b"}, .source = "t5"});
}

TEST(T5Names, AreThoseOfHuggingFace) {
  const std::vector<std::tuple<std::string, std::string, bool>> names = {
      {"shared/embedding", "shared.weight", false},
      {"decoder/logits/kernel", "lm_head.weight", true},
      {"encoder/rms_norm/scale", "encoder.final_layer_norm.weight", false},
      {"encoder/block_000/layer_000/SelfAttention/relative_attention_bias",
       "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", true},
      {"decoder/block_011/layer_001/EncDecAttention/q", "decoder.block.11.layer.1.EncDecAttention.q.weight",
       true},
      {"decoder/block_011/layer_001/rms_norm/scale", "decoder.block.11.layer.1.layer_norm.weight", false},
      {"decoder/block_100/layer_002/DenseReluDense/wi_1/kernel",
       "decoder.block.100.layer.2.DenseReluDense.wi_1.weight", true},
  };
  for (const auto& [ours, theirs, transposed] : names) {
    const std::optional<HuggingFaceTensor> tensor = t5_tensor(ours);
    ASSERT_TRUE(tensor) << ours;
    EXPECT_EQ(tensor->name, theirs);
    EXPECT_EQ(tensor->transposed, transposed) << ours;
  }
  for (const char* other : {"transformer/embedding", "encoder/block_000/layer_000/SelfAttention/kv",
                            "encoder/positional_embedding", "encoder/block_0/layer_000/SelfAttention/q",
                            "decoder/block_000/layer_001/EncDecAttention/relative_attention_bias",
                            "encoder/block_000/layer_000/SelfAttention/q_slot_vr",
                            "encoder/block_000/layer_001/DenseReluDense/wi/bias", ""})
    EXPECT_FALSE(t5_tensor(other)) << other;
}

TEST(T5Names, EveryVariableOfAModelHasADifferentOne) {
  for (const bool tied : {false, true}) {
    T5Config t5 = unusual();
    t5.tied = tied;
    std::set<std::string> names;
    const std::vector<Variable> variables = ConfigText(yaml(t5), "t5").variables();
    for (const Variable& variable : variables) {
      const std::optional<HuggingFaceTensor> tensor = t5_tensor(variable.name);
      ASSERT_TRUE(tensor) << variable.name;
      names.insert(tensor->name);
    }
    // There are 9 variables in each block of the encoder and 14 in each of the decoder; on each side a table
    // of positions and a norm; the embedding, and the softmax weights unless they are tied.
    EXPECT_EQ(variables.size(), 2U * 9 + 3U * 14 + 4 + (tied ? 1 : 2));
    EXPECT_EQ(names.size(), variables.size());
  }
}

TEST(T5Config, SurvivesBothOfItsForms) {
  T5Config plain = unusual();
  plain.activation = {Activation::kRelu};
  plain.tied = plain.scaled_logits = true;
  plain.epsilon = 1e-6;
  T5Config tied = unusual();
  tied.tied = true;
  for (const T5Config& t5 : {unusual(), plain, tied, T5Config()}) {
    EXPECT_EQ(parse_t5_config(t5_json(t5), "config.json"), t5);
    T5Config again = t5_of(ConfigText(yaml(t5), "t5").load());
    again.vocab_size = t5.vocab_size;  // only the weights determine it
    EXPECT_EQ(again, t5);
  }
}

TEST(T5Config, AModelWithHeadsApartIsTheSameT5) {
  std::string text = yaml(unusual());
  const std::string key = "num_heads: 5", option = "combine_dims: false, ";
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + option.size() + 1))
    text.insert(at, option);
  T5Config t5 = t5_of(ConfigText(text, "t5").load());
  t5.vocab_size = unusual().vocab_size;
  EXPECT_EQ(t5, unusual());
}

TEST(ConfigText, PlacesNameTheModelAndNotATemporaryFile) {
  const Config config = ConfigText(yaml(unusual()), "runs/t5").load();
  EXPECT_EQ(config.mark("model.d_model").file, "runs/t5: config.yaml");
  EXPECT_EQ(config.model.mark().file, "runs/t5: config.yaml");
  try {
    ConfigText("model: {type: bitransformer, d_modl: 8}", "runs/t5").variables();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().mark.file, "runs/t5: config.yaml");
  }
}

TEST(ConfigText, NeedsNoEndOfTheTraining) {
  std::string text = yaml(unusual());
  const size_t at = text.find("steps: 10000, ");
  ASSERT_NE(at, std::string::npos);
  const ConfigText config(text.erase(at, 14), "t5");
  EXPECT_EQ(config.load().run.mode, RunMode::kTrain);
  EXPECT_FALSE(config.variables().empty());
}

TEST(T5Config, AnEmbeddingHasItsRowsWhateverTheVocabularyHas) {
  for (const Variable& variable : ConfigText(yaml(unusual()), "t5").variables()) {
    if (variable.name != "shared/embedding") continue;
    EXPECT_EQ(variable.shape, (Shape{{"vocab", 250}, {"d_model", 24}}));
  }
}

TEST(T5Config, WhatIsLeftOutHasTheDefaultsOfHuggingFace) {
  EXPECT_EQ(parse_t5_config(R"({"model_type": "t5"})", "config.json"), T5Config());
  const T5Config deeper = parse_t5_config(R"({"model_type": "t5", "num_layers": 9})", "config.json");
  EXPECT_EQ(deeper.num_decoder_layers, 9);
  // In older files, which do not say whether logits are scaled, tied embeddings imply it.
  const T5Config older = parse_t5_config(R"({"model_type": "mt5", "tie_word_embeddings": false})", "");
  EXPECT_FALSE(older.tied || older.scaled_logits);
  const T5Config newer = parse_t5_config(
      R"({"model_type": "t5", "tie_word_embeddings": true, "scale_decoder_outputs": false})", "");
  EXPECT_TRUE(newer.tied && !newer.scaled_logits);
}

TEST(T5Config, LogitsOfAnMT5AreNotScaledSinceVersion5OfTransformers) {
  const auto parsed = [](const std::string& type, const std::string& version) {
    return parse_t5_config(R"({"model_type": ")" + type + R"(", "tie_word_embeddings": true)" + version + "}",
                           "");
  };
  const std::string of_5 = R"(, "transformers_version": "5.24.0")",
                    of_4 = R"(, "transformers_version": "4.57.6")";
  EXPECT_FALSE(parsed("mt5", of_5).scaled_logits);
  EXPECT_TRUE(parsed("mt5", of_5).tied);
  EXPECT_TRUE(parsed("mt5", of_5 + R"(, "scale_decoder_outputs": true)").scaled_logits);
  EXPECT_TRUE(parsed("mt5", of_4).scaled_logits);
  EXPECT_TRUE(parsed("mt5", "").scaled_logits);
  EXPECT_TRUE(parsed("t5", of_5).scaled_logits);
}

TEST(T5Config, OtherModelsAreRefusedWithTheDifference) {
  const auto json = [](const std::string& entry) {
    return message([&] { parse_t5_config(R"({"model_type": "t5", )" + entry + "}", "config.json"); });
  };
  EXPECT_EQ(json(R"("decoder_start_token_id": 2)"),
            "config.json: `decoder_start_token_id` is 2, and only 0 can be converted");
  EXPECT_EQ(json(R"("num_heads": -1)"), "config.json: `num_heads` is -1, no size");
  EXPECT_EQ(json(R"("num_heads": 1e30)"), "config.json: `num_heads` is 1e+30, no size");
  EXPECT_EQ(json(R"("dropout_rate": 1)"), "config.json: `dropout_rate` is 1, no number from 0 to 1");
  EXPECT_EQ(json(R"("d_kv": 1, "d_kv": 2)"), "config.json: `d_kv` occurs twice");
  EXPECT_THAT(message([] { parse_t5_config("[1]", "config.json"); }), HasSubstr("no JSON object"));

  const auto model = [](const std::string& from, const std::string& to) {
    std::string text = yaml(unusual());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return message([&] { t5_of(ConfigText(text, "config.yaml").load()); });
  };
  EXPECT_EQ(model("type: bitransformer", "type: bitransformer\n  shared_embedding: false"),
            "the model is no T5: inputs and targets have embeddings of their own");
  EXPECT_THAT(model("[SelfAttention, DenseReluDense]", "[DenseReluDense]"),
              HasSubstr("the encoder's block is [DenseReluDense]"));
  EXPECT_THAT(model("bias_shared", "bias"), HasSubstr("SelfAttention has other relative positions"));
  EXPECT_THAT(model("SelfAttention: {num_heads", "SelfAttention: {soft_cap: 30, num_heads"),
              HasSubstr("SelfAttention has a soft_cap"));
  EXPECT_THAT(model("  positions: none", "  logit_soft_cap: 30\n  positions: none"),
              HasSubstr("its logits have a soft cap"));
  EXPECT_THAT(model("EncDecAttention: {num_heads: 5", "EncDecAttention: {num_heads: 10"),
              HasSubstr("EncDecAttention has other heads"));
  EXPECT_THAT(model("EncDecAttention: {num_heads: 5", "EncDecAttention: {num_memory_heads: 1, num_heads: 5"),
              HasSubstr("EncDecAttention has num_memory_heads"));
  EXPECT_THAT(model("SelfAttention: {num_heads", "SelfAttention: {rotary: true, num_heads"),
              HasSubstr("rotary"));
  EXPECT_THAT(model("activation: [gelu, linear]", "activation: [tanh, linear]"),
              HasSubstr("DenseReluDense has the activation [tanh, linear]"));
  EXPECT_THAT(model("{hidden_size: 48", "{bias: true, hidden_size: 48"),
              HasSubstr("DenseReluDense has biases"));
}

class Imports : public testing::HuggingFaceDirectory {
 protected:
  std::vector<std::string> exported(const ModelWeights& model) const {
    return export_bert(model, "run", hf());
  }

  using HuggingFaceDirectory::model_of;
  static ModelWeights model_of(BertHead head) { return model_of(yaml(small_bert(head))); }
  static std::vector<std::string> names_of(const ModelWeights& model) {
    std::vector<std::string> names;
    for (const ModelWeight& weight : model.weights) names.push_back(weight.name);
    return names;
  }
  static int64_t extra_ids_of(const HuggingFaceImport& import) {
    const Config config = ConfigText(import.model.config, "model").load();
    const LanguageVocabulary vocabulary = by_side(*config.data.vocabulary).targets;
    if (const auto* bytes = vocabulary.get_if<BytesOptions>()) return bytes->extra_ids;
    return vocabulary.get_if<SentencePieceOptions>()->extra_ids;
  }
  static std::vector<std::string> classes_of(const ModelWeights& model) {
    const Config config = ConfigText(model.config, "model").load();
    return training_source(config)->get_if<LabelledTextOptions>()->classes;
  }
};

TEST_F(Imports, AnMT5HasTheSoftmaxOfItsTensors) {
  for (const bool tied : {false, true}) {
    T5Config t5 = unusual();
    t5.tied = tied;
    ModelWeights model = model_of(yaml(t5));
    for (ModelWeight& weight : model.weights) {
      if (weight.name == "decoder/logits/kernel") *weight.value.data<float>() = 1;
    }
    export_t5(model, "run", hf());
    change({{"model_type", "mt5"},
            {"tie_word_embeddings", true},
            {"scale_decoder_outputs", nullptr},
            {"transformers_version", "5.24.0"}});
    const ModelWeights imported = import_t5(hf(), target()).model;
    EXPECT_EQ(names_of(imported), names_of(model));
    EXPECT_EQ(t5_of(ConfigText(imported.config, "t5").load()).tied, tied);
    EXPECT_FALSE(t5_of(ConfigText(imported.config, "t5").load()).scaled_logits);
  }
}

TEST_F(Imports, SentinelsOfAT5AreThoseOfItsTokeniser) {
  TextSample sample;
  for (int i = 0; i < 200; ++i) sample.add(fmt::format("from {} to {}", i, i * 7 % 100));
  const std::string pieces = train_sentencepiece(sample, {.size = 40, .byte_fallback = false});
  export_t5(model_of(yaml(unusual())), "run", hf());
  write("hf/spiece.model", pieces);
  const auto imported = [&](const std::string& tokenizer) {
    write("hf/tokenizer_config.json", tokenizer);
    return import_t5(hf(), target());
  };
  // The embedding has 250 rows.
  EXPECT_EQ(extra_ids_of(imported("{}")), 100);
  EXPECT_EQ(extra_ids_of(imported(R"({"extra_ids": 210})")), 210);
  EXPECT_EQ(extra_ids_of(imported(R"({"extra_ids": 0})")), 0);
  const HuggingFaceImport larger = imported(R"({"extra_ids": 211})");
  EXPECT_EQ(extra_ids_of(larger), 0);
  EXPECT_THAT(larger.notes, ElementsAre(HasSubstr("no rows for 211 <extra_id_N> behind 40 pieces")));
  EXPECT_THAT(message([&] { imported(R"({"extra_ids": -1})"); }), HasSubstr("`extra_ids` is -1, no size"));
}

TEST_F(Imports, SentinelsOfAByT5AreThoseThatItsTokeniserNumbersDownwards) {
  T5Config t5 = unusual();
  t5.vocab_size = 384;
  const auto exported_with = [&](const std::string& vocabulary) {
    export_t5(model_of(t5_yaml(t5, {.vocabulary = vocabulary, .target = {"/models/a"}, .source = "t5"})),
              "run", hf());
    return nlohmann::json::parse(read_text_file(hf() + "/tokenizer_config.json"));
  };
  nlohmann::json tokenizer = exported_with("{type: bytes, extra_ids: 125}");
  EXPECT_EQ(tokenizer["added_tokens_decoder"]["383"]["content"], "<extra_id_0>");
  EXPECT_EQ(tokenizer["added_tokens_decoder"]["259"]["content"], "<extra_id_124>");
  HuggingFaceImport import = import_t5(hf(), target());
  EXPECT_EQ(extra_ids_of(import), 125);
  EXPECT_THAT(import.notes, IsEmpty());

  std::swap(tokenizer["added_tokens_decoder"]["259"], tokenizer["added_tokens_decoder"]["383"]);
  write("hf/tokenizer_config.json", tokenizer.dump());
  import = import_t5(hf(), target());
  EXPECT_EQ(extra_ids_of(import), 0);
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("upwards from 259")));

  EXPECT_FALSE(exported_with("bytes").contains("added_tokens_decoder"));
  import = import_t5(hf(), target());
  EXPECT_EQ(extra_ids_of(import), 0);
  EXPECT_THAT(import.notes, IsEmpty());
}

TEST_F(Imports, ClassesKeepTheirNames) {
  BertConfig bert = small_bert(BertHead::kClassifier);
  bert.labels = 3;
  ModelWeights model = model_of(yaml(bert));
  exported(model);
  EXPECT_EQ(json()["id2label"]["2"], "LABEL_2");
  EXPECT_THAT(import_bert(hf(), target()).model.preparation, IsEmpty());

  const std::vector<std::string> names = {"entailment", "neutral", "contra: diction"};
  model.preparation = preparation_of(names);
  exported(model);
  EXPECT_EQ(json()["id2label"], (nlohmann::json{{"0", names[0]}, {"1", names[1]}, {"2", names[2]}}));
  EXPECT_EQ(json()["label2id"], (nlohmann::json{{names[0], 0}, {names[1], 1}, {names[2], 2}}));
  const ModelWeights imported = import_bert(hf(), target()).model;
  EXPECT_EQ(imported.preparation, preparation_of(names));
  EXPECT_EQ(classes_of(imported), names);
}

TEST_F(Imports, WhatTheRunHasNotPreparedTheConfigurationNames) {
  BertConfig bert = small_bert(BertHead::kClassifier);
  bert.label_names = {"no", "yes"};
  exported(model_of(yaml(bert)));
  EXPECT_EQ(json()["label2id"], (nlohmann::json{{"no", 0}, {"yes", 1}}));
}

TEST_F(Imports, NamesMustBeThoseOfTheClasses) {
  exported(model_of(BertHead::kTagger));
  change({{"id2label", {{"0", "O"}, {"1", "O"}}}});
  const HuggingFaceImport import = import_bert(hf(), target());
  EXPECT_THAT(prepared_classes(import.model.preparation), ElementsAre("O", "O (1)"));
  EXPECT_THAT(import.notes, ::testing::Contains(HasSubstr("has `O` twice: label 1 is `O (1)`")));
  change({{"id2label", {{"0", "O"}, {"1", ""}}}});
  const HuggingFaceImport nameless = import_bert(hf(), target());
  EXPECT_THAT(nameless.model.preparation, IsEmpty());
  EXPECT_THAT(nameless.notes, ::testing::Contains(HasSubstr("labels are numbers")));
  change({{"id2label", {{"0", "O"}, {"1", "B"}, {"2", "I"}}}});
  EXPECT_THAT(message([&] { import_bert(hf(), target()); }),
              HasSubstr("config.json: `id2label` has 3 names, and `classifier.weight` 2 rows"));
}

TEST_F(Imports, ABertWithOneOutputIsARegression) {
  BertConfig bert = small_bert(BertHead::kRegression);
  bert.labels = 1;
  const ModelWeights model = model_of(yaml(bert));
  exported(model);
  EXPECT_EQ(json()["problem_type"], "regression");
  change({{"problem_type", nullptr}});
  const ModelWeights imported = import_bert(hf(), target()).model;
  EXPECT_EQ(names_of(imported), names_of(model));
  EXPECT_EQ(bert_of(ConfigText(imported.config, "bert").load()).head, BertHead::kRegression);
}

TEST_F(Imports, AnEncoderAloneStaysOne) {
  for (const BertHead head : {BertHead::kMaskedLm, BertHead::kPretraining}) {
    ModelWeights encoder = model_of(head);
    std::erase_if(encoder.weights, [](const ModelWeight& weight) {
      return weight.name.starts_with("predictions/") || weight.name.starts_with("next_sentence/");
    });
    exported(encoder);
    EXPECT_EQ(json()["architectures"], nlohmann::json{"BertModel"});
    EXPECT_TRUE(HuggingFaceFiles(hf()).find("embeddings.word_embeddings.weight"));
    const HuggingFaceImport import = import_bert(hf(), target());
    EXPECT_EQ(names_of(import.model), names_of(encoder));
    EXPECT_THAT(import.notes, ::testing::Contains(HasSubstr("has an encoder alone")));
    std::vector<std::string> left = {"predictions/"};
    if (head == BertHead::kPretraining) left.emplace_back("next_sentence/");
    EXPECT_EQ(ConfigText(import.model.config, "bert").load().checkpoint.init.exclude, left);
  }
}

TEST_F(Imports, AFileOfWeightsNamesTheVocabularyOfItsSource) {
  exported(model_of(BertHead::kMaskedLm));
  write("hf/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  const std::string file = (root_ / "a.safetensors").string();
  EXPECT_THAT(convert({.from = hf(), .to = file}),
              ::testing::Contains(HasSubstr("its configuration names " + hf() + "/vocab.txt")));
  const std::string from_file = (root_ / "again").string(), to_hf = (root_ / "hf_again").string();
  convert({.from = file, .to = to_hf, .format = WeightFormat::kHuggingFaceBert});
  EXPECT_EQ(read_text_file(to_hf + "/vocab.txt"), read_text_file(hf() + "/vocab.txt"));
  EXPECT_THAT(convert({.from = file, .to = from_file}),
              ::testing::Not(::testing::Contains(HasSubstr("has no vocabulary"))));
  std::filesystem::remove(root_ / "hf/vocab.txt");
  EXPECT_THAT(convert({.from = file, .to = from_file, .force = true}),
              ::testing::Contains(HasSubstr("there is no file " + hf() + "/vocab.txt")));
}

TEST_F(Imports, ADirectoryHasACopyOfTheVocabulary) {
  write("hf/spiece.model", "pieces");
  HuggingFaceImport import;
  EXPECT_EQ(vocabulary_path(hf(), "spiece.model", target(), import), target().path + "/spiece.model");
  EXPECT_THAT(import.files, ElementsAre(std::pair<std::string, std::string>("spiece.model", "pieces")));
  EXPECT_THAT(import.notes, IsEmpty());
  vocabulary_path(hf(), "vocab.txt", target(), import);
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("has no vocab.txt, which texts need")));
}

TEST(WithHeadsTogether, GroupedHeadsAreOneDimension) {
  EXPECT_EQ(with_heads_together({{"d_model", 4}, {"heads", 2}, {"query_heads", 3}, {"d_kv", 5}}),
            (Shape{{"d_model", 4}, {"heads", 30}}));
}

TEST(ValueOf, SaysHowToMakeFloat32) {
  Variable variable;
  variable.shape = {{"d", 2}};
  const StoredTensor stored{.name = "norm.weight", .dtype = DType::kFloat64, .shape = {2}};
  try {
    value_of(variable, stored, false, "hf");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.problems().front().message, HasSubstr("`norm.weight` is float64 [2]"));
    EXPECT_THAT(error.problems().front().hint, HasSubstr("model.float()"));
  }
}

}  // namespace
}  // namespace mtf
