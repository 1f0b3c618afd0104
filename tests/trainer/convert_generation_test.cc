// Tests what becomes of the options of decoding of a model in Hugging Face form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/failure.h"
#include "trainer/programs/convert/generation.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr GenerationLengths kT5Decoder = {.given = 1}, kForcedDecoder = {.given = 2, .most = 100},
                            kAnyPrompt = {.most = 100};

struct Said {
  std::string infer;
  std::vector<std::string> notes;
};

Said said(const std::string& json, const GenerationLengths& lengths) {
  Said result;
  const Generation generation = parse_generation(json, "g.json", 1, result.notes);
  const auto token = [](int32_t id) {
    return id < 9 ? std::optional("t" + std::to_string(id)) : std::nullopt;
  };
  result.infer = infer_text(generation, lengths, token, result.notes);
  return result;
}

TEST(Generation, BecomesTheOptionsOfDecoding) {
  const auto expect = [](const std::string& json, const GenerationLengths& lengths,
                         const std::string& infer) {
    const Said result = said(json, lengths);
    EXPECT_EQ(result.infer, infer) << json;
    EXPECT_THAT(result.notes, IsEmpty()) << json;
  };
  expect(R"({"eos_token_id": 1, "pad_token_id": null, "transformers_version": "5.0"})", kT5Decoder, "");
  expect(R"({"repetition_penalty": 1.2, "temperature": 0.5, "top_k": 4})", kAnyPrompt,
         "method: greedy, repetition_penalty: 1.2");
  expect(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "min_p": 0.25})", kAnyPrompt,
         "method: {type: sample, temperature: 0.6, top_k: 50, top_p: 0.9, min_p: 0.25}");
  expect(R"({"do_sample": true, "top_k": 0, "top_p": 1.0, "max_new_tokens": 7, "min_new_tokens": 3})",
         kAnyPrompt, "method: {type: sample}, max_length: 7, min_length: 3");
  expect(R"({"num_beams": 4, "max_length": 20, "min_length": 5})", kT5Decoder,
         "method: beam, beam_size: 4, length_penalty: {alpha: 1, plus: 0}, max_length: 19, min_length: 4");
  expect(R"({"num_beams": 2, "length_penalty": 2.0, "max_length": 100, "no_repeat_ngram_size": 3})",
         kForcedDecoder,
         "method: beam, beam_size: 2, length_penalty: {alpha: 2, plus: 1}, no_repeat_ngram_size: 3");
  expect(R"({"num_beams": 1, "max_new_tokens": 8})", kForcedDecoder, "method: greedy, max_length: 7");
  expect(R"({"suppress_tokens": [3, 2], "bad_words_ids": [[3], [5]], "stop_strings": ["a\nb"]})", kT5Decoder,
         R"(method: greedy, suppress_tokens: [t2, t3, t5], stop: ["a\nb"])");
  expect(R"({"eos_token_id": [3, 1, 2], "do_sample": true, "top_k": 0, "num_return_sequences": 3})",
         kAnyPrompt, "method: {type: sample, samples: 3}, stop_tokens: [t3, t2]");
  expect(R"({"eos_token_id": 1, "forced_eos_token_id": 1, "max_length": 9})", kForcedDecoder,
         "method: greedy, max_length: 7, force_end: true");
  expect(R"({"forced_eos_token_id": [1]})", kAnyPrompt, "method: greedy, force_end: true");
  expect(R"({"eos_token_id": 4, "num_beams": 2, "num_return_sequences": 2})", kT5Decoder,
         "method: beam, beam_size: 2, n_best: 2, length_penalty: {alpha: 1, plus: 0}, stop_tokens: [t4]");
}

