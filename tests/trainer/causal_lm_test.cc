#include "trainer/programs/convert/causal_lm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "engine/safetensors/safetensors.h"
#include "tests/trainer/causal_lm_models.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/causal_lm_tensors.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CausalLmNames, EveryVariableOfAModelHasAPlace) {
  for (const CausalLmFamily family : kFamilies) {
    std::set<std::tuple<std::string, int64_t, std::string>> places;
    const std::vector<Variable> variables = ConfigText(yaml(small_lm(family)), "lm").variables();
    for (const Variable& variable : variables) {
      const std::optional<CausalLmTensor> tensor = causal_lm_tensor(variable.name, small_lm(family));
      ASSERT_TRUE(tensor) << variable.name;
      places.emplace(tensor->name, tensor->part ? tensor->part->begin : -1,
                     tensor->experts ? tensor->experts->of_each : "");
    }
    EXPECT_EQ(places.size(), variables.size());
  }
  const auto name = [](const char* variable, CausalLmFamily family) {
    return causal_lm_tensor(variable, small_lm(family))->name;
  };
  EXPECT_EQ(name("transformer/block_011/layer_001/DenseReluDense/wi_0/kernel", CausalLmFamily::kLlama),
            "model.layers.11.mlp.gate_proj.weight");
  EXPECT_EQ(name("transformer/block_003/layer_000/SelfAttention/k_norm/scale", CausalLmFamily::kQwen3),
            "model.layers.3.self_attn.k_norm.weight");
  EXPECT_EQ(name("transformer/block_000/layer_000/SelfAttention/v_bias", CausalLmFamily::kGpt2),
            "transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(name("transformer/block_002/layer_002/SelfAttention/q", CausalLmFamily::kGemma2),
            "model.layers.5.self_attn.q_proj.weight");
  EXPECT_EQ(name("transformer/block_002/layer_001/rms_norm_1/scale", CausalLmFamily::kGemma2),
            "model.layers.4.post_feedforward_layernorm.weight");
  EXPECT_EQ(name("transformer/block_002/layer_001/rms_norm/scale", CausalLmFamily::kGemma),
            "model.layers.2.post_attention_layernorm.weight");
  for (const auto& [family, is_less_one] :
       {std::pair(CausalLmFamily::kGemma3, true), {CausalLmFamily::kQwen3, false}}) {
    for (const char* norm :
         {"block_000/layer_000/SelfAttention/q_norm", "block_001/layer_000/rms_norm", "rms_norm"})
      EXPECT_EQ(causal_lm_tensor(fmt::format("transformer/{}/scale", norm), small_lm(family))->is_less_one,
                is_less_one);
    EXPECT_FALSE(causal_lm_tensor("transformer/embedding", small_lm(family))->is_less_one);
  }
  EXPECT_FALSE(
      causal_lm_tensor("transformer/block_002/layer_004/SelfAttention/q", small_lm(CausalLmFamily::kGemma2)));
  for (const char* other : {"transformer/block_000/layer_000/SelfAttention/kv", "transformer/block_000",
                            "transformer/", "embedding"})
    EXPECT_FALSE(causal_lm_tensor(other, small_lm(CausalLmFamily::kLlama))) << other;
}

/// Language models of 9 tokens a to i, of which e begins and g ends a text.
class CausalLmImports : public HuggingFaceDirectory {
 protected:
  CausalLmImports() { write("hf/tokenizer.json", tokenizer("abcdefghi")); }

