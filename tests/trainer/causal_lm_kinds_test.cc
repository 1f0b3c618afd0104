// Which layers of a language model have windows and rotary positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/trainer/causal_lm_models.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/causal_lm_config.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

CausalLmConfig windowed(const std::string& type, const std::string& entries) {
  return parse_causal_lm_config(R"({"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 8,
      "num_key_value_heads": 8, "intermediate_size": 8, "vocab_size": 9, "model_type": ")" +
                                    type + "\", " + entries + "}",
                                "config.json");
}

void expect_windows(const CausalLmConfig& lm, const std::vector<bool>& local, std::optional<int64_t> window) {
  EXPECT_EQ(locals_of(lm), local);
  EXPECT_EQ(lm.window, window);
}

TEST(CausalLmKinds, WindowsAreThoseOfEachModel) {
  expect_windows(windowed("mistral", R"("sliding_window": 5)"), {true}, 5);
  expect_windows(windowed("mistral", R"("max_position_embeddings": 8192)"), {true}, 4096);
  expect_windows(windowed("mistral", R"("max_position_embeddings": 4096)"), {false}, {});
  expect_windows(windowed("mistral", R"("sliding_window": null)"), {false}, {});
  EXPECT_EQ(windowed("mistral", R"("sliding_window": null)").family, CausalLmFamily::kLlama);
  expect_windows(windowed("llama", R"("sliding_window": 5)"), {false}, {});
  expect_windows(windowed("phi3", R"("sliding_window": 5)"), {true}, 5);
  expect_windows(windowed("phi3", R"("sliding_window": 4096)"), {false}, {});
  expect_windows(windowed("phi3", R"("bos_token_id": 1)"), {false}, {});
  for (const char* qwen : {"qwen2", "qwen3"}) {
    expect_windows(windowed(qwen, R"("sliding_window": 5, "max_window_layers": 0)"), {false}, {});
    const std::string used = R"("use_sliding_window": true, "sliding_window": 5, )";
    expect_windows(windowed(qwen, used + R"("max_window_layers": 0)"), {true}, 5);
    expect_windows(windowed(qwen, used + R"("max_window_layers": 3)"), {false, false, false, true}, 5);
    expect_windows(windowed(qwen, used + R"("num_experts": 0)"), {false}, {});
    expect_windows(windowed(qwen, used + R"("max_window_layers": 0, "layer_types": ["sliding_attention",
        "full_attention", "sliding_attention", "full_attention"])"),
                   {true, false}, 5);
  }
  const auto refused = [&](const std::string& type, const std::string& entries) {
    return message([&] { windowed(type, entries); });
  };
  const std::string types = R"("layer_types": ["sliding_attention", "full_attention", "full_attention", )";
  EXPECT_THAT(refused("mistral", types + R"("full_attention"])"), HasSubstr("other windows than a mistral"));
  EXPECT_THAT(refused("qwen3", types + R"("full_attention"])"), HasSubstr("other windows than a qwen3"));
  EXPECT_THAT(refused("qwen2", types + R"("chunked_attention"])"), HasSubstr("has \"chunked_attention\""));
  EXPECT_THAT(refused("qwen2", R"("layer_types": ["full_attention"])"), HasSubstr("is no list of 4 types"));
  EXPECT_THAT(refused("phi3", R"("resid_pdrop": 0.5)"), HasSubstr("`resid_pdrop` is 0.5, and only 0.0 can"));
  EXPECT_THAT(refused("mistral", R"("sliding_window": 0)"), HasSubstr("`sliding_window` is 0, no size"));
}

