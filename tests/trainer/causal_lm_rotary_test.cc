// What config.json of a language model says of rotary positions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/causal_lm_models.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/causal_lm_config.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

TEST(CausalLmRotary, RotaryPositionsAreThoseOfEachVersionOfTransformers) {
  const auto scaling = [](const std::string& entries) {
    return parsed_lm(R"("model_type": "llama", "max_position_embeddings": 64, )" + entries);
  };
  const CausalLmConfig plain = scaling(R"("rope_theta": 500, "rope_scaling": null)");
  EXPECT_EQ(plain.rotary_base, 500);
  EXPECT_FALSE(plain.rotary_scaling);
  EXPECT_EQ(scaling(R"("rope_parameters": {"rope_type": "default", "rope_theta": 700.0})").rotary_base, 700);
  EXPECT_EQ(scaling(R"("rope_scaling": {"type": "linear", "factor": 4})")
                .rotary_scaling->get_if<LinearRotaryScaling>()
                ->factor,
            4);
  const std::string llama3 =
      R"({"rope_type": "llama3", "factor": 32, "low_freq_factor": 2, "high_freq_factor": 5)";
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const CausalLmConfig lm =
        scaling(fmt::format(R"("{}": {}, "original_max_position_embeddings": 16}})", key, llama3));
    const auto* options = lm.rotary_scaling->get_if<Llama3RotaryScaling>();
    EXPECT_EQ(std::tie(options->factor, options->low_frequency, options->high_frequency),
              std::make_tuple(32, 2, 5));
    EXPECT_EQ(options->original_length, 16);
  }
  EXPECT_THAT(message([&] { scaling(R"("rope_scaling": {"rope_type": "proportional", "factor": 4})"); }),
              HasSubstr("config.json: rope_scaling: `rope_type` is proportional, which cannot be converted"));
  const CausalLmConfig dynamic = scaling(R"("rope_scaling": {"rope_type": "dynamic", "factor": 4})");
  EXPECT_FALSE(dynamic.rotary_scaling);
  EXPECT_THAT(dynamic.notes, ::testing::ElementsAre(HasSubstr("dynamic is left out")));
  EXPECT_THAT(message([&] { scaling(R"("rope_scaling": {"rope_type": "linear"})"); }),
              HasSubstr("rope_scaling: there is no `factor`"));
  EXPECT_THAT(message([&] { scaling(R"("rope_theta": -1)"); }), HasSubstr("`rope_theta` is -1, no number"));
  EXPECT_THAT(message([&] { scaling(R"("partial_rotary_factor": 0.5)"); }), HasSubstr("only 1.0 can be"));
}

TEST(CausalLmRotary, RopeScalingStandsInThePlaceOfRopeParameters) {
  const auto base = [](const std::string& entries) {
    return parsed_lm(R"("model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 3.0,
        "rope_theta": 700.0}, )" +
                     entries);
  };
  EXPECT_EQ(base(R"("rope_scaling": null)").rotary_base, 700);
  EXPECT_EQ(base(R"("rope_scaling": {})").rotary_base, 700);
  const CausalLmConfig both = base(R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})");
  EXPECT_EQ(both.rotary_scaling->get_if<LinearRotaryScaling>()->factor, 2);
  EXPECT_EQ(both.rotary_base, 10000);
}

TEST(CausalLmRotary, YarnHasTheDefaultsOfTransformers) {
  const auto yarn = [](const std::string& entries, const std::string& beside = "") {
    const CausalLmConfig lm = parsed_lm(fmt::format(
        R"("model_type": "llama", "max_position_embeddings": 64, "rope_scaling": {{"rope_type": "yarn", {}}}{})",
        entries, beside));
    return *lm.rotary_scaling->get_if<YarnRotaryScaling>();
  };
  const YarnRotaryScaling plain = yarn(R"("factor": 4.0)");
  EXPECT_EQ(std::tie(plain.factor, plain.original_length, plain.beta_fast, plain.beta_slow, plain.truncate),
            std::make_tuple(4, 64, 32, 1, true));
  EXPECT_FALSE(plain.attention_factor);
  const std::string length = R"("original_max_position_embeddings": 16)";
  EXPECT_EQ(yarn(R"("factor": null, )" + length).factor, 4);
  EXPECT_EQ(yarn(R"("factor": 4.0, )" + length, R"(, "original_max_position_embeddings": 8)").original_length,
            8);
  EXPECT_EQ(
      yarn(R"("factor": 4.0, "attention_factor": 1.5, "mscale": 2, "mscale_all_dim": 2)").attention_factor,
      1.5);
  EXPECT_EQ(yarn(R"("factor": 4.0, "mscale": 2, "mscale_all_dim": 2)").attention_factor, 1);
  EXPECT_FALSE(yarn(R"("factor": 4.0, "mscale": 2)").attention_factor);
  EXPECT_THAT(message([&] { yarn(length); }), HasSubstr("there is no `factor`"));
  EXPECT_THAT(message([&] { yarn(R"("factor": 4.0, "beta_fast": 0.5)"); }),
              HasSubstr("`beta_fast` must be `beta_slow` at least"));
}