  static std::string tokenizer(const std::string& letters) {
    nlohmann::json json = {{"model", {{"type", "BPE"}, {"merges", nlohmann::json::array()}}},
                           {"decoder", {{"type", "ByteLevel"}}},
                           {"added_tokens", nlohmann::json::array()}};
    for (const char letter : letters) json["model"]["vocab"][std::string(1, letter)] = letter - 'a';
    return json.dump();
  }
  /// A model of which entry i of the embedding is i, and of the softmax weights -i.
  ModelWeights counted(CausalLmFamily family, const std::string& begin, int64_t divisor = 1) const {
    std::string config = causal_lm_yaml(
        small_lm(family),
        {.vocabulary = fmt::format(
             "{{type: hugging_face, path: {}/tokenizer.json, begin: {}, end: g, size: 9}}", hf(), begin),
         .target = {"/models/a"},
         .source = "lm"});
    const auto set = [&](const std::string& from, const std::string& to) {
      config.replace(config.find(from), from.size(), to);
    };
    set("vocab_divisor: 1", fmt::format("vocab_divisor: {}", divisor));
    if (begin == "null") set("predict_padding: true", "predict_padding: false");
    ModelWeights model = model_of(config);
    for (ModelWeight& weight : model.weights) {
      const int64_t sign = weight.name.ends_with("logits/kernel") ? -1 : 1;
      for (int64_t i = 0; i < weight.value.shape.size(); ++i)
        weight.value.data<float>()[i] = static_cast<float>(sign * i);
    }
    return model;
  }
  /// The first entries of the rows of a tensor.
  std::vector<float> first_entries(const std::string& tensor) const {
    const HuggingFaceFiles files(hf());
    const StoredTensor& stored = files.at(tensor);
    const std::vector<float> values = stored.values<float>();
    std::vector<float> first;
    for (int64_t row = 0; row < stored.shape[0]; ++row)
      first.push_back(values[static_cast<size_t>(row * stored.shape[1])]);
    return first;
  }
  /// Writes the file of tensors anew, changed.
  void change_tensors(const std::function<void(std::vector<StoredTensor>& tensors)>& change) const {
    const std::string path = hf() + "/model.safetensors";
    const SafetensorsFile file(path);
    std::vector<StoredTensor> tensors = file.tensors();
    std::vector<std::vector<std::byte>> kept;  // the file that is read is written
    for (StoredTensor& tensor : tensors) {
      kept.emplace_back(tensor.data.begin(), tensor.data.end());
      tensor.data = kept.back();
    }
    change(tensors);
    write_safetensors(path, tensors, {});
  }
  /// Writes the experts of a Mixtral as transformers 5 does with save_original_format=False.
  void fuse_experts() const {
    const std::string path = hf() + "/model.safetensors";
    std::map<std::string, std::vector<float>> fused;
    const auto append = [&](const StoredTensor& tensor, const std::string& name) {
      std::ranges::copy(tensor.values<float>(), std::back_inserter(fused[name]));
    };
    std::map<std::string, std::vector<int64_t>> shapes;
    {
      const HuggingFaceFiles files(hf());
      for (const std::string& name : files.names()) {
        const size_t at = name.find("block_sparse_moe.");
        const bool is_of_expert = name.find(".experts.") != std::string::npos;
        const std::string renamed = at == std::string::npos ? name : name.substr(0, at) + "mlp.gate.weight";
        if (is_of_expert) continue;
        append(files.at(name), renamed);
        shapes[renamed] = files.at(name).shape;
      }
      for (int i = 0; i < 2 * 3; ++i) {
        const std::string layer = fmt::format("model.layers.{}.", i / 3),
                          expert = fmt::format("{}block_sparse_moe.experts.{}.", layer, i % 3),
                          wi = layer + "mlp.experts.gate_up_proj", wo = layer + "mlp.experts.down_proj";
        append(files.at(expert + "w1.weight"), wi);
        append(files.at(expert + "w3.weight"), wi);
        append(files.at(expert + "w2.weight"), wo);
        shapes[wi] = {3, 80, 24};
        shapes[wo] = {3, 24, 40};
      }
    }
    std::vector<StoredTensor> tensors;
    for (const auto& [name, values] : fused)
      tensors.push_back({.name = name, .shape = shapes[name], .data = std::as_bytes(std::span(values))});
    write_safetensors(path, tensors, {});
  }

  HuggingFaceImport imported() const { return import_causal_lm(hf(), target()); }
  void expect_weights(const ModelWeights& model) const {
    const HuggingFaceImport import = imported();
    ASSERT_EQ(import.model.weights.size(), model.weights.size());
    for (size_t i = 0; i < model.weights.size(); ++i)
      EXPECT_EQ(import.model.weights[i].value.bytes, model.weights[i].value.bytes) << model.weights[i].name;
  }
  /// The tokens that begin and end a text.
  static std::pair<std::optional<std::string>, std::string> ends_of(const HuggingFaceImport& import) {
    const Config config = ConfigText(import.model.config, "model").load();
    const LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
    const auto* vocabulary = language.get_if<HuggingFaceOptions>();
    return {vocabulary->begin, vocabulary->end};
  }
  static bool predicts_padding(const HuggingFaceImport& import) {
    return causal_lm_of(ConfigText(import.model.config, "model").load()).predicts_padding;
  }
};

using Ends = std::pair<std::optional<std::string>, std::string>;

