#include "trainer/metrics/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/base/error.h"
#include "trainer/metrics/bleu.h"
#include "trainer/metrics/numpy_random.h"
#include "trainer/metrics/ter.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;

TEST(NumpyRandom, DrawsTheBitsOfNumpy) {
  NumpyRandom zero(0), usual(12345), large((uint64_t{1} << 40) + 7);
  EXPECT_EQ(zero.next64(), 0xa30febcfd9c2825f);
  EXPECT_EQ(zero.next64(), 0x4510bdf882d9d721);
  EXPECT_EQ(usual.next64(), 0x3a32b18db2ffc19d);
  EXPECT_EQ(large.next64(), 0xd46e9e2034de21aa);
}

TEST(NumpyRandom, ChoosesWhatNumpyChooses) {
  const auto choices = [](uint64_t seed, uint32_t bound, int count) {
    NumpyRandom random(seed);
    std::vector<uint32_t> result;
    for (int i = 0; i < count; ++i) result.push_back(random.below(bound));
    return result;
  };
  EXPECT_THAT(choices(12345, 10, 12), ElementsAre(6, 2, 7, 3, 2, 7, 6, 6, 9, 3, 8, 3));
  EXPECT_THAT(choices(12345, 3'000'000'000, 5),
              ElementsAre(2097645094, 682008066, 2365940964, 950275018, 2392096371))
      << "a bound for which many numbers are rejected";
  EXPECT_THAT(choices(0, 1, 3), ElementsAre(0, 0, 0));
}

/// A corpus of 40 sentences, some of which have errors.
struct MadeUpCorpus {
  std::vector<std::string> hypotheses, reference;

  MadeUpCorpus() {
    for (int i = 0; i < 40; ++i) {
      reference.push_back("the number of this sentence is " + std::to_string(i) + " , and it ends");
      hypotheses.push_back(i % 3 == 0 ? "the number is " + std::to_string(i) : reference.back());
    }
  }
};

TEST(Bootstrap, GivesAnIntervalAroundTheScore) {
  const MadeUpCorpus corpus;
  for (const auto& metric : {make_bleu({}), make_ter({})}) {
    const MetricScore score = corpus_score(*metric, corpus.hypotheses, {corpus.reference}, 500);
    ASSERT_TRUE(score.confidence);
    EXPECT_NEAR(score.confidence->mean, score.value, 2);
    EXPECT_GT(score.confidence->half_width, 2);
    EXPECT_LT(score.confidence->half_width, 20);
    EXPECT_THAT(score.signature.to_string(), ::testing::StartsWith("nrefs:1|bs:500|seed:12345|case:"));
  }
}

/// The expected numbers are those of sacreBLEU 2.6, in which the scores of samples are float32 for TER.
TEST(Bootstrap, HasTheRoundingOfNumpy) {
  const std::vector<std::string> reference = {"a b c d e f g", "h i j k l m n o p q r", "s t u"};
  const std::vector<std::string> hypotheses = {"a b x d e f g", "h i j k l m n o p q x", "s x x"};
  const MetricScore score = corpus_score(*make_ter({}), hypotheses, {reference}, 400);
  EXPECT_EQ(score.confidence->mean, 21.2733135223388671875);
  EXPECT_EQ(score.confidence->half_width, 14.6853160858154296875);
}

class SeedSetting {
 public:
  explicit SeedSetting(const char* seed) { ::setenv("SACREBLEU_SEED", seed, 1); }
  ~SeedSetting() { ::unsetenv("SACREBLEU_SEED"); }
};

TEST(Bootstrap, TakesItsSeedFromTheEnvironment) {
  const MadeUpCorpus corpus;
  const auto bleu = make_bleu({});
  const auto confidence = [&] {
    return *corpus_score(*bleu, corpus.hypotheses, {corpus.reference}, 100).confidence;
  };
  const Confidence usual = confidence();
  EXPECT_EQ(confidence().mean, usual.mean);
  {
    const SeedSetting seed("7");
    EXPECT_NE(confidence().mean, usual.mean);
    EXPECT_EQ(confidence().seed, "7");
  }
  {
    const SeedSetting seed("None");
    EXPECT_NE(confidence().mean, confidence().mean);
    EXPECT_EQ(confidence().seed, "none");
  }
  const SeedSetting seed("7x");
  EXPECT_THROW(confidence(), Error);
}

}  // namespace
}  // namespace mtf