TEST(Generation, WhatCannotBeSaidIsNoted) {
  const Said foreign =
      said(R"({"early_stopping": true, "num_beam_groups": 2, "typical_p": 1.0})", kT5Decoder);
  EXPECT_THAT(foreign.infer, "");
  EXPECT_THAT(foreign.notes,
              ElementsAre("g.json: `early_stopping: true`, `num_beam_groups: 2` are left out, which "
                          "decoding here does not have"));
  const Said others = said(R"({"max_length": 50, "min_length": 4, "do_sample": true, "num_beams": 3,
                               "length_penalty": -1, "suppress_tokens": [99], "bad_words_ids": [[1, 2]]})",
                           kAnyPrompt);
  EXPECT_EQ(others.infer, "method: beam, beam_size: 3, length_penalty: 0");
  EXPECT_THAT(
      others.notes,
      ElementsAre(HasSubstr("`bad_words_ids` has [1,2]"), HasSubstr("`do_sample` with `num_beams`"),
                  HasSubstr("`length_penalty` -1 is below 0"), HasSubstr("`max_length` 50 counts the prompt"),
                  HasSubstr("`min_length` 4 counts the prompt"), HasSubstr("ids of no token")));
}

TEST(Generation, OnlyTheEndCanBeForced) {
  const Said other = said(R"({"forced_eos_token_id": 5, "num_beams": 1})", kT5Decoder);
  EXPECT_EQ(other.infer, "method: greedy");
  EXPECT_THAT(
      other.notes,
      ElementsAre("g.json: `forced_eos_token_id: 5` is left out: only the token that ends texts can be "
                  "forced, which is 1"));
}

TEST(Generation, WrongValuesAreRefused) {
  const auto what = [](const std::string& json) {
    std::vector<std::string> notes;
    return failure([&] { (void)parse_generation(json, "g.json", 1, notes); }, ErrorKind::kCheckpoint);
  };
  EXPECT_THAT(what(R"({"repetition_penalty": 0})"),
              HasSubstr("g.json: `repetition_penalty` is 0, no number above 0"));
  EXPECT_THAT(what(R"({"top_p": 1.5})"), HasSubstr("`top_p` is 1.5"));
  EXPECT_THAT(what(R"({"length_penalty": "long"})"), HasSubstr("`length_penalty` is"));
  EXPECT_THAT(what(R"({"suppress_tokens": [-1]})"), HasSubstr("no list of ids"));
  EXPECT_THAT(what(R"({"stop_strings": [1]})"), HasSubstr("no list of texts"));
}

TEST(Generation, SurvivesBothOfItsForms) {
  Generation generation{.is_given = true,
                        .num_beams = 3,
                        .length_penalty = 0.5,
                        .repetition_penalty = 1.25,
                        .no_repeat_ngram_size = 2,
                        .min_length = 6,
                        .max_length = 30,
                        .suppress_tokens = {2, 7},
                        .stop_tokens = {5, 4},
                        .num_return_sequences = 2,
                        .forces_end = true,
                        .stop_strings = {"x"}};
  nlohmann::ordered_json json = {{"eos_token_id", 1}};
  add_generation(generation, json);
  std::vector<std::string> notes;
  EXPECT_EQ(parse_generation(json.dump(), "g.json", 1, notes), generation);
  DecodeOptions infer;
  infer.beam_size = 3;
  infer.length_penalty = LengthPenalty{.alpha = 0.5, .plus = 1};
  infer.repetition_penalty = 1.25;
  infer.no_repeat_ngram_size = 2;
  infer.min_length = 4;
  infer.max_length = 28;
  infer.suppress_tokens = {"t7", "t2"};
  infer.stop_tokens = {"t5", "t4"};
  infer.n_best = 2;
  infer.force_end = true;
  infer.stop = {"x"};
  const auto id = [](const config::Name& piece) { return std::optional(piece.text[1] - '0'); };
  EXPECT_EQ(generation_of(infer, kForcedDecoder, id, notes), generation);
  EXPECT_THAT(notes, IsEmpty());
  infer.length_penalty = 0.6;
  (void)generation_of(infer, kForcedDecoder, id, notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("and not the length + 5")));
}

}  // namespace
}  // namespace mtf