TEST_F(CausalLmImports, RowsAreThoseOfTheIds) {
  // Rows of 24 entries: id 0 is e, 1 is g, the others are in their places but for a and b, which made room.
  const ModelWeights model = counted(CausalLmFamily::kLlama, "e");
  EXPECT_THAT(export_causal_lm(model, "run", hf()), IsEmpty());
  EXPECT_THAT(first_entries("model.embed_tokens.weight"),
              ElementsAre(4 * 24, 6 * 24, 2 * 24, 3 * 24, 0, 5 * 24, 24, 7 * 24, 8 * 24));
  EXPECT_THAT(first_entries("lm_head.weight"), ElementsAre(-4, -6, -2, -3, 0, -5, -1, -7, -8));
  EXPECT_EQ(json()["bos_token_id"], 4);
  EXPECT_EQ(json()["eos_token_id"], 6);
  const HuggingFaceImport import = imported();
  EXPECT_EQ(ends_of(import), Ends("e", "g"));
  EXPECT_TRUE(predicts_padding(import));
  for (size_t i = 0; i < model.weights.size(); ++i)
    EXPECT_EQ(import.model.weights[i].value.bytes, model.weights[i].value.bytes) << model.weights[i].name;
}

TEST_F(CausalLmImports, WithoutBeginTextsBeginWithTheVectorOfTheEnd) {
  const ModelWeights model = counted(CausalLmFamily::kGpt2, "null");
  EXPECT_THAT(export_causal_lm(model, "run", hf()), ElementsAre(HasSubstr("row 0 of the embedding")));
  // Id 0 is new, 1 is g; b stands in place of g, and a behind all others.
  EXPECT_THAT(first_entries("transformer.wte.weight"),
              ElementsAre(9 * 24, 6 * 24, 2 * 24, 3 * 24, 4 * 24, 5 * 24, 24, 7 * 24, 8 * 24));
  EXPECT_EQ(json()["bos_token_id"], 6);
  EXPECT_EQ(json()["vocab_size"], 9);
  const HuggingFaceImport import = imported();
  EXPECT_EQ(ends_of(import), Ends(std::nullopt, "g"));
  EXPECT_FALSE(predicts_padding(import));
  for (const ModelWeight& weight : import.model.weights) {
    const float* values = weight.value.data<float>();
    if (weight.name == "transformer/embedding") {
      EXPECT_EQ(values[0], values[24]);
    } else if (weight.name == "transformer/logits/kernel") {
      EXPECT_EQ(values[0], 0);
    }
  }
  write("model/tokenizer.json", import.files[0].second);
  EXPECT_THAT(export_causal_lm(import.model, "run", hf()), IsEmpty());
}

TEST_F(CausalLmImports, RowsBeyondTheVocabularyStayBehindTheOthers) {
  export_causal_lm(counted(CausalLmFamily::kQwen2, "null", 16), "run", hf());
  EXPECT_THAT(first_entries("model.embed_tokens.weight"),
              ElementsAre(9 * 24, 6 * 24, 2 * 24, 3 * 24, 4 * 24, 5 * 24, 24, 7 * 24, 8 * 24, 10 * 24,
                          11 * 24, 12 * 24, 13 * 24, 14 * 24, 15 * 24));
  EXPECT_EQ(json()["vocab_size"], 15);
}

TEST_F(CausalLmImports, QueriesKeysAndValuesOfAGpt2AreOneTensor) {
  const ModelWeights model = counted(CausalLmFamily::kGpt2, "e");
  export_causal_lm(model, "run", hf());
  const HuggingFaceFiles files(hf());
  const StoredTensor& tensor = files.at("transformer.h.1.attn.c_attn.weight");
  EXPECT_THAT(tensor.shape, ElementsAre(24, 72));
  // Row 1 of each third is the second of the variable.
  EXPECT_EQ(tensor.values<float>()[72], 24);
  EXPECT_EQ(tensor.values<float>()[72 + 24], 24);
  EXPECT_EQ(tensor.values<float>()[72 + 49], 25);
  expect_weights(model);
}

