#include "trainer/metrics/report.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

MetricScore bleu() {
  MetricScore score{.name = "BLEU", .value = 62.25, .details = "87.9/71.4 (BP = 0.956)"};
  score.signature.add("nrefs", "#", "1");
  score.signature.add("tok", "tok", "13a");
  return score;
}

MetricScore chrf() {
  MetricScore score{.name = "chrF2++", .value = 78};
  score.signature.add("nrefs", "#", "1");
  return score;
}

MetricScore with_interval(MetricScore score) {
  score.confidence = {.mean = 62.31, .half_width = 1.96, .samples = 1000, .seed = "12345"};
  return score;
}

TEST(TextReport, HasSignatureScoreAndDetails) {
  const std::vector<MetricScore> one = {bleu()};
  EXPECT_EQ(text_report(one, {}), "BLEU|nrefs:1|tok:13a = 62.2 87.9/71.4 (BP = 0.956)\n");
  EXPECT_EQ(text_report(one, {.width = 4, .short_signature = true}),
            "BLEU|#:1|tok:13a = 62.2500 87.9/71.4 (BP = 0.956)\n");
  EXPECT_EQ(text_report(one, {.score_only = true}), "62.2\n");
}

TEST(TextReport, AlignsTheValuesOfSeveralMetrics) {
  const std::vector<MetricScore> two = {bleu(), chrf()};
  EXPECT_EQ(text_report(two, {}),
            "BLEU|nrefs:1|tok:13a = 62.2 87.9/71.4 (BP = 0.956)\n     chrF2++|nrefs:1 = 78.0\n");
  EXPECT_EQ(text_report(two, {.score_only = true}), "62.2\n78.0\n");
}

TEST(TextReport, PutsTheIntervalBehindTheScore) {
  const std::vector<MetricScore> one = {with_interval(chrf())};
  EXPECT_EQ(text_report(one, {}), "chrF2++|nrefs:1 = 78.0 (μ = 62.3 ± 2.0)\n");
  EXPECT_EQ(text_report(one, {.color = true}), "chrF2++|nrefs:1 = 78.0 \x1b[36m(μ = 62.3 ± 2.0)\x1b[0m\n");
}

TEST(JsonReport, HasTheScoreAndWhatTheSignatureSays) {
  const std::vector<MetricScore> one = {with_interval(bleu())};
  EXPECT_EQ(json_report(one, {}), R"json({
 "name": "BLEU",
 "score": 62.2,
 "signature": "nrefs:1|tok:13a",
 "confidence_mean": 62.3,
 "confidence_var": 2.0,
 "confidence": "μ = 62.3 ± 2.0",
 "verbose_score": "87.9/71.4 (BP = 0.956)",
 "nrefs": "1",
 "tok": "13a"
}
)json");
}

TEST(JsonReport, OfSeveralMetricsIsAList) {
  const std::vector<MetricScore> two = {chrf(), chrf()};
  const std::string object =
      "{\n \"name\": \"chrF2++\",\n \"score\": 78.0,\n \"signature\": \"nrefs:1\",\n \"nrefs\": \"1\"\n}";
  EXPECT_EQ(json_report(two, {}), "[\n" + object + ",\n" + object + "\n]\n");
}

}  // namespace
}  // namespace mtf
