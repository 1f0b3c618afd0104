#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <tuple>

#include "data/labelled/squad.h"
#include "engine/base/error.h"
#include "tests/trainer/hugging_face_directory.h"
#include "tests/trainer/small_bert.h"
#include "trainer/predict/predict.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/bert_names.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message;
using testing::small_bert;
using testing::yaml;

TEST(BertConfig, SurvivesBothOfItsForms) {
  for (const BertHead head : {BertHead::kMaskedLm, BertHead::kPretraining, BertHead::kClassifier,
                              BertHead::kRegression, BertHead::kTagger, BertHead::kSpans}) {
    const BertConfig bert = small_bert(head);
    BertConfig parsed = parse_bert_config(bert_json(bert), "config.json");
    parsed.head = head;  // only the weights determine it
    EXPECT_EQ(parsed, bert);
    const BertConfig again = bert_of(ConfigText(yaml(bert), "bert").load());
    EXPECT_EQ(again.head, head == BertHead::kPretraining ? BertHead::kMaskedLm : head);
    EXPECT_EQ(std::tie(again.num_layers, again.num_heads, again.intermediate, again.activation),
              std::tie(bert.num_layers, bert.num_heads, bert.intermediate, bert.activation));
    EXPECT_EQ(std::tie(again.dropout, again.attention_dropout, again.epsilon, again.initializer_range),
              std::tie(bert.dropout, bert.attention_dropout, bert.epsilon, bert.initializer_range));
  }
}

BertConfig small_encoder(BertFamily family, BertHead head) {
  BertConfig bert = small_bert(head);
  bert.family = family;
  if (is_roberta(family)) {
    bert.first_position = 2;
  } else {
    bert.epsilon = 1e-12;
    if (head == BertHead::kSpans) bert.answer_dropout = 0.375;
    if (head == BertHead::kClassifier) bert.classifier_dropout = 0.125;
  }
  return bert;
}

TEST(BertConfig, EncodersLikeItSurviveBothForms) {
  for (const BertFamily family : {BertFamily::kRoberta, BertFamily::kXlmRoberta, BertFamily::kDistilBert}) {
    for (const BertHead head : {BertHead::kMaskedLm, BertHead::kClassifier, BertHead::kRegression,
                                BertHead::kTagger, BertHead::kSpans}) {
      const BertConfig bert = small_encoder(family, head);
      BertConfig parsed = parse_bert_config(bert_json(bert), "config.json");
      EXPECT_EQ(std::tie(parsed.family, parsed.first_position, parsed.max_positions, parsed.activation),
                std::tie(bert.family, bert.first_position, bert.max_positions, bert.activation));
      BertConfig again = bert_of(ConfigText(yaml(bert), "bert").load());
      const BertFamily read = family == BertFamily::kXlmRoberta ? BertFamily::kRoberta : family;
      EXPECT_EQ(std::tie(again.family, again.head, again.first_position, again.answer_dropout),
                std::tie(read, bert.head, bert.first_position, bert.answer_dropout));
      EXPECT_EQ(std::tie(again.epsilon, again.classifier_dropout, again.activation),
                std::tie(bert.epsilon, bert.classifier_dropout, bert.activation));
    }
  }
}

/// What the published config.json of these models say, with fewer and smaller layers.
TEST(BertConfig, PublishedEncodersAreRead) {
  const BertConfig roberta = parse_bert_config(
      R"({"architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
          "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
          "layer_norm_eps": 1e-05,
          "max_position_embeddings": 514, "model_type": "roberta", "num_attention_heads": 12, "pad_token_id": 1,
          "type_vocab_size": 1, "vocab_size": 50265})",
      "config.json");
  EXPECT_EQ(std::tie(roberta.first_position, roberta.max_positions, roberta.token_types, roberta.vocab_size),
            std::tuple(2, 514, 1, 50265));
  EXPECT_EQ(std::tie(roberta.begin, roberta.end, roberta.epsilon), std::tuple(0, 2, 1e-5));
  const BertConfig mnli = parse_bert_config(
      R"({"architectures": ["RobertaForSequenceClassification"], "_num_labels": 3, "hidden_size": 1024,
          "id2label": {"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"}, "model_type": "roberta", "pad_token_id": 1,
          "num_attention_heads": 16, "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 50265})",
      "config.json");
  EXPECT_THAT(mnli.label_names, ::testing::ElementsAre("CONTRADICTION", "NEUTRAL", "ENTAILMENT"));
  const BertConfig xlm = parse_bert_config(
      R"({"architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": true, "pad_token_id": 1,
          "position_embedding_type": "absolute", "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 250002})",
      "config.json");
  EXPECT_EQ(std::tie(xlm.family, xlm.vocab_size), std::tuple(BertFamily::kXlmRoberta, 250002));
  EXPECT_EQ(parse_bert_config(R"({"model_type": "camembert"})", "config.json").vocab_size, 30522);
  EXPECT_EQ(parse_bert_config(R"({"model_type": "roberta"})", "config.json").vocab_size, 50265);
  const BertConfig distilbert = parse_bert_config(
      R"({"activation": "gelu", "architectures": ["DistilBertForSequenceClassification"], "attention_dropout": 0.1, "dim": 768,
          "dropout": 0.1, "finetuning_task": "sst-2", "hidden_dim": 3072, "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
          "initializer_range": 0.02, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}, "max_position_embeddings": 512,
          "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "output_past": true, "pad_token_id": 0, "qa_dropout": 0.1,
          "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "tie_weights_": true, "vocab_size": 30522})",
      "config.json");
  EXPECT_EQ(
      std::tie(distilbert.family, distilbert.num_layers, distilbert.classifier_dropout, distilbert.epsilon),
      std::tuple(BertFamily::kDistilBert, 6, std::optional<double>(0.2), 1e-12));
}