TEST_F(CausalLmImports, EachHeadOfAGptNeoXHasItsQueriesKeysAndValuesTogether) {
  const ModelWeights model = counted(CausalLmFamily::kGptNeoX, "e");
  export_causal_lm(model, "run", hf());
  const HuggingFaceFiles files(hf());
  const StoredTensor& tensor = files.at("gpt_neox.layers.1.attention.query_key_value.weight");
  EXPECT_THAT(tensor.shape, ElementsAre(72, 24));
  // The second head has rows 18 to 35: its keys begin at 24, with output 6 of the variable.
  EXPECT_EQ(tensor.values<float>()[24 * 24], 6);
  EXPECT_EQ(tensor.values<float>()[24 * 24 + 1], 24 + 6);
  EXPECT_EQ(files.at("gpt_neox.layers.0.attention.query_key_value.bias").values<float>()[25], 7);
  expect_weights(model);
}

TEST_F(CausalLmImports, QueriesOfAFalconStandBeforeTheKeysThatTheyShare) {
  const ModelWeights model = counted(CausalLmFamily::kFalcon, "e");
  export_causal_lm(model, "run", hf());
  const HuggingFaceFiles files(hf());
  const StoredTensor& tensor = files.at("transformer.h.1.self_attention.query_key_value.weight");
  EXPECT_THAT(tensor.shape, ElementsAre(48, 24));
  // Each of two groups has 12 rows of queries, 6 of keys and 6 of values. Those of the second begin at 24, 36 and 42.
  const std::vector<float> values = tensor.values<float>();
  EXPECT_EQ(values[24 * 24], 12);
  EXPECT_EQ(values[36 * 24], 6);
  EXPECT_EQ(values[42 * 24 + 1], 12 + 6);
  expect_weights(model);
}

TEST_F(CausalLmImports, EntriesThatACohereTurnsTogetherAreNeighboursInItsFile) {
  const ModelWeights model = counted(CausalLmFamily::kCohere, "e");
  export_causal_lm(model, "run", hf());
  const auto rows = [&](const std::string& name) {
    return first_entries("model.layers.0.self_attn." + name + "_proj.weight");
  };
  EXPECT_THAT(rows("k"), ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
  EXPECT_THAT(rows("v"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(rows("q")[19], 21);
  expect_weights(model);
}

TEST_F(CausalLmImports, NoTextReadsTheFirstRowsOfThePositionsOfAnOpt) {
  const ModelWeights model = counted(CausalLmFamily::kOpt, "e");
  export_causal_lm(model, "run", hf());
  const std::vector<float> rows = first_entries("model.decoder.embed_positions.weight");
  ASSERT_EQ(rows.size(), 32);
  EXPECT_EQ(rows[1], 0);
  EXPECT_EQ(rows[3], 24);
  expect_weights(model);
}

TEST_F(CausalLmImports, TheBiasOfLogitsHasANumberForEachId) {
  const ModelWeights model = counted(CausalLmFamily::kPhi, "e");
  export_causal_lm(model, "run", hf());
  EXPECT_THAT(HuggingFaceFiles(hf()).at("lm_head.bias").values<float>(),
              ElementsAre(4, 6, 2, 3, 0, 5, 1, 7, 8));
  expect_weights(model);
}

TEST_F(CausalLmImports, TheSoftmaxOfAGptNeoXMayHaveTheNameThatOthersHave) {
  const ModelWeights model = counted(CausalLmFamily::kGptNeoX, "e");
  export_causal_lm(model, "run", hf());
  change_tensors([](std::vector<StoredTensor>& tensors) {
    for (StoredTensor& tensor : tensors) {
      if (tensor.name == "embed_out.weight") tensor.name = "lm_head.weight";
    }
  });
  expect_weights(model);
}

TEST_F(CausalLmImports, KernelsOfExpertsAreTensorsOfTheirOwn) {
  const ModelWeights model = counted(CausalLmFamily::kMixtral, "e");
  export_causal_lm(model, "run", hf());
  {
    const HuggingFaceFiles files(hf());
    const StoredTensor& tensor = files.at("model.layers.1.block_sparse_moe.experts.2.w3.weight");
    EXPECT_THAT(tensor.shape, ElementsAre(40, 24));
    // Expert 2 of [3, 24, 40], transposed.
    EXPECT_EQ(tensor.values<float>()[1], 2 * 24 * 40 + 40);
    EXPECT_EQ(tensor.values<float>()[24], 2 * 24 * 40 + 1);
  }
  expect_weights(model);
  fuse_experts();
  expect_weights(model);
  change({{"intermediate_size", 41}});
  EXPECT_THAT(message([&] { imported(); }),
              HasSubstr("gate_up_proj` is float32 [3, 80, 24], and config.json says float32 [3, 82, 24]"));
}

TEST_F(CausalLmImports, EachExpertHasItsTensors) {
  for (const CausalLmFamily family : kFamilies) {
    if (!has_experts(family)) continue;
    const ModelWeights model = counted(family, "e");
    export_causal_lm(model, "run", hf());
    expect_weights(model);
    change({{"router_jitter_noise", 0.1}});
    EXPECT_THAT(imported().notes, ElementsAre(HasSubstr("`router_jitter_noise` is left out")));
    change({{"num_local_experts", nullptr}, {"num_experts", 4}});
    EXPECT_THAT(message([&] { imported(); }), HasSubstr("gate.weight` is float32 [3, 24]"));
  }
}

TEST_F(CausalLmImports, AFileOfAGpt2MayHaveShortNamesAndMasks) {
  export_causal_lm(counted(CausalLmFamily::kGpt2, "null"), "run", hf());
  const std::vector<std::byte> expected = imported().model.weights[5].value.bytes;
  change_tensors([](std::vector<StoredTensor>& tensors) {
    for (StoredTensor& tensor : tensors) {
      if (tensor.name.starts_with("transformer.")) tensor.name.erase(0, std::string("transformer.").size());
    }
    StoredTensor mask = tensors[0];
    mask.name = "h.0.attn.bias";
    tensors.push_back(mask);
  });
  EXPECT_EQ(imported().model.weights[5].value.bytes, expected);
}

TEST_F(CausalLmImports, TheTokeniserSaysWhatEndsAText) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  change({{"eos_token_id", {5, 6}}});
  EXPECT_EQ(ends_of(imported()), Ends("e", "f"));
  write("hf/tokenizer_config.json", R"({"eos_token": {"content": "h"}, "bos_token": null})");
  EXPECT_EQ(ends_of(imported()), Ends("e", "h"));
  write("hf/tokenizer_config.json", R"({"eos_token": "e"})");
  EXPECT_EQ(ends_of(imported()), Ends(std::nullopt, "e"));
  write("hf/tokenizer_config.json", R"({"eos_token": "z"})");
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("`eos_token` z is no token of tokenizer.json"));
  std::filesystem::remove(root_ / "hf/tokenizer_config.json");
  change({{"eos_token_id", nullptr}});
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("does not say which token ends a text"));
}

