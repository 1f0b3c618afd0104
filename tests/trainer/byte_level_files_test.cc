#include "trainer/programs/convert/byte_level_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/trainer/hugging_face_directory.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

/// Directories with vocab.json and merges.txt.
class ByteLevelFiles : public HuggingFaceDirectory {
 protected:
  ByteLevelFiles() {
    write("hf/vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5, "<mask>": 6})");
    write("hf/merges.txt", "#version: 0.2\r\na b\r\n");
  }

  nlohmann::json made() const { return nlohmann::json::parse(byte_level_tokenizer(hf()).value()); }
};

TEST_F(ByteLevelFiles, ARobertaHasItsSpecialTokensAndRows) {
  write("hf/tokenizer_config.json",
        R"({"tokenizer_class": "RobertaTokenizerFast", "add_prefix_space": true})");
  const nlohmann::json json = made();
  EXPECT_EQ(json["model"]["vocab"]["ab"], 5);
  EXPECT_EQ(json["model"]["merges"], nlohmann::json::parse(R"([["a", "b"]])"));
  EXPECT_EQ(json["pre_tokenizer"]["add_prefix_space"], true);
  EXPECT_EQ(json["pre_tokenizer"]["use_regex"], true);
  EXPECT_EQ(json["post_processor"]["cls"], nlohmann::json::parse(R"(["<s>", 0])"));
  std::string added;
  for (const nlohmann::json& token : json["added_tokens"]) {
    added += token["content"].get<std::string>() + " ";
    EXPECT_EQ(token["lstrip"], token["content"] == "<mask>");
  }
  EXPECT_EQ(added, "<s> <pad> </s> <mask> ");
}

TEST_F(ByteLevelFiles, AddedTokensOfAQwen2HaveIdsBehindTheOthers) {
  write("hf/config.json", R"({"model_type": "qwen2"})");
  write("hf/added_tokens.json", R"({"<|im_end|>": 7, "tool": 8})");
  write("hf/special_tokens_map.json", R"({"eos_token": {"content": "<|im_end|>"}})");
  const nlohmann::json json = made();
  EXPECT_EQ(json["normalizer"]["type"], "NFC");
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"].size(), 2);
  ASSERT_EQ(json["added_tokens"].size(), 2);
  EXPECT_EQ(json["added_tokens"][0]["id"], 7);
  EXPECT_EQ(json["added_tokens"][0]["special"], true);
  EXPECT_EQ(json["added_tokens"][1]["content"], "tool");
  EXPECT_EQ(json["added_tokens"][1]["special"], false);
}

TEST_F(ByteLevelFiles, OtherKindsHaveNone) {
  EXPECT_FALSE(byte_level_tokenizer(hf()));
  write("hf/tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  EXPECT_FALSE(byte_level_tokenizer(hf()));
}

TEST_F(ByteLevelFiles, DamagedMergesAreRefused) {
  write("hf/config.json", R"({"model_type": "gpt2"})");
  for (const char* line : {"ab", " b", "a ", "a b c"}) {
    write("hf/merges.txt", std::string("#version: 0.2\n") + line + "\n");
    EXPECT_THAT(message([&] { byte_level_tokenizer(hf()); }),
                HasSubstr("merges.txt:2: the line is no merge"));
  }
}

}  // namespace
}  // namespace mtf::testing