TEST(BertConfig, TheClassifierMayHaveADropoutOfItsOwn) {
  for (const BertHead head : {BertHead::kClassifier, BertHead::kRegression, BertHead::kTagger}) {
    for (const std::optional<double> rate : {std::optional<double>(), {0.0}, {0.5}}) {
      BertConfig bert = small_bert(head);
      bert.classifier_dropout = rate;
      EXPECT_EQ(bert_of(ConfigText(yaml(bert), "bert").load()).classifier_dropout, rate);
      EXPECT_EQ(parse_bert_config(bert_json(bert), "config.json").classifier_dropout, rate);
    }
  }
  EXPECT_EQ(parse_bert_config(R"({"classifier_dropout": null})", "config.json").classifier_dropout,
            std::nullopt);
}

TEST(BertConfig, AllStepsOfAdamHaveOneLength) {
  for (const double range : {0.02, 0.3}) {
    BertConfig bert = small_bert(BertHead::kMaskedLm);
    bert.initializer_range = range;
    const std::vector<Variable> variables = ConfigText(yaml(bert), "bert").variables();
    const bool would_differ =
        std::ranges::any_of(variables, [](const Variable& variable) { return variable.step_scale != 1; });
    EXPECT_EQ(would_differ, range > 0.2);
    EXPECT_EQ(yaml(bert).find("scaled_steps: false") != std::string::npos, would_differ);
  }
}

TEST(BertNames, EveryVariableOfAModelHasADifferentOne) {
  // An encoder of two blocks has 5 + 2 * 16 variables.
  const std::vector<std::pair<BertHead, size_t>> heads = {
      {BertHead::kMaskedLm, 5},   {BertHead::kPretraining, 9}, {BertHead::kClassifier, 4},
      {BertHead::kRegression, 4}, {BertHead::kTagger, 2},      {BertHead::kSpans, 2}};
  for (const auto& [head, of_head] : heads) {
    std::set<std::string> names;
    for (const Variable& variable : ConfigText(yaml(small_bert(head)), "bert").variables()) {
      const std::optional<HuggingFaceTensor> tensor = bert_tensor(variable.name);
      ASSERT_TRUE(tensor) << variable.name;
      EXPECT_EQ(tensor->transposed, tensor->name.ends_with(".weight") && variable.shape.rank() == 2 &&
                                        tensor->name.find("embeddings") == std::string::npos)
          << tensor->name;
      names.insert(tensor->name);
    }
    EXPECT_EQ(names.size(), 37 + of_head);
  }
  for (const BertFamily family : {BertFamily::kRoberta, BertFamily::kDistilBert}) {
    for (const auto& [head, of_head] : heads) {
      if (head == BertHead::kPretraining) continue;
      const BertConfig bert = small_encoder(family, head);
      std::set<std::string> names;
      for (const Variable& variable : ConfigText(yaml(bert), "bert").variables()) {
        const std::optional<BertTensor> tensor = bert_tensor(variable.name, bert);
        ASSERT_TRUE(tensor) << variable.name;
        names.insert(tensor->name);
      }
      EXPECT_EQ(names.size(), (family == BertFamily::kDistilBert ? 36 : 37) + of_head);
    }
  }
  const BertConfig tagger = small_encoder(BertFamily::kRoberta, BertHead::kTagger);
  EXPECT_EQ(bert_tensor("classifier/kernel", tagger)->name, "classifier.weight");
  const BertConfig classifier = small_encoder(BertFamily::kRoberta, BertHead::kClassifier);
  EXPECT_EQ(bert_tensor("classifier/bias", classifier)->name, "classifier.out_proj.bias");
  EXPECT_EQ(bert_tensor("transformer/block_011/layer_000/SelfAttention/o_bias")->name,
            "bert.encoder.layer.11.attention.output.dense.bias");
  for (const char* other :
       {"transformer/block_000/layer_000/SelfAttention/kv", "transformer/rms_norm/scale", ""})
    EXPECT_FALSE(bert_tensor(other)) << other;
}

