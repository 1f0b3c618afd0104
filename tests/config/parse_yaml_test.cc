// Tests the places of nodes, and the messages for text that YAML reads differently than the user meant.
#include "tests/config/testing.h"

namespace mtf::config {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> yaml_errors(const std::string& text) {
  Diagnostics diagnostics;
  parse_yaml(text, "a.yaml", diagnostics);
  return errors_of(diagnostics);
}

TEST(ParseYaml, KnowsThePlaceOfKeysAndValues) {
  Diagnostics diagnostics;
  const Node node = parse_yaml("train:\n  steps: 100  # few\n  path: \"ä b\"\n", "a.yaml", diagnostics);
  const Entry& steps = *node.find("train")->entry("steps");
  EXPECT_EQ(steps.mark.to_string(), "a.yaml:2:3");
  EXPECT_EQ(steps.mark.length, 5);
  EXPECT_EQ(steps.value.mark().to_string(), "a.yaml:2:10");
  EXPECT_EQ(steps.value.mark().length, 3);
  EXPECT_EQ(steps.value.mark().text, "  steps: 100  # few");
  EXPECT_EQ(node.find("train")->find("path")->mark().length, 5);
}

TEST(ParseYaml, CountsColumnsInCharacters) {
  Diagnostics diagnostics;
  const Node node = parse_yaml("{größe: {ü: 1, b: 2}}", "a.yaml", diagnostics);
  EXPECT_EQ(node.find("größe")->entry("b")->mark.column, 16);
}

TEST(ParseYaml, FindsThePlaceInsideAText) {
  Diagnostics diagnostics;
  const Node node = parse_yaml("layout: \"batch:rows;heads:cols\"", "a.yaml", diagnostics);
  const Node pairs = pairs_to_map(*node.find("layout"), "a:b", diagnostics);
  EXPECT_EQ(pairs.entry("heads")->mark.column, 21);
  EXPECT_EQ(pairs.entry("heads")->mark.length, 10);
  EXPECT_EQ(pairs.find("heads")->mark().column, 27);
}

TEST(ParseYaml, ReadsAnchorsAndWindowsLines) {
  Diagnostics diagnostics;
  const Node node = parse_yaml(
      "\xEF\xBB\xBF"
      "a: &x {b: 1}\r\nc: *x\r\n",
      "a.yaml", diagnostics);
  EXPECT_EQ(to_flow_yaml(node), "{a: {b: 1}, c: {b: 1}}");
  EXPECT_EQ(node.find("c")->mark().to_string(), "a.yaml:2:4");
  EXPECT_FALSE(diagnostics.has_errors());
}

TEST(ParseYaml, ReadsNothingAsNull) {
  Diagnostics diagnostics;
  EXPECT_TRUE(parse_yaml("# only a comment\n", "a.yaml", diagnostics).is_null());
  EXPECT_FALSE(diagnostics.has_errors());
}

TEST(ParseYaml, DuplicateKey) {
  EXPECT_THAT(yaml_errors("train:\n  steps: 1\n  steps: 2\n"),
              ElementsAre("a.yaml:3:3: `steps` occurs twice in one map; it stands in line 2 already\n"
                          "    3 |   steps: 2\n"
                          "      |   ^~~~~"));
}

TEST(ParseYaml, MergeKey) {
  EXPECT_THAT(yaml_errors("a: &x {b: 1}\nc:\n  <<: *x\n"),
              ElementsAre("a.yaml:3:3: `<<` is not merged; repeat the keys, or put them in a file of its own "
                          "and `include` it\n"
                          "    3 |   <<: *x\n"
                          "      |   ^~"));
}

TEST(ParseYaml, MissingBlankAfterColonInBraces) {
  EXPECT_THAT(
      yaml_errors("layout: {batch:rows, hidden:cols}"),
      ElementsAre(
          "a.yaml:1:10: `batch:rows` is a key without a value; write a blank after the colon: `batch: rows`\n"
          "    1 | layout: {batch:rows, hidden:cols}\n"
          "      |          ^~~~~~~~~~",
          "a.yaml:1:22: `hidden:cols` is a key without a value; write a blank after the colon: `hidden: "
          "cols`\n"
          "    1 | layout: {batch:rows, hidden:cols}\n"
          "      |                      ^~~~~~~~~~~"));
}

TEST(ParseYaml, MissingBlankAfterColonInALine) {
  EXPECT_THAT(yaml_errors("train:\n  steps:100\n  batch_size: 3\n"),
              ElementsAre("a.yaml:2:3: `steps:100` has no blank after the colon; write `steps: 100`\n"
                          "    2 |   steps:100\n"
                          "      |   ^~~~~~~~~"));
}

TEST(ParseYaml, BracesOfVariableInsideBraces) {
  EXPECT_THAT(yaml_errors("dense: {hidden: ${4 * d}, bias: false}"),
              ElementsAre("a.yaml:1:17: `${4 * d}` has to be quoted inside {...} and [...]; write \"${4 * "
                          "d}\"; for a name alone "
                          "`$name`\n"
                          "    1 | dense: {hidden: ${4 * d}, bias: false}\n"
                          "      |                 ^~~~~~~~"));
  EXPECT_THAT(yaml_errors("a: [${x}]"),
              ElementsAre(::testing::StartsWith("a.yaml:1:5: `${x}` has to be quoted")));
}

TEST(ParseYaml, TabInIndentation) {
  EXPECT_THAT(yaml_errors("train:\n\tsteps: 1\n"),
              ElementsAre("a.yaml:2:1: a tab in the indentation; indent with blanks\n"
                          "    2 |  steps: 1\n"
                          "      | ^"));
}

TEST(ParseYaml, BracketThatIsNotClosed) {
  EXPECT_THAT(yaml_errors("mesh: {rows: 2, cols: 4\n"),
              ElementsAre("a.yaml:1:7: `{` is not closed; close it with `}`\n"
                          "    1 | mesh: {rows: 2, cols: 4\n"
                          "      |       ^"));
  EXPECT_THAT(yaml_errors("a: 1\nb: [1, 2\nc: 3"),
              ElementsAre(::testing::StartsWith("a.yaml:2:4: `[` is not closed")));
}

TEST(ParseYaml, QuoteThatIsNotClosed) {
  EXPECT_THAT(yaml_errors("path: \"abc\nb: 1\n"),
              ElementsAre("a.yaml:1:7: the quote is not closed; end the text with \"\n"
                          "    1 | path: \"abc\n"
                          "      |       ^~~~"));
}

TEST(ParseYaml, WrongIndentation) {
  EXPECT_THAT(yaml_errors("a:\n  - b\n c: 3\n"),
              ElementsAre(::testing::StartsWith("a.yaml:3:2: this line fits neither")));
  EXPECT_THAT(yaml_errors("a: 1\n b: 2\n"),
              ElementsAre(::testing::StartsWith("a.yaml:2:2: a key cannot stand here")));
  EXPECT_THAT(yaml_errors("a: b: c\n"),
              ElementsAre(::testing::StartsWith("a.yaml:1:5: a second `: ` in one line")));
}

TEST(ParseYaml, WhatTheLanguageLeavesOut) {
  EXPECT_THAT(yaml_errors("a: 1\n---\nb: 2\n"),
              ElementsAre("a.yaml:2:1: a second document begins here; put it in a file of its own\n"
                          "    2 | ---\n"
                          "      | ^~~"));
  EXPECT_THAT(yaml_errors("a: !!str 3"),
              ElementsAre(::testing::StartsWith("a.yaml:1:4: the YAML tag `!!str`")));
  EXPECT_THAT(yaml_errors("? [1]\n: 2"),
              ElementsAre(::testing::StartsWith("a.yaml:1:3: a key is a word, not a list")));
  EXPECT_THAT(yaml_errors("a: &x [*x]"),
              ElementsAre(::testing::StartsWith("a.yaml:1:8: an alias inside the value")));
  EXPECT_THAT(yaml_errors("a: *nope"),
              ElementsAre(::testing::StartsWith("a.yaml:1:4: there is no anchor `nope`")));
  EXPECT_THAT(yaml_errors("a: @x"),
              ElementsAre(::testing::StartsWith("a.yaml:1:4: a value cannot begin with `@`; quote it")));
}

TEST(ParseYaml, KeepsWhatStandsBeforeASyntaxError) {
  Diagnostics diagnostics;
  const Node node = parse_yaml("train: {steps: 5}\nmesh: {rows: 2\n", "a.yaml", diagnostics);
  EXPECT_EQ(node.find("train")->find("steps")->text(), "5");
  EXPECT_TRUE(node.incomplete());
  EXPECT_EQ(diagnostics.errors().size(), 1u);
}

TEST(ParseYaml, RefusesAliasesThatMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j ? ", *a" : "*a") + std::to_string(i - 1);
    text += "]\n";
  }
  EXPECT_THAT(yaml_errors(text), ElementsAre(::testing::HasSubstr("the file has more than 30000 values")));
}