TEST(CausalLmRotary, APartOfAHeadIsTurned) {
  const auto size = [](const std::string& type, const std::string& entries) {
    return parse_causal_lm_config(
               fmt::format(R"({{"hidden_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                   "num_key_value_heads": 4, "intermediate_size": 8, "vocab_size": 9, "model_type": "{}", {}}})",
                           type, entries),
               "config.json")
        .rotary_size;
  };
  EXPECT_EQ(size("gpt_neox", R"("rotary_pct": 0.6)"), 6);
  EXPECT_EQ(size("gpt_neox", R"("rotary_pct": 1.0)"), std::nullopt);
  EXPECT_EQ(size("gpt_neox", R"("rotary_pct": 0.6, "rope_parameters": {"partial_rotary_factor": 0.4})"), 4);
  EXPECT_EQ(size("phi", R"("partial_rotary_factor": 0.4)"), 4);
  EXPECT_EQ(size("phi", R"("partial_rotary_factor": 0.45)"), 4);
  EXPECT_EQ(size("stablelm", R"("rope_scaling": null)"), 2);
  EXPECT_THAT(message([&] { size("phi", R"("bos_token_id": 1)"); }),
              HasSubstr("5 of the 10 entries of a head have rotary positions"));
  EXPECT_THAT(message([&] { size("phi", R"("partial_rotary_factor": 0.1)"); }), HasSubstr("1 of the 10"));
  EXPECT_THAT(message([&] { size("phi", R"("partial_rotary_factor": 1.2)"); }), HasSubstr("12 of the 10"));
  EXPECT_THAT(message([&] { size("phi", R"("qk_layernorm": true)"); }), HasSubstr("only false can be"));
  EXPECT_THAT(message([&] { size("stablelm", R"("hidden_dropout": 0.1)"); }), HasSubstr("only 0.0 can be"));
  EXPECT_THAT(message([&] { size("stablelm", R"("head_dim": 12)"); }), HasSubstr("only 10 can be"));
}

TEST(CausalLmRotary, APhi3HasLongrope) {
  const auto phi3 = [](const std::string& scaling, const std::string& beside = "") {
    return parsed_lm(fmt::format(R"("model_type": "phi3", "max_position_embeddings": 64,
                                    "original_max_position_embeddings": 16, "rope_scaling": {{{}}}{})",
                                 scaling, beside));
  };
  const std::string lists = R"("short_factor": [1, 1.5, 1, 1], "long_factor": [2, 3.5, 4, 8])";
  for (const char* type : {R"("type": "longrope", )", R"("type": "su", )", R"("rope_type": "yarn", )"}) {
    const CausalLmConfig lm = phi3(type + lists);
    EXPECT_EQ(lm.family, CausalLmFamily::kPhi3);
    EXPECT_TRUE(lm.is_fused);
    const auto* scaling = lm.rotary_scaling->get_if<LongRotaryScaling>();
    ASSERT_TRUE(scaling);
    EXPECT_EQ(std::tie(scaling->factor, scaling->original_length, scaling->is_long),
              std::make_tuple(4, 16, false));
    EXPECT_EQ(scaling->short_factor, (std::vector<double>{1, 1.5, 1, 1}));
    EXPECT_EQ(scaling->long_factor, (std::vector<double>{2, 3.5, 4, 8}));
    EXPECT_FALSE(scaling->attention_factor);
  }
  const std::string longrope = R"("type": "longrope", )";
  const CausalLmConfig given = phi3(longrope + lists + R"(, "attention_factor": 1.25)");
  EXPECT_EQ(given.rotary_scaling->get_if<LongRotaryScaling>()->attention_factor, 1.25);
  const CausalLmConfig part = phi3(longrope + R"("short_factor": [1, 2], "long_factor": [2, 4])",
                                   R"(, "partial_rotary_factor": 0.5)");
  EXPECT_EQ(part.rotary_size, 4);
  EXPECT_EQ(parsed_lm(R"("model_type": "phi3", "partial_rotary_factor": 0.5)").family, CausalLmFamily::kPhi3);
  EXPECT_EQ(parsed_lm(R"("model_type": "phi3")").family, CausalLmFamily::kLlama);
  EXPECT_THAT(message([&] { phi3(longrope + R"("short_factor": [1, 2, 3, 4])"); }),
              HasSubstr("rope_scaling: there is no `long_factor`"));
  for (const char* list : {"[1]", "[1, 1, 1, 0]", "[1, 1, 1, \"a\"]", "2"})
    EXPECT_THAT(
        message([&] { phi3(longrope + fmt::format(R"("short_factor": {}, "long_factor": [1, 2])", list)); }),
        HasSubstr("`short_factor` is no list of 4 numbers above 0"));
}

TEST(CausalLmRotary, EachShareOfAHeadComesBack) {
  for (int64_t size = 2; size <= 98; size += 2) {
    CausalLmConfig lm = small_lm(CausalLmFamily::kStableLm);
    lm.head_size = 98;
    lm.hidden = 4 * 98;
    lm.rotary_size = size < 98 ? std::optional(size) : std::nullopt;
    EXPECT_EQ(parse_causal_lm_config(causal_lm_json(lm), "config.json").rotary_size, lm.rotary_size);
  }
}

}  // namespace
}  // namespace mtf::testing