TEST_F(CausalLmImports, ATokenThatBeginsTurnsBeginsNoText) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  write("hf/tokenizer_config.json", R"({"chat_template": "{{ 'e' }} once"})");
  EXPECT_EQ(ends_of(imported()).first, std::nullopt);
  write("hf/tokenizer_config.json", R"({"chat_template": "{{ 'e' }}"})");
  EXPECT_EQ(ends_of(imported()).first, "e");
  write("hf/chat_template.jinja", "e user e model");
  EXPECT_EQ(ends_of(imported()).first, std::nullopt);
}

TEST_F(CausalLmImports, TheEmbeddingHasRowsForAllTokens) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  write("hf/tokenizer.json", tokenizer("abcdefghij"));
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("has 10 tokens, and the embedding only 9 rows"));
  write("hf/tokenizer.json", tokenizer("abcdeg"));
  EXPECT_EQ(ends_of(imported()), Ends("e", "g"));
  write("hf/tokenizer.json", tokenizer("abcdef"));
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("tokenizer.json has no token with the id 6"));
}

TEST_F(CausalLmImports, AnAddedTokenWithoutARowIsPlainText) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  nlohmann::json json = nlohmann::json::parse(tokenizer("abcdefghi"));
  json["added_tokens"].push_back({{"content", "<image>"}, {"id", 9}});
  write("hf/tokenizer.json", json.dump());
  const HuggingFaceImport import = imported();
  EXPECT_EQ(ends_of(import), Ends("e", "g"));
  EXPECT_THAT(import.notes,
              ::testing::Contains(HasSubstr("`<image>` of tokenizer.json has no row in the embedding")));
}

TEST_F(CausalLmImports, WithoutATokeniserAnImportSaysHowToMakeIt) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  std::filesystem::remove(root_ / "hf/tokenizer.json");
  const HuggingFaceImport import = imported();
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("has no tokenizer.json, which texts need"),
                                        HasSubstr("`AutoTokenizer.from_pretrained(")));
  EXPECT_FALSE(ConfigText(import.model.config, "lm").variables().empty());
  EXPECT_THAT(message([&] { export_causal_lm(import.model, "run", hf()); }),
              HasSubstr("which says what ids the model has"));
}

