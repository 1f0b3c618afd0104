// Tests how problems are printed and ordered.
#include "engine/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/printable.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> messages(const Diagnostics& diagnostics) {
  std::vector<std::string> result;
  try {
    diagnostics.throw_if_errors();
  } catch (const Error& error) {
    for (const Problem& problem : error.problems()) result.push_back(problem.message);
  }
  return result;
}

Mark at(const std::string& file, int line = 0, int column = 0) { return {file, line, column, 1, {}}; }

std::string shown(const Mark& mark) {
  return Problem{ErrorKind::kConfig, mark, "wrong", "right", {}}.to_string();
}

TEST(Problem, ShowsItsLineAndACaret) {
  EXPECT_EQ(shown({"a.yaml", 7, 4, 3, "ab cde f"}),
            "a.yaml:7:4: wrong; right\n"
            "    7 | ab cde f\n"
            "      |    ^~~");
  EXPECT_EQ(shown({"argument 2", 0, 7, 5, "train.stepz=3"}),
            "argument 2: wrong; right\n"
            "      | train.stepz=3\n"
            "      |       ^~~~~");
  EXPECT_EQ(shown({"a.yaml", 123456, 1, 1, "x"}),
            "a.yaml:123456:1: wrong; right\n"
            "123456 | x\n"
            "       | ^");
}

TEST(Problem, TheCaretStandsUnderWideCharacters) {
  EXPECT_EQ(shown({"a.yaml", 1, 4, 2, "実行 ab"}),
            "a.yaml:1:4: wrong; right\n"
            "    1 | 実行 ab\n"
            "      |      ^~");
  EXPECT_EQ(shown({"a.yaml", 1, 1, 2, "実行"}),
            "a.yaml:1:1: wrong; right\n"
            "    1 | 実行\n"
            "      | ^~~~");
}

TEST(Problem, OfALongLineOnlyThePartIsShown) {
  const std::string line = std::string(300, 'a') + "key" + std::string(300, 'b');
  const std::string text = shown({"a.yaml", 1, 301, 3, line});
  EXPECT_EQ(text,
            "a.yaml:1:301: wrong; right\n"
            "    1 | …" +
                std::string(59, 'a') + "key" + std::string(47, 'b') + "…\n" + "      | " +
                std::string(60, ' ') + "^~~");
}

TEST(Characters, CountsThemAndTheirColumns) {
  EXPECT_EQ(character_count("größe"), 5);
  EXPECT_EQ(byte_of_character("größe", 3), 4u);
  EXPECT_EQ(byte_of_character("größe", 9), 7u);
  EXPECT_EQ(display_width("größe"), 5);
  EXPECT_EQ(display_width("実行"), 4);
  EXPECT_EQ(display_width("e\xCC\x81"), 1) << "a combining accent takes no column";
}

TEST(Diagnostics, OrdersByTheSourcesThenByPlace) {
  Diagnostics diagnostics;
  for (const char* source : {"b.yaml", "a.yaml", "argument 3", "argument 10"}) diagnostics.add_source(source);
  diagnostics.error(at("argument 10"), "6");
  diagnostics.error(at("argument 3"), "5");
  diagnostics.error(at("a.yaml", 1, 1), "4");
  diagnostics.error(at("b.yaml", 12, 1), "3");
  diagnostics.error(at("b.yaml", 2, 5), "2");
  diagnostics.error({}, "1");
  EXPECT_THAT(messages(diagnostics), ElementsAre("1", "2", "3", "4", "5", "6"));
}

TEST(Diagnostics, SaysNothingTwice) {
  Diagnostics diagnostics;
  diagnostics.error(at("a.yaml", 1, 1), "wrong");
  diagnostics.error(at("a.yaml", 1, 2), "wrong");
  diagnostics.error(at("a.yaml", 1, 1), "wrong");
  EXPECT_THAT(messages(diagnostics), ElementsAre("wrong", "wrong"));
}

TEST(Error, CountsWhatIsTooMuchToPrint) {
  std::vector<Problem> problems(Error::kMostPrinted + 5, Problem{ErrorKind::kConfig, {}, "wrong", {}, {}});
  const std::string text = Error(problems).what();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int64_t>(Error::kMostPrinted));
  EXPECT_THAT(text, ::testing::EndsWith("\nand 5 more"));
}

TEST(Error, AMistakeInTheConfigurationDecidesTheExitCode) {
  EXPECT_EQ(Error({{ErrorKind::kData, {}, "a", {}, {}}, {ErrorKind::kConfig, {}, "b", {}, {}}}).exit_code(),
            2);
  EXPECT_EQ(Error({{ErrorKind::kData, {}, "a", {}, {}}}).exit_code(), 1);
}

}  // namespace
}  // namespace mtf
