// Tests `$name`, `${expression}`, `$$`, and arguments of blocks.
#include <fmt/format.h>

#include "tests/config/testing.h"

namespace mtf::config {
namespace {

using ::testing::ElementsAre;

TEST(Variables, KeepTheirTypeWhenTheyStandAlone) {
  EXPECT_EQ(loaded("vars: {d: 512, l: [1, 2], m: {a: b}, t: \"7\"}\nx: $d\ny: $l\nz: \"$m\"\nw: $t\nv: ${d}"),
            "{x: 512, y: [1, 2], z: {a: b}, w: \"7\", v: 512}");
}

TEST(Variables, BecomePartOfTextsAndKeys) {
  EXPECT_EQ(
      loaded(
          "vars: {lang: de, n: 2}\npath: data/train.$lang\nq: \"${lang}_$n\"\n$lang: 1\nprice: 5$$ $$lang"),
      "{path: data/train.de, q: de_2, de: 1, price: 5$$ $$lang}");
}

TEST(Variables, Calculate) {
  EXPECT_EQ(loaded("vars: {d: 512}\na: \"${4 * d}\"\nb: \"${(d - 2) / 3 + 1}\"\nc: \"${d / 3 * 0}\"\ne: "
                   "\"${-d + 0.5}\"\nf: "
                   "\"${1 / 4}\"\ng: \"${2 * $d}\"\nh: \"${1e3 - -1}\""),
            "{a: 2048, b: 171, c: 0, e: -511.5, f: 0.25, g: 1024, h: 1001}");
}

TEST(Variables, ReferToEachOtherAndAreSetByArguments) {
  EXPECT_EQ(loaded("vars: {d_ff: \"${4 * d}\", d: 512}\nx: $d_ff", {"vars.d=8"}), "{x: 32}");
  EXPECT_EQ(loaded("vars: {d: 512}", {"x=$d", "y=\"${2 * d}\""}), "{x: 512, y: 1024}");
}

TEST(Variables, UnknownNames) {
  EXPECT_THAT(load_errors("vars: {d_model: 1}\nm: {x: $d_modl, y: \"a ${2 * q}\"}"),
              ElementsAre("a.yaml:2:8: unknown variable `d_modl`; did you mean `d_model`?\n"
                          "    2 | m: {x: $d_modl, y: \"a ${2 * q}\"}\n"
                          "      |        ^~~~~~~",
                          "a.yaml:2:23: unknown variable `q`; only `d_model` is known here\n"
                          "    2 | m: {x: $d_modl, y: \"a ${2 * q}\"}\n"
                          "      |                       ^~~~~~~~"));
  EXPECT_THAT(
      load_errors("x: $a"),
      ElementsAre(::testing::StartsWith("a.yaml:1:4: unknown variable `a`; define it: `vars: {a: ...}`")));
}

TEST(Variables, OfArgumentsAreOfSomeUse) {
  EXPECT_EQ(loaded("vars: {a: 1, b: 2}\nx: $a", {"vars.b=3"}), "{x: 1}");
  EXPECT_EQ(loaded("x: 1", {"vars.a=3", "x=$a"}), "{x: 3}");
  EXPECT_EQ(loaded("vars: {a: $b, b: 1}\nx: $a", {"vars.c=5", "vars.b=\"${c + 1}\""}), "{x: 6}");
  EXPECT_THAT(load_errors("vars: {d_model: 8}\nx: $d_model", {"vars.d_modle=16"}),
              ElementsAre(::testing::StartsWith(
                  "argument 2: nothing uses the variable `d_modle`; did you mean `d_model`?")));
  EXPECT_THAT(
      load_errors("x: 8", {"vars.d_model=16"}),
      ElementsAre(::testing::StartsWith("argument 2: nothing uses the variable `d_model`; no file refers to "
                                        "`$d_model`: set the key that holds the value")));
}

TEST(Variables, BadExpressionsAndReferences) {
  const auto error = [](const std::string& text) {
    const auto errors =
        load_errors("vars: {d: 512, t: abc, l: [1], big: 9223372036854775807}\nx: \"" + text + "\"");
    return errors.empty() ? "" : errors[0].substr(0, errors[0].find('\n'));
  };
  EXPECT_EQ(error("${1 +}"),
            "a.yaml:2:5: `${1 +}`: the expression ends too early; numbers, names, + - * / and brackets");
  EXPECT_EQ(error("${(1}"),
            "a.yaml:2:5: `${(1}`: the expression ends too early; numbers, names, + - * / and brackets");
  EXPECT_EQ(error("${d % 2}"),
            "a.yaml:2:5: `${d % 2}`: `%` cannot stand there in an expression; numbers, names, + - * / and "
            "brackets");
  EXPECT_EQ(error("${d / 0}"), "a.yaml:2:5: `${d / 0}`: a division by zero");
  EXPECT_EQ(error("${2 * t}"), "a.yaml:2:5: `${2 * t}`: `t` is the text `abc`, not a number");
  EXPECT_EQ(error("${2 * big}"), "a.yaml:2:5: `${2 * big}`: 2 * 9223372036854775807 has more than 64 bits");
  EXPECT_EQ(error("${1.2.3}"), "a.yaml:2:5: `${1.2.3}`: `1.2.3` is not a number");
  EXPECT_EQ(error("a$l"), "a.yaml:2:6: `l` is a list and cannot be part of a text");
  EXPECT_EQ(error("5$ each"),
            "a.yaml:2:6: a `$` without a name; `$name`, \"${4 * name}\", or `$$` for a dollar sign");
  EXPECT_THAT(load_errors("vars: {a: $b, b: $a}\nx: 1"),
              ElementsAre(::testing::HasSubstr("refers to itself")));
  EXPECT_THAT(
      load_errors("vars: [1]"),
      ElementsAre(::testing::StartsWith("a.yaml:1:7: `vars` is a map from names to values, not a list")));
  EXPECT_THAT(load_errors("vars: {a-b: 1}"),
              ElementsAre(::testing::StartsWith("a.yaml:1:8: `a-b` cannot be the name of a variable")));
}

/// Returns variables that refer to each other: v0 is `first`, and each of v1 .. v60 is `later` with the name
/// before it.
std::string chain(const std::string& first, const std::string& later) {
  std::string text = "vars:\n  v0: " + first + "\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string name = "$v" + std::to_string(i - 1);
    text += "  v" + std::to_string(i) + ": " + fmt::format(fmt::runtime(later), name) + "\n";
  }
  return text + "a: $v60\n";
}

TEST(Variables, CannotMakeMoreThanMemoryHolds) {
  for (const char* later : {"\"{0}{0}\"", "[{0}, {0}]"}) {
    EXPECT_THAT(load_errors(chain("some text", later)),
                ElementsAre(::testing::HasSubstr("variables make the configuration too large")));
  }
  EXPECT_THAT(load_errors(chain("[[x]]", "[[{0}]]")),
              ElementsAre(::testing::HasSubstr("variables make the configuration too large")))
      << "too deep";
}

TEST(Variables, MayReferToEachOtherInARowUpToALimit) {
  std::string text = "vars:\n";
  for (int i = 0; i < 1000; ++i) text += fmt::format("  v{}: $v{}\n", i, i + 1);
  EXPECT_THAT(load_errors(text + "  v1000: 1\n"),
              ::testing::Each(::testing::HasSubstr("more than 50 variables in a row refer to each other")));
}

class Blocks : public ::testing::Test {
 protected:
  Node blocks(const std::string& vars) {
    files_.write("a.yaml", "vars: " + vars +
                               "\nmodel:\n  d: $d\n  blocks:\n    double: [{conv: {output: {$dim: $filters}, "
                               "size: \"${2 * filters}\", d: $d}}]\n");
    const Node root = load({"a.yaml"}, {}, diagnostics_);
    return *root.find("model")->find("blocks")->find("double");
  }
  static Node map(const std::string& text) {
    Diagnostics diagnostics;
    return parse_yaml(text, "b.yaml", diagnostics);
  }

