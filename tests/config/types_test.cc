// Tests shapes, meshes, layout rules, intervals, durations, byte sizes and paths.
#include "engine/config/types.h"

#include "tests/config/testing.h"

namespace mtf::config {
namespace {

using ::testing::ElementsAre;

template <class T>
std::string dumped(const std::string& yaml) {
  return to_flow_yaml(dump(parsed<T>(yaml)));
}

TEST(ShapeOption, IsAnOrderedMapOfSizes) {
  EXPECT_EQ(parsed<Shape>("{rows: 28, cols: 20}").to_string(), "[rows=28, cols=20]");
  EXPECT_EQ(parsed<Shape>("\"rows:28;cols:20\"").to_string(), "[rows=28, cols=20]");
  EXPECT_THAT(parse_errors<Shape>("{a: 0, b: x, c: \"3\"}"),
              ElementsAre("a.yaml:1:5: `a` must be at least 1, not 0",
                          "a.yaml:1:11: `b` must be a size (a whole number), not the text `x`",
                          "a.yaml:1:17: `c` must be a size (a whole number), not the text `3`"));
  EXPECT_THAT(parse_errors<Shape>("[1]"),
              ElementsAre("a.yaml:1:1: this value must be a map from dimensions to sizes, not a list; "
                          "write for example {hidden: 1024}"));
}

TEST(MeshOption, IsAMapOrAText) {
  EXPECT_EQ(dumped<MeshSizes>("{rows: 2, cols: auto}"), "{rows: 2, cols: auto}");
  EXPECT_EQ(dumped<MeshSizes>("\"rows:2;cols:4\""), "{rows: 2, cols: 4}");
  EXPECT_EQ(dumped<MeshSizes>("rows:2,cols:auto"), "{rows: 2, cols: auto}");
  EXPECT_EQ(parsed<MeshSizes>("{rows: 2, cols: auto}").resolve(8).to_string(), "rows=2 cols=4");
  EXPECT_EQ(parsed<MeshSizes>("{rows: 2}").resolve(1).size(), 2);
  EXPECT_EQ(parsed<MeshSizes>("{}").resolve(1).size(), 1);
  EXPECT_THROW(parsed<MeshSizes>("{rows: 3, cols: auto}").resolve(8), Error);
}

TEST(MeshOption, Errors) {
  EXPECT_THAT(
      parse_errors<MeshSizes>("\"rows:2;cols;rows:4\""),
      ElementsAre("a.yaml:1:9: `cols` is not a pair `name:value`; write for example {rows: 2, cols: 4} or "
                  "\"rows:2;cols:4\"",
                  "a.yaml:1:14: `rows` occurs twice in this value"));
  EXPECT_THAT(parse_errors<MeshSizes>("{a: auto, b: auto, c: -1}"),
              ElementsAre("a.yaml:1:14: a second `auto` in this value; give all sizes but one",
                          "a.yaml:1:23: `c` must be at least 1, not -1"));
}

TEST(LayoutOption, KeepsThePlaceOfEachRule) {
  const LayoutRules map = parsed<LayoutRules>("{batch: [pod, data], hidden: cols}");
  ASSERT_EQ(map.rules().size(), 2u);
  EXPECT_THAT(map.rules()[0].mesh_dimensions, ElementsAre("pod", "data"));
  EXPECT_EQ(map.rules()[1].mark.to_string(), "a.yaml:1:22");
  EXPECT_EQ(map.rules()[1].mark.length, 12);
  const LayoutRules text = parsed<LayoutRules>("\"batch:rows;heads:cols\"");
  EXPECT_EQ(text.rules()[1].mark.to_string(), "a.yaml:1:13");
  EXPECT_EQ(text.rules()[1].mark.length, 10);
  EXPECT_EQ(dumped<LayoutRules>("{batch: [pod, data], hidden: cols, x: null}"),
            "{batch: [pod, data], hidden: cols}");
}

TEST(LayoutOption, Errors) {
  EXPECT_THAT(parse_errors<LayoutRules>("{batch: {a: b}}"),
              ElementsAre("a.yaml:1:9: `batch` must be a list of texts, not a map"));
  EXPECT_THAT(parse_errors<LayoutRules>("batch"),
              ElementsAre(::testing::StartsWith(
                  "a.yaml:1:1: this value must be a map from tensor dimensions to mesh dimensions")));
}

TEST(IntervalOption, IsStepsTimeOrEpochs) {
  EXPECT_EQ(parsed<Interval>("500"), Interval::steps(500));
  EXPECT_EQ(parsed<Interval>("0"), Interval::steps(0));
  for (const char* text : {"500 steps", "500steps", "\"500 steps\""})
    EXPECT_EQ(parsed<Interval>(text), Interval::steps(500)) << text;
  EXPECT_EQ(parsed<Interval>("1 step"), Interval::steps(1));
  EXPECT_EQ(parsed<Interval>("30s"), Interval::seconds(30));
  EXPECT_EQ(parsed<Interval>("10min"), Interval::seconds(600));
  EXPECT_EQ(parsed<Interval>("1.5h"), Interval::seconds(5400));
  EXPECT_EQ(parsed<Interval>("1epoch"), Interval::epochs(1));
  for (const char* text : {"500", "30s", "10min", "2h", "90s", "1epoch", "0.5epoch"})
    EXPECT_EQ(parsed<Interval>(dumped<Interval>(text)), parsed<Interval>(text));
  for (const char* text :
       {"-1", "1.5", "10 days", "0s", "often", "[1]", "\"5\"", "1e", "1.5 steps", "-1 steps", "steps"}) {
    EXPECT_THAT(parse_errors<Interval>(text), ElementsAre(::testing::HasSubstr("must be an interval, not")))
        << text;
  }
}

TEST(DurationOption, NeedsAUnit) {
  EXPECT_EQ(parsed<Duration>("5min").seconds, 300);
  EXPECT_EQ(dumped<Duration>("5min"), "5min");
  EXPECT_THAT(
      parse_errors<Duration>("5"),
      ElementsAre("a.yaml:1:1: this value must be a time, not `5`; write for example 30s, 10min or 2h"));
}

TEST(BytesOption, TakesDecimalAndBinaryUnits) {
  EXPECT_EQ(parsed<Bytes>("100").value, 100);
  EXPECT_EQ(parsed<Bytes>("16GB").value, 16'000'000'000);
  EXPECT_EQ(parsed<Bytes>("1.5 GiB").value, 1'610'612'736);
  EXPECT_EQ(parsed<Bytes>("4KiB").value, 4096);
  EXPECT_THAT(
      parse_errors<Bytes>("16G"),
      ElementsAre("a.yaml:1:1: this value must be a size of memory, not the text `16G`; write for example "
                  "16GB, 512MiB or a number of bytes"));
}

TEST(PathOption, ExpandsHome) {
  setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(parsed<Path>("~/x/y").text, "/home/ada/x/y");
  EXPECT_EQ(parsed<Path>("a/~b").text, "a/~b");
  EXPECT_THAT(parse_errors<Path>("[a]"), ElementsAre("a.yaml:1:1: this value must be a path, not a list"));
}

TEST(Yaml, QuotesWhatWouldBeReadAsSomethingElse) {
  for (const char* text : {"",   "null", "true", "12", "1e5", "a: b", "- a", "#x", "x #y", " a",   "*x",
                           "&x", "!x",   "@x",   "%x", "a,b", "{",    "]",   "'",  "\"",   "a\nb", "\x01",
                           "ü",  "~",    "<<",   "-",  "?",   ":",    "$x",  "$$", "${",   "yes"}) {
    const Node node = Node::map({{text, {}, Node::list({Node::scalar(text, {}, true)})}});
    Files files;
    files.write("a.yaml", to_yaml(node));
    Diagnostics diagnostics;
    const Node again = load({"a.yaml"}, {}, diagnostics);
    EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty()) << to_yaml(node);
    EXPECT_TRUE(again == node) << to_yaml(node);
    EXPECT_EQ(parse<std::string>(again.entries().at(0).value.elements().at(0), diagnostics), text)
        << to_yaml(node);
  }
}

}  // namespace
}  // namespace mtf::config