TEST(ParseYaml, RefusesListsThatAreNestedTooDeep) {
  EXPECT_THAT(yaml_errors(std::string(10000, '[')),
              ElementsAre(::testing::StartsWith("a.yaml:1:33: lists and maps are nested more than 64 deep")));
  const std::string deep = std::string(40, '[') + "x" + std::string(40, ']');
  EXPECT_THAT(yaml_errors("a: &a " + deep), ::testing::IsEmpty());
  EXPECT_THAT(yaml_errors("a: &a " + deep + "\nb: " + std::string(40, '[') + "*a" + std::string(40, ']')),
              ElementsAre(::testing::StartsWith("a.yaml:2:44: lists and maps are nested more than 64 deep")));
}

TEST(ParseYaml, RefusesBytesThatAreNoText) {
  for (const char* text : {"a: 1\nb: \xff\n", "a: 1\nb: \x1b[2J\n", "a: 1\nb: \r2\n"}) {
    EXPECT_THAT(yaml_errors(text), ElementsAre(::testing::StartsWith("a.yaml:2:4: ")));
  }
}

TEST(ParseYaml, SaysWhichByteIsNoText) {
  EXPECT_THAT(
      yaml_errors("a: 1\rb: 2\r"),
      ElementsAre(::testing::StartsWith("a.yaml:1:5: a carriage return without a line feed; end the lines "
                                        "with LF or with CR LF")));
  EXPECT_THAT(yaml_errors(std::string("a: 1\0\n", 6)),
              ElementsAre(::testing::StartsWith("a.yaml:1:5: the control character U+0000; ")));
  EXPECT_THAT(yaml_errors("a: \xff\n"),
              ElementsAre(::testing::StartsWith("a.yaml:1:4: this byte belongs to no text in UTF-8; ")));
}

