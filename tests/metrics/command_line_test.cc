#include "trainer/metrics/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "engine/base/error.h"
#include "tests/support/failure.h"
#include "trainer/metrics/test_sets.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

BleuCommand parse(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return parse_bleu_command_line(words);
}

std::string error_of(const std::string& line) {
  return failure([&] { parse(line); }, ErrorKind::kUsage);
}

TEST(BleuCommandLine, HasTheDefaultsOfSacrebleu) {
  const BleuCommand command = parse("ref.de");
  EXPECT_THAT(command.files.references, ElementsAre("ref.de"));
  EXPECT_THAT(command.files.outputs, ElementsAre());
  EXPECT_THAT(command.metrics, ElementsAre("bleu"));
  EXPECT_EQ(command.report.format, ReportFormat::kJson);
  EXPECT_EQ(command.report.width, 1);
  EXPECT_EQ(command.bootstrap_samples, 0);
  EXPECT_EQ(command.bleu.tokenizer, BleuTokenizer::k13a);
  EXPECT_FALSE(command.bleu.effective_order);
}

TEST(BleuCommandLine, ReadsTheShortNamesOfSacrebleu) {
  const BleuCommand command = parse(
      "ref1 ref2 -tok intl -i out -m bleu chrf ter -lc -s floor -sv 0.2 -cw 2 -cc 5 -ci -cin 50 -w 3 -b -sh "
      "-f text");
  EXPECT_THAT(command.files.references, ElementsAre("ref1", "ref2"));
  EXPECT_THAT(command.files.outputs, ElementsAre("out"));
  EXPECT_THAT(command.metrics, ElementsAre("bleu", "chrf", "ter"));
  EXPECT_EQ(command.bleu.tokenizer, BleuTokenizer::kIntl);
  EXPECT_EQ(command.bleu.smoothing, BleuSmoothing::kFloor);
  EXPECT_EQ(command.bleu.smooth_value, 0.2);
  EXPECT_TRUE(command.bleu.lowercase);
  EXPECT_EQ(command.chrf.word_order, 2);
  EXPECT_EQ(command.chrf.char_order, 5);
  EXPECT_EQ(command.bootstrap_samples, 50);
  EXPECT_EQ(command.report.width, 3);
  EXPECT_TRUE(command.report.score_only);
  EXPECT_TRUE(command.report.short_signature);
  EXPECT_EQ(command.report.format, ReportFormat::kText);
}

TEST(BleuCommandLine, ReadsLongNamesWholeOrShortened) {
  EXPECT_EQ(parse("r --tokenize zh").bleu.tokenizer, BleuTokenizer::kZh);
  EXPECT_EQ(parse("r --tok=char").bleu.tokenizer, BleuTokenizer::kChar);
  EXPECT_TRUE(parse("r --ter-no-punct").ter.no_punctuation);
  EXPECT_EQ(parse("r --smooth-m none").bleu.smoothing, BleuSmoothing::kNone);
  EXPECT_THAT(error_of("r --smooth none"), StartsWith("`--smooth` may be --smooth-method or --smooth-value"));
}

TEST(BleuCommandLine, ReadsValuesThatAreJoined) {
  EXPECT_EQ(parse("r -w2").report.width, 2);
  EXPECT_EQ(parse("r -ftext").report.format, ReportFormat::kText);
  EXPECT_EQ(parse("r -w=2").report.width, 2);
  EXPECT_EQ(parse("r -tok=none").bleu.tokenizer, BleuTokenizer::kNone);
}

TEST(BleuCommandLine, NamesWithCommasAndAfterTwoDashesAreFiles) {
  EXPECT_THAT(parse("a,b -i c,d").files.references, ElementsAre("a,b"));
  EXPECT_THAT(parse("a,b -i c,d").files.outputs, ElementsAre("c,d"));
  EXPECT_THAT(parse("-w 2 -- -ref").files.references, ElementsAre("-ref"));
}

TEST(BleuCommandLine, SentenceLevelHasEffectiveOrder) {
  EXPECT_TRUE(parse("r -sl").bleu.effective_order);
  EXPECT_THAT(error_of("r -sl -m bleu chrf"), StartsWith("--sentence-level takes one metric"));
  EXPECT_THAT(error_of("r -sl -ci"), StartsWith("--confidence is for a corpus"));
}

TEST(BleuCommandLine, TheTargetLanguageChoosesTheTokenizer) {
  EXPECT_EQ(parse("r -l en-zh").bleu.tokenizer, BleuTokenizer::kZh);
  EXPECT_EQ(parse("r -l en-zh -tok char").bleu.tokenizer, BleuTokenizer::kChar);
  EXPECT_EQ(parse("r -l en-de").bleu.tokenizer, BleuTokenizer::k13a);
  EXPECT_EQ(parse("r -l en-zh-TW").bleu.tokenizer, BleuTokenizer::kZh);
  EXPECT_THAT(parse("r -l en-ja -m chrf").metrics, ElementsAre("chrf")) << "which needs no tokeniser";
  EXPECT_THAT(error_of("r -l zh"), StartsWith("--language-pair: `zh` is no pair"));
  EXPECT_THAT(error_of("r -l en-ja"),
              StartsWith("--language-pair en-ja: the tokeniser of sacreBLEU for it, ja-mecab"));
}

