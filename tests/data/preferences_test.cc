#include "data/text/preferences.h"

#include <cctype>

#include "data/text/text_scan.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Preferences : public TextTest {
 protected:
  PreferencesOptions pairs(const std::string& lines) const {
    PreferencesOptions options;
    options.path = {{file("pairs.jsonl", lines)}};
    return options;
  }
  PreferencesOptions chats(const std::string& lines) const {
    PreferencesOptions options = pairs(lines);
    options.turns = {{"user", "U{content}.\n"}, {"assistant", "A{content}.\n"}};
    return options;
  }

  /// The texts of both answers, with brackets around what is learned.
  static std::vector<std::string> marked(const PreferencesOptions& options) {
    std::vector<std::string> result;
    std::vector<Problem> missing;
    TextProblems problems;
    const TextFiles files = find_text_files(options, {}, missing);
    TextReader reader(files, {}, problems);
    for (TextExample example; reader.next(example);) {
      std::string& text = result.emplace_back();
      size_t begin = 0;
      for (const TextPart& part : example.targets.parts) {
        const std::string piece = example.targets.text.substr(begin, part.end - begin);
        text += part.learned ? "[" + piece + "]" : piece;
        begin = part.end;
      }
    }
    EXPECT_TRUE(problems.empty() && missing.empty());
    return result;
  }

  static std::string problem_of(const PreferencesOptions& options) {
    return failure([&] {
      std::vector<Problem> missing;
      scan_texts(find_text_files(options, {}, missing), {});
    });
  }

  /// The rows with bytes as tokens: segment 2 behind a slash, what is not learned in lower case, ends of sequence as | and !.
  std::vector<std::string> rows(const PreferencesOptions& options, const TextSettings& how) const {
    const std::unique_ptr<TextSource> source = make_text_source(options, how, {});
    const auto ids = rows_of(*source, "targets"), segments = rows_of(*source, "targets_segmentation"),
               positions = rows_of(*source, "targets_position");
    std::vector<std::string> result;
    for (size_t row = 0; row < ids.size(); ++row) {
      std::string& text = result.emplace_back();
      for (size_t i = 0; i < ids[row].size(); ++i) {
        if (ids[row][i] == 0) continue;
        if (positions[row][i] == 0 && segments[row][i] == 2) text += '/';
        const auto byte = static_cast<char>(std::abs(ids[row][i]) - 3);
        if (std::abs(ids[row][i]) == kEosId)
          text += ids[row][i] > 0 ? '|' : '!';
        else
          text += ids[row][i] > 0 ? byte : static_cast<char>(std::tolower(byte));
      }
    }
    return result;
  }
};

TEST_F(Preferences, ThePromptStandsBeforeBothAnswers) {
  EXPECT_THAT(marked(pairs(R"({"prompt": "Hi ", "chosen": "Yo", "rejected": ""})"
                           "\n\n"
                           R"({"rejected": "B", "chosen": "A", "prompt": "", "score": 1})"
                           "\n")),
              ElementsAre("Hi [Yo]", "Hi []", "[A]", "[B]"));
  PreferencesOptions other = pairs(R"({"question": "Q", "good": "G", "bad": "B"})"
                                   "\n");
  other.prompt = "question", other.chosen = "good", other.rejected = "bad";
  EXPECT_THAT(marked(other), ElementsAre("Q[G]", "Q[B]"));
}

const std::string kUser = R"({"role": "user", "content": "Hi"})",
                  kYo = R"({"role": "assistant", "content": "Yo"})",
                  kNo = R"({"role": "assistant", "content": "No"})";

TEST_F(Preferences, MessagesStandInTheirTurns) {
  const std::string given = R"({"prompt": [)" + kUser + R"(], "chosen": [)" + kYo + R"(], "rejected": [)" +
                            kNo + "]}\n",
                    common = R"({"chosen": [)" + kUser + "," + kYo + R"(], "rejected": [)" + kUser + "," +
                             kNo + "]}\n";
  EXPECT_THAT(marked(chats(given)), ElementsAre("UHi.\nA[Yo.]", "UHi.\nA[No.]"));
  EXPECT_THAT(marked(chats(common)), ElementsAre("UHi.\nA[Yo.]", "UHi.\nA[No.]"));
}

TEST_F(Preferences, AnswersInThePromptAreNotLearned) {
  const std::string before = kUser + "," + kNo + "," + kUser + ",";
  EXPECT_THAT(marked(chats(R"({"chosen": [)" + before + kYo + R"(], "rejected": [)" + before + kNo + "]}\n")),
              ElementsAre("UHi.\nANo.\nUHi.\nA[Yo.]", "UHi.\nANo.\nUHi.\nA[No.]"));
  // The last message of the shorter list belongs to its answer.
  EXPECT_THAT(marked(chats(R"({"chosen": [)" + kUser + "," + kYo + R"(], "rejected": [)" +
                           before.substr(0, 0) + kUser + "," + kYo + "," + kUser + "," + kNo + "]}\n")),
              ElementsAre("UHi.\nA[Yo.]", "UHi.\nA[Yo.]\nUHi.\nA[No.]"));
}