TEST(ParseYaml, ReadsThePairsOfSurrogatesOfJson) {
  Diagnostics diagnostics;
  const Node node =
      parse_yaml(R"({"\uD83D\uDE00": "a\ud83d\ude00\u00e4", "b": "\\ud83d\\ude00"})", "a.yaml", diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty());
  ASSERT_NE(node.find("😀"), nullptr);
  EXPECT_EQ(node.find("😀")->text(), "a😀ä");
  EXPECT_EQ(node.find("b")->text(), R"(\ud83d\ude00)");
}

TEST(ParseYaml, EscapesThatAreNoCharacters) {
  EXPECT_THAT(
      yaml_errors(R"(a: "x\ud83d\ude00")"),
      ElementsAre(::testing::StartsWith(
          "a.yaml:1:6: `\\ud83d\\ude00` is a pair of surrogates, which stands for a character in JSON alone; "
          "in YAML write `\\U0001f600`, or the character itself")));
  for (const char* text : {R"(a: "\ud83d\n")", R"({"a":"\ud83d"})", R"(a: "\ud83d)"}) {
    EXPECT_THAT(
        yaml_errors(text),
        ElementsAre(::testing::HasSubstr(": `\\ud83d` is half of a pair of surrogates, and no character; ")))
        << text;
  }
  EXPECT_THAT(yaml_errors(R"(a: "\Uffffffff")"),
              ElementsAre(::testing::HasSubstr(":1:5: `\\Uffffffff` is no character of Unicode; ")));
  EXPECT_THAT(yaml_errors(R"(a: "\q\n")"),
              ElementsAre(::testing::HasSubstr(":1:5: `\\q` means nothing in a text")));
}

TEST(ParseYaml, SurvivesAnyCutOrFlippedByte) {
  const std::string text =
      "vars: {d: 512}\nmodel:\n  layers:\n    - dense: {output: {h: \"${4 * d}\"}, bias: false}\n    - &x "
      "'it''s'\n    - *x\n";
  for (size_t i = 0; i < text.size(); ++i) {
    Diagnostics diagnostics;
    parse_yaml(text.substr(0, i), "a.yaml", diagnostics);
    for (const char c : {'{', ']', '"', ':', '\t', '\0', '\xff', '&', '-', '\n'}) {
      std::string changed = text;
      changed[i] = c;
      to_yaml(parse_yaml(changed, "a.yaml", diagnostics));
    }
  }
}

}  // namespace
}  // namespace mtf::config