  Files files_;
  Diagnostics diagnostics_;
};

TEST_F(Blocks, AreFilledFromArgumentsThenVariables) {
  const Node block = blocks("{d: 3, filters: 8}");
  EXPECT_EQ(to_flow_yaml(substitute(block, map("{filters: 64, dim: out}"), diagnostics_)),
            "[{conv: {output: {out: 64}, size: 128, d: 3}}]");
  EXPECT_EQ(to_flow_yaml(substitute(block, map("{dim: out}"), diagnostics_)),
            "[{conv: {output: {out: 8}, size: 16, d: 3}}]");
  EXPECT_FALSE(diagnostics_.has_errors());
}

TEST_F(Blocks, UnknownArgumentIsAnError) {
  const Node block = blocks("{d: 3}");
  EXPECT_FALSE(diagnostics_.has_errors());
  substitute(block, map("{filter: 64, dim: out}"), diagnostics_);
  EXPECT_THAT(errors_of(diagnostics_)[0],
              ::testing::StartsWith("a.yaml:5:37: unknown variable `filters`; did you mean `filter`?"));
}

TEST_F(Blocks, MayBeTheValueOfAVariableAndHaveNamesOfVariables) {
  EXPECT_EQ(loaded("vars: {b: {double: [{scale: $n}]}, n: 2}\nmodel: {blocks: $b}"),
            "{model: {blocks: {double: [{scale: 2}]}}}");
  EXPECT_EQ(loaded("vars: {name: double, n: 2}\nmodel: {blocks: {$name: [{scale: $n}]}}"),
            "{model: {blocks: {double: [{scale: $n}]}}}");
}

TEST_F(Blocks, AreDumpedWithTheVariablesThatTheyNeed) {
  const Node block = blocks("{d: 3, filters: 8, unused: 1}");
  EXPECT_EQ(to_flow_yaml(deferred_variables(block)), "{filters: 8, d: 3}");
  EXPECT_EQ(to_flow_yaml(block), "[{conv: {output: {$dim: $filters}, size: \"${2 * filters}\", d: $d}}]");
}

}  // namespace
}  // namespace mtf::config
