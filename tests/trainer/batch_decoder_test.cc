#include "trainer/decode/batch_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "data/vocabulary/vocabulary.h"
#include "engine/base/error.h"
#include "tests/support/budget.h"
#include "tests/trainer/decode_testing.h"
#include "trainer/decode/decoding_memory.h"
#include "trainer/decode/search.h"

namespace mtf::testing {
namespace {

constexpr int64_t kWords = 14;

/// Heads are whole vectors, which have the same bits for any number of queries.
constexpr const char* kSmallTranslator =
    "{type: bitransformer, d_model: 8, max_length: 160, vocab_divisor: 4, "
    "layer_defaults: {SelfAttention: {num_heads: 2, key_value_size: 16}, "
    "EncDecAttention: {num_heads: 2, key_value_size: 16}, DenseReluDense: {hidden_size: 8}}, "
    "encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}, "
    "decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}}";

/// Products of a GPU have other bits for other numbers of rows.
double tolerance() { return test_backend()->is_host() ? 0 : 1e-5; }

/// Texts of all lengths, whose results may be of all lengths.
std::vector<GivenText> texts_of_all_lengths(int count) {
  std::mt19937 random(7);
  std::vector<GivenText> given(static_cast<size_t>(count));
  for (size_t i = 0; i < given.size(); ++i) {
    given[i].number = i;
    given[i].limit = 1 + random() % 90;
    for (uint32_t k = random() % 40; k > 0; --k)
      given[i].inputs.push_back(static_cast<int32_t>(2 + random() % 12));
    given[i].inputs.push_back(kEosId);
    for (uint32_t k = random() % 4 == 0 ? random() % 40 : 0; k > 0; --k)
      given[i].prefix.push_back(static_cast<int32_t>(2 + random() % 12));
  }
  return given;
}

/// While texts grow and end, caches move between stages that share memory; nothing of that may change a text.
TEST(BatchDecoder, WritesEachTextAsAlone) {
  const std::vector<GivenText> given = texts_of_all_lengths(std::max(60, tries(200)));
  for (const DecodeOptions& options :
       {DecodeOptions{.beam_size = 3, .n_best = 2}, DecodeOptions{.method = GreedyMethod{}},
        DecodeOptions{.method = SampleMethod{.samples = 2}},
        DecodeOptions{.beam_size = 2, .min_length = 4, .no_repeat_ngram_size = 2},
        DecodeOptions{.method = SampleMethod{.top_k = 3, .frequency_penalty = 0.3}, .min_length = 4}}) {
    DecodeRun run(kSmallTranslator, kWords);
    run.set_varied(0.8);
    std::vector<Written> alone;
    for (const GivenText& text : given) alone.push_back(run.decode({text}, options)[0]);
    for (const int threads : {1, 2, 3}) {
      run.set_threads(threads);
      for (const int64_t batch_size : {5, 64, 150}) {
        DecodeOptions all = options;
        all.batch_size = batch_size;
        DecodePrograms programs(run.session());
        BatchDecoder decoder(programs, run.weights(), all);
        for (const int again : {1, 2}) {
          SCOPED_TRACE(fmt::format("{} threads, batches of {}, pass {}", threads, batch_size, again));
          expect_equal_texts(*decoder.decode(given), alone, tolerance());
        }
      }
    }
  }
}

/// Texts that enter a batch have rows that others have left, and change nothing there, in whatever order they come.
TEST(Decoder, TextsEnterWhereOthersHaveEnded) {
  std::vector<GivenText> given = texts_of_all_lengths(60);
  for (const DecodeOptions& options :
       {DecodeOptions{.beam_size = 3, .n_best = 2}, DecodeOptions{.method = GreedyMethod{}},
        DecodeOptions{.method = SampleMethod{.samples = 2}}}) {
    DecodeRun run(kSmallTranslator, kWords);
    run.set_varied(0.8);
    for (const bool is_sorted : {false, true}) {
      if (is_sorted) std::ranges::stable_sort(given, std::ranges::greater{}, &GivenText::length);
      std::vector<Written> alone;
      for (const GivenText& text : given) alone.push_back(run.decode({text}, options)[0]);
      for (const int64_t batch_size : {1, 3, 8, 24}) {
        SCOPED_TRACE(fmt::format("batches of {}, {}", batch_size, is_sorted ? "sorted" : "not sorted"));
        DecodeOptions all = options;
        all.batch_size = batch_size;
        expect_equal_texts(run.decode(given, all), alone, tolerance());
      }
    }
  }
}

/// What `decode` writes with layouts that split texts must be what it writes with one position.
void expect_same_where_texts_are_split(
    const std::function<std::vector<Written>(DecodeRun& run, const std::vector<GivenText>& given)>& decode) {
  const std::vector<GivenText> given = texts_of_all_lengths(50);
  std::vector<std::vector<Written>> results;
  for (const char* mesh : {"x:1", "x:2", "x:4"}) {
    DecodeRun run(kSmallTranslator, kWords, layouts(mesh, "batch:x"));
    run.set_varied(0.8);
    results.push_back(decode(run, given));
  }
  expect_equal_texts(results[1], results[0], tolerance());
  expect_equal_texts(results[2], results[0], tolerance());
}

TEST(Decoder, TextsEnterWhereTextsAreSplit) {
  expect_same_where_texts_are_split([](DecodeRun& run, const std::vector<GivenText>& given) {
    return run.decode(given, {.beam_size = 3, .batch_size = 12});
  });
}

/// The rows of texts that leave are filled by others, which may come from other positions.
TEST(BatchDecoder, WritesEachTextAsAloneWhereTextsAreSplit) {
  const DecodeOptions options{.beam_size = 3, .batch_size = 40};
  expect_same_where_texts_are_split([&](DecodeRun& run, const std::vector<GivenText>& given) {
    DecodePrograms programs(run.session());
    return *BatchDecoder(programs, run.weights(), options).decode(given);
  });
}

TEST(BatchDecoder, LeavesBlankTextsEmptyAndOthersAsTheyAre) {
  DecodeRun run(kSmallTranslator, kWords);
  run.set_varied(0.8);
  const std::vector<GivenText> given = texts_of_all_lengths(40);
  std::vector<GivenText> with_blanks;
  for (const GivenText& text : given) {
    with_blanks.push_back({.inputs = {kEosId}, .prefix = {}, .limit = 5, .is_blank = true});
    with_blanks.push_back(text);
  }
  for (const DecodeOptions& options : {DecodeOptions{.beam_size = 3, .batch_size = 16},
                                       DecodeOptions{.method = SampleMethod{.samples = 2}}}) {
    DecodePrograms programs(run.session());
    BatchDecoder decoder(programs, run.weights(), options);
    std::vector<Written> expected, texts = *decoder.decode(given);
    for (Written& text : texts) {
      expected.emplace_back(options.is_beam() ? 1 : 2);  // without tokens
      expected.push_back(std::move(text));
    }
    expect_equal_texts(*decoder.decode(with_blanks), expected, tolerance());
  }
}

/// Replicas of caches are compared bit for bit in these tests, also what no text reads.
TEST(BatchDecoder, KeepsReplicasEqualFromBatchToBatch) {
  DecodeRun run(kSmallTranslator, kWords, layouts("x:2", "d_ff:x"));
  run.set_varied(0.8);
  DecodePrograms programs(run.session());
  BatchDecoder decoder(programs, run.weights(), {.beam_size = 3, .batch_size = 16});
  const std::vector<GivenText> given = texts_of_all_lengths(100);
  std::mt19937 random(5);
  for (size_t begin = 0; begin < given.size();) {
    const size_t count = std::min<size_t>(1 + random() % 16, given.size() - begin);
    const std::vector<GivenText> some(given.begin() + static_cast<int64_t>(begin),
                                      given.begin() + static_cast<int64_t>(begin + count));
    EXPECT_EQ(decoder.decode(some)->size(), count);
    begin += count;
  }
}

TEST(BatchDecoder, ThreadsHaveBatchesOfTheirOwnWhereThereAreTextsEnough) {
  DecodeRun run(kSmallTranslator, kWords);
  const DecodeOptions beam{.beam_size = 4, .batch_size = 64},
      greedy{.method = GreedyMethod{}, .batch_size = 64};
  const auto shares = [&](const DecodeOptions& options, int64_t texts) {
    const DecodeShares shares = decode_shares(run.session(), options, texts);
    EXPECT_LE(shares.decoders * shares.batch_size, options.batch_size);
    return std::pair(shares.decoders, shares.threads);
  };
  run.set_threads(4);
  EXPECT_EQ(shares(beam, 1), std::pair(1, 4));
  EXPECT_EQ(shares(beam, 16), std::pair(2, 2));
  EXPECT_EQ(shares(beam, 1000), std::pair(4, 1));
  EXPECT_EQ(shares(greedy, 1000), std::pair(2, 2));
  const DecodeRun split(kSmallTranslator, kWords, layouts("x:2", "batch:x"));
  EXPECT_EQ(decode_shares(split.session(), beam, 1000).decoders, 1);
}

TEST(BatchDecoder, StopsAndReportsErrorsOfAnyThread) {
  DecodeRun run(kSmallTranslator, kWords);
  run.set_varied(0.8);
  run.set_threads(3);
  const DecodeOptions options{.beam_size = 4, .batch_size = 24};
  DecodePrograms programs(run.session());
  BatchDecoder decoder(programs, run.weights(), options);
  int asked = 0;
  EXPECT_FALSE(decoder.decode(texts_of_all_lengths(100), [&] { return ++asked == 3; }).has_value());
  EXPECT_EQ(asked, 3);
  run.set_varied(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(decoder.decode(texts_of_all_lengths(100)), Error);
}

TEST(DecodePlanner, ShortCachesDoubleAndNoneIsLongerThanTheModelsTexts) {
  const DecodeRun run(kSmallTranslator, kWords);
  const DecodeEnvironment environment = decode_environment(run.session());
  const DecodeOptions options{.batch_size = 64};
  const DecodePlanner planner(environment, options);
  std::vector<int64_t> memory;
  for (const int64_t tokens : {1, 32, 33, 64, 65, 128, 129, 160}) memory.push_back(planner.memory(tokens));
  EXPECT_EQ(memory, (std::vector<int64_t>{32, 32, 64, 64, 128, 128, 160, 160}));
  std::vector<size_t> fitting;
  for (const size_t longest : {0, 512, 513, 1024, 100000}) fitting.push_back(planner.fitting(longest));
  EXPECT_EQ(fitting, (std::vector<size_t>{64, 64, 63, 32, 1}));
}

TEST(DecodingMemory, CountsTheSearchesAndAdvisesASmallerBeam) {
  DecodeRun run(kSmallTranslator, kWords);
  Session& session = run.session();
  const GivenText text{.inputs = {kEosId}, .prefix = {}, .limit = 60};
  const auto bytes = [&](int64_t beam) {
    const DecodeOptions options{.beam_size = beam, .batch_size = 1};
    DecodePrograms programs(session);
    return DecodingMemory(programs, options).bytes({&text, 1}).host;
  };
  EXPECT_GT(bytes(400) - bytes(200), BeamSearch::bytes(200, 60) + BeamSearch::step_bytes(200, kWords));

  const DecodeOptions wide{.beam_size = 4000, .batch_size = 1, .n_best = 9};
  DecodePrograms programs(session);
  DecodingMemory memory(programs, wide);
  const auto refusal = [&](int64_t limit) {
    session.config.run.memory_limit.value = config::Bytes{limit};
    try {
      memory.check({&text, 1}, "infer");
    } catch (const Error& error) {
      return error.problems().front().hint;
    }
    return std::string();
  };
  const int64_t need = memory.need({&text, 1}).host.total();
  EXPECT_EQ(refusal(need - 1), "this fits: `infer.beam_size: 2000`");
  EXPECT_EQ(refusal(need), "");
}

}  // namespace
}  // namespace mtf::testing