TEST_F(CausalLmImports, SoftmaxWeightsAreThoseOfTheTensors) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  change({{"tie_word_embeddings", true}});
  EXPECT_FALSE(causal_lm_of(ConfigText(imported().model.config, "lm").load()).tied);
}

TEST_F(CausalLmImports, ATokenThatBeginsTextsHasAProbability) {
  ModelWeights model = counted(CausalLmFamily::kLlama, "e");
  const std::string key = "predict_padding: true";
  model.config.replace(model.config.find(key), key.size(), "predict_padding: false");
  EXPECT_THAT(message([&] { export_causal_lm(model, "run", hf()); }), HasSubstr("has no probability"));
}

TEST_F(CausalLmImports, TheVocabularyOfAnExportFitsItsFile) {
  const auto exported_with = [&](const std::string& from, const std::string& to) {
    ModelWeights model = counted(CausalLmFamily::kLlama, "e");
    model.config.replace(model.config.find(from), from.size(), to);
    return message([&] { export_causal_lm(model, "run", hf()); });
  };
  EXPECT_THAT(exported_with("end: g", "end: z"), HasSubstr("tokenizer.json has no token z"));
  EXPECT_THAT(exported_with("end: g", "end: e"), HasSubstr("e both begins and ends texts"));
  EXPECT_THAT(exported_with("size: 9", "size: 8"), HasSubstr("has 9 tokens, and `size` is 8"));
  EXPECT_THAT(exported_with("size: 9", "size: 10"),
              HasSubstr("the vocabulary has 10 ids, and the embedding 9 rows"));
}

TEST_F(CausalLmImports, OtherVocabulariesKeepTheirIds) {
  ModelWeights model = counted(CausalLmFamily::kLlama, "e");
  const size_t begin = model.config.find("{type: hugging_face"), end = model.config.find("}", begin);
  model.config.replace(begin, end + 1 - begin, "{type: sentencepiece, path: a.model, size: 9}");
  EXPECT_THAT(export_causal_lm(model, "run", hf()),
              ElementsAre(HasSubstr("without files of the vocabulary")));
  EXPECT_EQ(first_entries("model.embed_tokens.weight")[3], 3 * 24);
  EXPECT_EQ(json()["bos_token_id"], 0);
  EXPECT_EQ(json()["eos_token_id"], 1);
}

TEST_F(CausalLmImports, TensorsHaveTheShapesOfTheConfiguration) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  change({{"vocab_size", 10}});
  EXPECT_THAT(
      message([&] { imported(); }),
      HasSubstr(
          "tensor `model.embed_tokens.weight` is float32 [9, 24], and config.json says float32 [10, 24]"));
  export_causal_lm(counted(CausalLmFamily::kGpt2, "e"), "run", hf());
  change({{"n_embd", 20}});
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("and config.json says float32 [9, 20]"));
  change({{"n_embd", 24}, {"n_layer", 1}});
  EXPECT_THAT(message([&] { imported(); }),
              HasSubstr("tensors that a language model of its config.json lacks"));
}

TEST_F(CausalLmImports, IdsOfATokeniserAreThoseOfItsTokens) {
  write(
      "hf/unigram.json",
      R"({"model": {"vocab": [["<unk>", 0.0], ["a", -1.5]]}, "added_tokens": [{"id": 7, "content": "<s>"}]})");
  const TokenizerIds ids(hf() + "/unigram.json");
  EXPECT_EQ(ids.id("a"), 1);
  EXPECT_EQ(ids.token(7), "<s>");
  EXPECT_EQ(ids.token(2), std::nullopt);
  EXPECT_EQ(ids.size(), 8);
  const auto damaged = [&](const std::string& text) {
    write("hf/damaged.json", text);
    return message([&] { TokenizerIds tokens(hf() + "/damaged.json"); });
  };
  EXPECT_THAT(damaged("{"), HasSubstr("damaged.json: it is no valid JSON"));
  EXPECT_THAT(damaged(R"({"model": {}})"), HasSubstr("`model` has no `vocab`"));
  EXPECT_THAT(damaged(R"({"model": {"vocab": {"a": -1}}})"), HasSubstr("token \"a\" has the id -1"));
  EXPECT_THAT(damaged(R"({"model": {"vocab": {}}, "added_tokens": [3]})"),
              HasSubstr("an entry that is no object"));
}

}  // namespace
}  // namespace mtf::testing