TEST(BleuCommandLine, MistakesGetOneClearLine) {
  EXPECT_THAT(error_of(""), StartsWith("there is no reference"));
  EXPECT_THAT(error_of("r -x"), StartsWith("`-x` is no option"));
  EXPECT_THAT(error_of("r --nothing"), StartsWith("`--nothing` is no option"));
  EXPECT_THAT(error_of("r -tok"), StartsWith("`-tok` needs a value"));
  EXPECT_THAT(error_of("r -lc=yes"), StartsWith("`-lc=yes`: --lowercase takes no value"));
  EXPECT_THAT(error_of("r -tok spn"),
              StartsWith("--tokenize: there is no `spn`; 13a, intl, char, zh, none, spm, flo"));
  EXPECT_THAT(error_of("r -m bleu comet"), StartsWith("--metrics: there is no `comet`; bleu, chrf, ter"));
  EXPECT_THAT(error_of("r -w two"), StartsWith("--width: `two` is not a whole number"));
  EXPECT_THAT(error_of("r -sv -1"), StartsWith("--smooth-value: `-1` is not a number; a number from 0"));
  EXPECT_THAT(error_of("r -w 2000"),
              StartsWith("--width: `2000` is not a whole number; a number from 0 to 1000"));
  EXPECT_THAT(error_of("r -sv inf"), StartsWith("--smooth-value: `inf` is not a number"));
  EXPECT_THAT(error_of("r -nr 99999999999999"), StartsWith("--num-refs: `99999999999999` is not"));
  EXPECT_THAT(error_of("r -i="), StartsWith("--input has no name of a file"));
  EXPECT_EQ(parse("r -cc 0").chrf.char_order, 0) << "chrF is not asked for";
  EXPECT_THAT(error_of("r -m chrf -cc 0"), StartsWith("--chrf-char-order and --chrf-word-order are both 0"));
  EXPECT_THAT(error_of("r1 r2 -nr 2"), StartsWith("--num-refs is for references in the columns of one file"));
  EXPECT_THAT(error_of("r -e latin1"), StartsWith("--encoding: there is no `latin1`"));
}

TEST(BleuCommandLine, SaysWhereTestSetsAre) {
  EXPECT_EQ(
      error_of("-t wmt14 -l en-de"),
      "-t wmt14: mtf-bleu downloads no test sets; this one is in https://statmt.org/wmt14/test-filtered.tgz; "
      "give its reference: `mtf-bleu ref.sgm -i out.txt`");
  EXPECT_THAT(error_of("-t iwslt17"), ::testing::HasSubstr("https://www.statmt.org"));
  EXPECT_THAT(error_of("--echo src"), StartsWith("--echo is about test sets"));
}

TEST(BleuCommandLine, ReadsPairedTestsOfSystems) {
  const BleuCommand command = parse("r -i a b c -pbs -m ter bleu ter");
  EXPECT_THAT(command.files.outputs, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(command.files.baseline_first);
  EXPECT_THAT(command.metrics, ElementsAre("ter", "bleu")) << "as they were written, each once";
  ASSERT_TRUE(command.paired);
  EXPECT_EQ(command.paired->test, PairedTest::kBootstrap);
  EXPECT_EQ(command.paired->samples, 1000);
  const BleuCommand other = parse("r -i a b --paired-ar -parn 50 -j 4 -f latex");
  EXPECT_EQ(other.paired->test, PairedTest::kRandomization);
  EXPECT_EQ(other.paired->samples, 50);
  EXPECT_EQ(other.report.format, ReportFormat::kLatex);
  EXPECT_THAT(error_of("r -i a b -pbs -par"), StartsWith("--paired-bs and --paired-ar are two tests"));
  EXPECT_THAT(error_of("r -i a b -pbs -pbsn 0"), StartsWith("--paired-bs-n: `0` is not a whole number"));
  EXPECT_THAT(error_of("r -i a -pbs -sl"), StartsWith("paired tests are for a corpus"));
}

TEST(BleuCommandLine, ReadsPartsOfTestSetsAndModels) {
  const BleuCommand command =
      parse("r -d -ol non-en --subset news -tok flores200 --spm-model m --max-line-bytes 9");
  EXPECT_TRUE(command.detail);
  EXPECT_EQ(command.report.format, ReportFormat::kText) << "--detail is no JSON";
  EXPECT_EQ(command.origin.language, "non-en");
  EXPECT_EQ(command.origin.domain, "news");
  EXPECT_EQ(command.bleu.tokenizer, BleuTokenizer::kFlores200);
  EXPECT_EQ(command.bleu.tokenizer_model, "m");
  EXPECT_EQ(command.files.limit.bytes, 9);
  EXPECT_EQ(parse("--list -t wmt14 -l en-de").test_set, "wmt14");
}

TEST(TestSets, AreListedAsSacrebleuListsThem) {
  EXPECT_THAT(list_test_sets("", ""),
              StartsWith("The available test sets are:\n"
                         "iwslt17                       : Official evaluation data for IWSLT.\n"));
  EXPECT_THAT(list_test_sets("", "uk-en"), StartsWith("The available test sets for uk-en are:\nwmt22 "));
  EXPECT_EQ(list_test_sets("wmt17/tworefs", ""), "en-fi: src, ref:0, ref:1, docid, genre, origlang\n");
  EXPECT_EQ(list_test_sets("wmt14", "cs-en"), "cs-en: src, ref, docid, genre, origlang\n");
  EXPECT_THAT(failure([] { list_test_sets("wmt07", ""); }, ErrorKind::kUsage),
              StartsWith("--list: there is no test set `wmt07`"));
  EXPECT_THAT(failure([] { list_test_sets("wmt22", ""); }, ErrorKind::kUsage),
              StartsWith("--list -t wmt22: only the files of the test set tell its fields"));
  EXPECT_THAT(failure([] { list_test_sets("wmt14", "en-ja"); }, ErrorKind::kUsage),
              StartsWith("--list: the test set wmt14 has no pair en-ja"));
}

}  // namespace
}  // namespace mtf