TEST(BertConfig, OtherModelsAreRefusedWithTheDifference) {
  const auto model = [](const std::string& from, const std::string& to) {
    std::string text = yaml(small_bert(BertHead::kMaskedLm));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return message([&] { bert_of(ConfigText(text, "config.yaml").load()); });
  };
  EXPECT_THAT(model("key_value_size: 8, bias: true", "key_value_size: 8, bias: qkv"),
              HasSubstr("has no biases"));
  EXPECT_THAT(model("    - layer_norm\n", "    - rms_norm\n"), HasSubstr("its layers are [embedding, "));
  EXPECT_THAT(model("call_layer, dropout: $dropout, residual, layer_norm",
                    "layer_norm, call_layer, dropout: $dropout, residual"),
              HasSubstr("`sublayers.per_layer` is [layer_norm, call_layer, residual]"));
  EXPECT_THAT(model("fold_scaling_into_initializer: false", "fold_scaling_into_initializer: true"),
              HasSubstr("fold_scaling_into_initializer"));
  EXPECT_THAT(model("scale_logits: false", "scale_logits: true"), HasSubstr("another embedding"));
  EXPECT_THAT(model("token_types: {types: 3", "token_types: {second_text: 0, types: 3"),
              HasSubstr("the second text of a row is not of type 1, as that of a BERT"));
  EXPECT_THAT(model("max_length: 30", "max_length: 30, first_position: 2"),
              HasSubstr("the second text of a row is not of type 0, as that of a RoBERTa"));
  EXPECT_THAT(
      message([] { parse_bert_config(R"({"model_type": "bert", "hidden_act": "mish"})", "config.json"); }),
      HasSubstr("`hidden_act` is mish"));
}

TEST(BertConfig, QuestionsLeaveRoomForTexts) {
  const auto question = [](int64_t positions) {
    BertConfig bert = small_bert(BertHead::kSpans);
    bert.max_positions = positions;
    const Config config = ConfigText(yaml(bert), "bert").load();
    return training_source(config)->get_if<SquadOptions>()->max_question;
  };
  EXPECT_EQ(question(64), 32);
  EXPECT_EQ(question(128), 64);
  EXPECT_EQ(question(512), 64);
}

TEST(BertConfig, OneTypeOfTokensIsEnoughForEveryHead) {
  for (const BertHead head : {BertHead::kPretraining, BertHead::kClassifier, BertHead::kSpans}) {
    BertConfig bert = small_bert(head);
    bert.token_types = 1;
    EXPECT_FALSE(ConfigText(yaml(bert), "bert").variables().empty());
  }
}

TEST(BertConfig, HeadsThatNoModelHasAreRefused) {
  const auto json = [](const std::string& entries) {
    return message([&] { parse_bert_config(R"({"model_type": "bert", )" + entries + "}", "config.json"); });
  };
  const std::string several = R"("problem_type": "multi_label_classification")";
  EXPECT_THAT(json(several + R"(, "architectures": ["BertForSequenceClassification"])"),
              HasSubstr("`problem_type` is multi_label_classification, which cannot be converted"));
  EXPECT_THAT(json(several), HasSubstr("`problem_type` is multi_label_classification"));
  EXPECT_EQ(json(several + R"(, "architectures": ["BertModel"])"), "no error");
  EXPECT_THAT(json(R"("architectures": ["BertForMultipleChoice"])"),
              HasSubstr("a BertForMultipleChoice cannot be converted"));
  EXPECT_THAT(json(R"("architectures": ["BertForNextSentencePrediction"])"),
              HasSubstr("a BertForNextSentencePrediction cannot be converted"));
}

TEST(BertConfig, LabelsHaveTheNamesOfId2label) {
  const auto names = [](const std::string& labels) {
    return parse_bert_config(R"({"id2label": )" + labels + "}", "config.json").label_names;
  };
  EXPECT_THAT(names(R"({"1": "b c", "0": "a"})"), ElementsAre("a", "b c"));
  EXPECT_THAT(names(R"({"0": "LABEL_0", "1": "yes"})"), ElementsAre("LABEL_0", "yes"));
  EXPECT_THAT(names(R"({"0": "LABEL_0", "1": "LABEL_1"})"), IsEmpty());
  EXPECT_EQ(message([&] { names(R"({"1": "a"})"); }), "config.json: `id2label` has no name for label 0");
  EXPECT_THAT(message([&] { names("3"); }), HasSubstr("`id2label` has no name for label 0"));
}

}  // namespace
}  // namespace mtf