TEST(CausalLmKinds, WindowsOfModelsWithExpertsAreThoseOfEachModel) {
  const auto experts = [](const std::string& type, const std::string& entries) {
    return windowed(type, R"("num_experts": 9, "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 8, )" +
                              entries);
  };
  expect_windows(experts("mixtral", R"("sliding_window": 5)"), {true}, 5);
  expect_windows(experts("mixtral", R"("sliding_window": null)"), {false}, {});
  expect_windows(experts("mixtral", R"("bos_token_id": 1)"), {false}, {});
  expect_windows(experts("olmoe", R"("sliding_window": 5)"), {false}, {});
  const std::string used = R"("use_sliding_window": true, "sliding_window": 5, )";
  expect_windows(experts("qwen3_moe", R"("sliding_window": 5)"), {false}, {});
  expect_windows(experts("qwen3_moe", used + R"("max_window_layers": 3)"), {true}, 5);
  expect_windows(experts("qwen2_moe", R"("sliding_window": 0)"), {false}, {});
  expect_windows(experts("qwen2_moe", used + R"("bos_token_id": 1)"), {true, false}, 5);
  expect_windows(experts("qwen2_moe", used + R"("max_window_layers": 2)"), {true, false, false, false}, 5);
  expect_windows(experts("qwen2_moe", used + R"("layer_types": ["full_attention", "full_attention",
      "sliding_attention", "sliding_attention"])"),
                 {false, false, true, true}, 5);
}

TEST(CausalLmKinds, SomeLayersOfASmolLm3HaveNoRotaryPositions) {
  const auto smollm3 = [](const std::string& entries) { return windowed("smollm3", entries); };
  const auto rotary = [&](const std::string& entries) {
    std::vector<bool> with;
    for (const AttentionKind& kind : smollm3(entries).kinds) with.push_back(kind.has_rotary);
    return with;
  };
  using Layers = std::vector<bool>;
  EXPECT_EQ(rotary(R"("bos_token_id": 1)"), (Layers{true, true, true, false}));
  EXPECT_EQ(rotary(R"("no_rope_layer_interval": 2)"), (Layers{true, false}));
  EXPECT_EQ(rotary(R"("no_rope_layers": [0, 1, 1, 1, 0, 0])"), (Layers{false, true, true, true}));
  EXPECT_EQ(rotary(R"("no_rope_layers": [1, 1, 1, 1], "no_rope_layer_interval": 2)"), Layers{true});
  const CausalLmConfig windows =
      smollm3(R"("use_sliding_window": true, "sliding_window": 5, "no_rope_layers": [1, 0, 1, 0])");
  expect_windows(windows, {false, true}, 5);
  expect_windows(smollm3(R"("use_sliding_window": true, "sliding_window": 5, "no_rope_layers": [1, 0, 1, 0],
      "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])"),
                 {true, false, false, false}, 5);
  expect_windows(smollm3(R"("use_sliding_window": false, "sliding_window": 5)"), {false, false, false, false},
                 {});
  const auto refused = [&](const std::string& entries) { return message([&] { smollm3(entries); }); };
  EXPECT_THAT(refused(R"("no_rope_layers": [1, 0])"), HasSubstr("`no_rope_layers` is no list of 4 numbers"));
  EXPECT_THAT(refused(R"("no_rope_layers": [1, 0, 2, 1])"), HasSubstr("`no_rope_layers` has 2"));
  EXPECT_THAT(refused(R"("no_rope_layers": [0, 0, 0, 0])"),
              HasSubstr("leaves no layer with rotary positions"));
}

TEST(CausalLmKinds, ThreeOfFourLayersOfAnOlmo3AreLocal) {
  const std::string full =
      R"("layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])";
  expect_windows(windowed("olmo3", R"("max_position_embeddings": 8192)"), {true, true, true, false}, 4096);
  const CausalLmConfig lm = windowed("olmo3", R"("sliding_window": 5, "rope_theta": 700, "rope_scaling":
      {"attention_factor": 1.2, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
       "original_max_position_embeddings": 256, "rope_type": "yarn"})");
  EXPECT_EQ(lm.local_rotary_base, 700);
  EXPECT_EQ(lm.rotary_base, 700);
  EXPECT_EQ(lm.rotary_scaling->get_if<YarnRotaryScaling>()->attention_factor, 1.2);
  EXPECT_EQ(windowed("olmo3", R"("sliding_window": 5, )" + full).family, CausalLmFamily::kOlmo2);
  EXPECT_FALSE(windowed("olmo3", full).local_rotary_base);
}

}  // namespace
}  // namespace mtf::testing
