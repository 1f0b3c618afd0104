#include "trainer/metrics/paired_test.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "trainer/metrics/bleu.h"
#include "trainer/metrics/chrf.h"
#include "trainer/metrics/numpy_random.h"
#include "trainer/metrics/systems_report.h"
#include "trainer/metrics/ter.h"

namespace mtf {
namespace {

/// Returns sentences of the words w0 w1 ..., which are the same on every machine.
std::vector<std::string> sentences(uint64_t seed) {
  NumpyRandom random(seed);
  std::vector<std::string> result;
  for (int i = 0; i < 20; ++i) {
    std::string sentence;
    for (uint32_t words = 4 + random.below(6); words > 0; --words)
      sentence += "w" + std::to_string(random.below(8)) + " ";
    result.push_back(sentence);
  }
  return result;
}

const std::vector<std::vector<std::string>> kSystems = {sentences(1), sentences(2), sentences(3)};
const References kReferences = {sentences(4)};

TEST(NumpyRandom, DrawsBooleans) {
  NumpyRandom random(12345);
  std::string bits;
  for (int i = 0; i < 40; ++i) bits += random.next_bit() ? '1' : '0';
  EXPECT_EQ(bits, "1011100110000011111111110100110110110001");
}

TEST(PairedBootstrap, HasTheNumbersOfSacrebleu) {
  const MetricColumn bleu = paired_test(*make_bleu({}), kSystems, kReferences, {PairedTest::kBootstrap, 300});
  ASSERT_EQ(bleu.scores.size(), 3u);
  EXPECT_EQ(bleu.scores[0].value, 4.760060312577367);
  EXPECT_FALSE(bleu.scores[0].p_value);
  EXPECT_EQ(bleu.scores[0].confidence->mean, 4.425313406921193);
  EXPECT_EQ(bleu.scores[0].confidence->half_width, 2.2089352727533447);
  EXPECT_EQ(bleu.scores[1].p_value, 0.3654485049833887);
  EXPECT_EQ(bleu.scores[2].p_value, 0.006644518272425249);
  EXPECT_EQ(bleu.scores[2].confidence->mean, 2.3860459490428343);
  const MetricColumn chrf = paired_test(*make_chrf({}), kSystems, kReferences, {PairedTest::kBootstrap, 300});
  EXPECT_EQ(chrf.name, "chrF2");
  EXPECT_EQ(chrf.scores[0].confidence->mean, 25.625134f) << "of numbers in single precision";
  EXPECT_EQ(chrf.scores[1].p_value, 0.24916943521594684);
  EXPECT_EQ(chrf.scores[2].confidence->mean, 23.40451f);
  EXPECT_EQ(chrf.scores[2].confidence->half_width, 3.161231f);
  EXPECT_EQ(bleu.signature.to_string(),
            "nrefs:1|bs:300|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
}

TEST(PairedRandomization, HasTheNumbersOfSacrebleu) {
  const PairedOptions options{PairedTest::kRandomization, 200};
  const BleuOptions add_half{.smoothing = BleuSmoothing::kAddK, .smooth_value = 1.5};
  const MetricColumn bleu = paired_test(*make_bleu(add_half), kSystems, kReferences, options);
  const MetricColumn ter = paired_test(*make_ter({}), kSystems, kReferences, options);
  EXPECT_EQ(bleu.scores[1].p_value, 0.9203980099502488) << "sacreBLEU adds 1.5 to integers";
  EXPECT_EQ(bleu.scores[2].p_value, 0.11940298507462686);
  EXPECT_EQ(ter.scores[0].value, 89.78102189781022);
  EXPECT_EQ(ter.scores[1].p_value, 0.31840796019900497);
  EXPECT_EQ(ter.scores[2].p_value, 0.3034825870646766);
  EXPECT_FALSE(bleu.scores[1].confidence);
  EXPECT_EQ(ter.signature.to_string(true), "#:1|ar:200|rs:12345|c:lc|t:tercom|nr:no|pn:yes|as:no|v:2.6.0");
}

SystemsReport two_systems() {
  SystemsReport report{.names = {"Baseline: a", "b_1"}, .columns = {}, .paired = std::nullopt};
  MetricColumn column;
  column.name = "chrF2";
  column.signature.add("nrefs", "#", "1");
  column.scores = {{.value = 62.3125}, {.value = 9.5}};
  report.columns = {column};
  return report;
}

TEST(SystemsReport, IsATableWithSignatures) {
  EXPECT_EQ(systems_report(two_systems(), {.format = ReportFormat::kText}),
            R"(╒═════════════╤═════════╕
│      System │  chrF2  │
╞═════════════╪═════════╡
│ Baseline: a │  62.3   │
├─────────────┼─────────┤
│         b_1 │   9.5   │
╘═════════════╧═════════╛

-----------------
Metric signatures
-----------------
 - chrF2      nrefs:1
)");
}

TEST(SystemsReport, OfAPairedTestHasItsNumbersInTheCells) {
  SystemsReport report = two_systems();
  report.paired = PairedOptions{PairedTest::kBootstrap, 100};
  for (SystemScore& score : report.columns[0].scores) score.confidence = {62.25, 1.5, 100, "12345"};
  report.columns[0].scores[1].p_value = 0.25;
  const std::string text = systems_report(report, {.format = ReportFormat::kText});
  EXPECT_NE(text.find("│         b_1 │   9.5 (62.2 ± 1.5)   │\n│             │     (p = 0.2500)     │\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Paired bootstrap resampling test with 100 resampling trials"), std::string::npos);
  const std::string latex = systems_report(report, {.format = ReportFormat::kLatex});
  EXPECT_NE(latex.find(" b\\_1 & 9.5 (62.2 ± 1.5) (p = 0.2500) \\\\\n\\bottomrule\n\\end{tabular}\n"),
            std::string::npos)
      << latex;
  report.columns[0].scores[1].p_value = 0.01;
  const std::string json = systems_report(report, {});
  EXPECT_NE(json.find(R"(    {
        "system": "b_1",
        "chrF2": {
            "score": 9.5,
            "p_value": 0.01,
            "mean": 62.25,
            "ci": 1.5
        }
    }
]
)"),
            std::string::npos)
      << json;
}

TEST(SystemsReport, WritesNumbersAsPythonDoes) {
  EXPECT_EQ(python_number(1.0), "1.0");
  EXPECT_EQ(python_number(0.00009), "9e-05");
  EXPECT_EQ(python_number(62.312452402596755), "62.312452402596755");
  EXPECT_EQ(python_number(25.625134f), "25.625134");
}

}  // namespace
}  // namespace mtf