TEST_F(Preferences, ARowHoldsThePair) {
  const PreferencesOptions options = pairs(R"({"prompt": "HI", "chosen": "AAA", "rejected": "B"})"
                                           "\n"
                                           R"({"prompt": "HIJKLM", "chosen": "C", "rejected": "DDDD"})"
                                           "\n"
                                           R"({"prompt": " ", "chosen": "", "rejected": "E"})"
                                           "\n");
  EXPECT_THAT(rows(options, settings(0, 23)), ElementsAre("hiAAA|/hiB|", "hijklmC|/hijklmDDDD|"))
      << "a blank text has nothing that is learned";
  EXPECT_THAT(rows(options, settings(0, 21)), ElementsAre("hiAAA|/hiB|")) << "each may have half of a row";
  TextSettings how = settings(0, 17);
  how.filter.too_long = TooLong::kCut;
  EXPECT_THAT(rows(options, how), ElementsAre("hiAAA|/hiB|", "hijklmC|/hijklmDD"));
  how.filter = {};
  how.filter.max_ratio = 1.4;
  EXPECT_THAT(failure([&] { make_text_source(options, how, {}); }),
              HasSubstr("2 (66.7 %) with lengths beyond 1:1.4 dropped"));
}

TEST_F(Preferences, EvaluationsCutWhatIsTooLong) {
  TextSettings how = settings(0, 14);
  how.purpose = TextPurpose::kEvaluation;
  const PreferencesOptions options = pairs(R"({"prompt": "HIJKLM", "chosen": "C", "rejected": "DDDD"})"
                                           "\n"
                                           R"({"prompt": "HIJKLMN", "chosen": "C", "rejected": "DDDD"})"
                                           "\n");
  EXPECT_THAT(rows(options, how), ElementsAre("hijklmC/hijklmD"));
  EXPECT_THAT(
      make_text_source(options, how, {})->report().to_string(),
      HasSubstr(
          "2 examples in 1 row (targets 100.0 % full); 1 with an answer of which nothing is learned dropped, "
          "2 (100.0 %) longer than 7 tokens cut off"));
}

TEST_F(Preferences, PairsShareNoRowAndAreNotSplit) {
  const PreferencesOptions options = pairs(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
                                           "\n");
  EXPECT_THAT(failure([&] { make_text_source(options, settings(0, 32, Packing::kDense), {}); }),
              HasSubstr("each pair of answers has a row, which holds no other texts; `data.packing: none`"));
  TextSettings how = settings(0, 32);
  how.filter.too_long = TooLong::kSplit;
  EXPECT_THAT(failure([&] { make_text_source(options, how, {}); }), HasSubstr("cannot be split"));
}

TEST_F(Preferences, SaysWhatIsWrongWithALine) {
  EXPECT_THAT(problem_of(pairs(R"({"prompt": "a", "chosen": "b"})")),
              HasSubstr("line 1: `rejected` is missing; a text, or a list of messages"));
  EXPECT_THAT(problem_of(pairs(R"({"prompt": "a", "chosen": 1, "rejected": "b"})")),
              HasSubstr("`chosen` is no answer"));
  EXPECT_THAT(problem_of(pairs(R"({"chosen": "a", "rejected": "b"})")),
              HasSubstr("`prompt` is missing; a text before both answers"));
  EXPECT_THAT(problem_of(pairs(R"({"prompt": "a", "chosen": [], "rejected": "b"})")),
              HasSubstr("one of `chosen` and `rejected` is a text, and the other a list of messages"));
  EXPECT_THAT(problem_of(pairs(R"({"prompt": [], "chosen": [], "rejected": []})")),
              HasSubstr("`chosen` is a list of messages, and there are no `turns`"));
  EXPECT_THAT(problem_of(chats(R"({"prompt": "a", "chosen": "b", "rejected": "c"})")),
              HasSubstr("`chosen` is a text, and `turns` are for messages"));
  EXPECT_THAT(problem_of(chats(R"({"prompt": "a", "chosen": [], "rejected": []})")),
              HasSubstr("`prompt` is no list of messages, and `chosen` is one"));
  EXPECT_THAT(problem_of(chats(R"({"prompt": [], "chosen": [], "rejected": [{"role": "user"}]})")),
              HasSubstr("message 1 of `rejected` has nothing under `content`"));
}

}  // namespace
}  // namespace mtf::testing
