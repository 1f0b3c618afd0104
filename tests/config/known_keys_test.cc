// Tests hints for unknown keys: from the same map, from elsewhere in the language, from other types.
#include "engine/config/known_keys.h"

#include "tests/config/testing.h"

namespace mtf::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Adam {
  static constexpr std::string_view type_name = "adam";
  double beta1 = 0.9;
};
void describe(Visitor& visit, Adam& options) { visit("beta1", options.beta1, "decay of the mean"); }
struct Sgd {
  static constexpr std::string_view type_name = "sgd";
  double momentum = 0;
};
void describe(Visitor& visit, Sgd& options) { visit("momentum", options.momentum, "decay"); }

struct Dataset {
  std::string path;
  std::vector<std::string> metrics;
};
void describe(Visitor& visit, Dataset& options) {
  visit("path", options.path, "file");
  visit("metrics", options.metrics, "what is measured");
}
struct Train {
  int64_t steps = 1;
  int64_t batch_size = 1;
};
void describe(Visitor& visit, Train& options) {
  visit("steps", options.steps, "ends the run");
  visit("batch_size", options.batch_size, "examples of a step");
}
struct RunOptions {
  int64_t seed = 1;
  std::string mode;
};
void describe(Visitor& visit, RunOptions& options) {
  visit("seed", options.seed, "of random numbers");
  visit("mode", options.mode, "what to do");
}
struct Lines {
  static constexpr std::string_view type_name = "lines";
  std::string file;
};
void describe(Visitor& visit, Lines& options) { visit("file", options.file, "a text in each line"); }
using OneSource = std::variant<Lines>;
struct Options {
  RunOptions run;
  Train train;
  Train trace;
  std::variant<Adam, Sgd> optimizer;
  Named<Dataset> datasets;
  std::variant<OneSource, Named<OneSource>> texts;
};
void describe(Visitor& visit, Options& options) {
  visit("run", options.run, "what to do");
  visit("train", options.train, "training");
  visit("trace", options.trace, "tracing");
  visit("optimizer", options.optimizer, "how variables change");
  visit("datasets", options.datasets, "by name");
  visit("texts", options.texts, "one source, or several by name");
}

const std::vector<KnownKey>& language() {
  static const std::vector<KnownKey> keys = known_keys<Options>();
  return keys;
}

/// Returns the hint of the only error in a text.
std::string hint(const std::string& yaml) {
  Diagnostics diagnostics;
  parse<Options>(parse_yaml(yaml, "a.yaml", diagnostics), diagnostics, {}, {}, &language);
  EXPECT_EQ(diagnostics.errors().size(), 1u) << yaml;
  return diagnostics.has_errors() ? diagnostics.errors()[0].hint : "";
}

TEST(KnownKeys, HaveTheirPathsAndTypes) {
  std::vector<std::string> paths;
  for (const KnownKey& key : language())
    paths.push_back(key.path + (key.type.empty() ? "" : " of " + key.type));
  EXPECT_THAT(paths, ElementsAre("run", "run.seed", "run.mode", "train", "train.steps", "train.batch_size",
                                 "trace", "trace.steps", "trace.batch_size", "optimizer",
                                 "optimizer.beta1 of adam", "optimizer.momentum of sgd", "datasets",
                                 "datasets.NAME.path", "datasets.NAME.metrics", "texts",
                                 "texts.file of lines", "texts.NAME.file of lines"));
  EXPECT_EQ(known_keys<RunOptions>("run")[0].path, "run.seed");
}

TEST(UnknownKey, TheNearestOfTheSameMapComesFirst) {
  EXPECT_EQ(hint("train: {stepz: 3}"), "did you mean `train.steps`?");
  EXPECT_EQ(hint("trian: {steps: 3}"), "did you mean `train`?");
  EXPECT_EQ(hint("datasets: {dev: {metric: loss}}"), "did you mean `datasets.dev.metrics`?");
}

TEST(UnknownKey, ElseTheSameOrNearlyTheSameElsewhere) {
  EXPECT_EQ(hint("run: {steps: 3}"), "did you mean `train.steps` or `trace.steps`?");
  EXPECT_EQ(hint("batch_sise: 3"), "did you mean `train.batch_size` or `trace.batch_size`?");
  EXPECT_EQ(hint("train: {metrics: 3}"), "did you mean `datasets.NAME.metrics`?");
  EXPECT_EQ(hint("train: {optimizer: sgd}"), "`optimizer` stands at the top of a file");
}

TEST(UnknownKey, OrTheTypesThatHaveIt) {
  EXPECT_EQ(hint("optimizer: {type: sgd, beta1: 0.9}"), "it is a key of `type: adam`");
}

TEST(UnknownKey, NeverItself) {
  const std::vector<KnownKey> known = {{"data.vocabulary.inputs", {}}, {"data.vocabulary.size", {}}};
  EXPECT_EQ(hint_for_unknown_key("data.vocabulary.inputs", {"type", "size"}, known),
            "it cannot stand beside the other keys of `data.vocabulary` (`data.vocabulary: null` before it "
            "removes them)");
}

TEST(UnknownKey, MayBeANameBesideTheKeysOfOneAlone) {
  EXPECT_EQ(hint("texts: {type: lines, file: a, b: {type: lines, file: b}}"),
            "it cannot stand beside the other keys of `texts` (`texts: null` before it removes them)");
  EXPECT_EQ(hint("texts: {type: lines, fil: a}"), "did you mean `texts.file`?");
  EXPECT_EQ(hint("run: {file: a}"), "did you mean `texts.file`?");
  EXPECT_THAT(hint("optimizer: {type: sgd, b: {type: lines}}"), Not(HasSubstr("stand beside")));
}

TEST(UnknownKey, MayHaveACommonNameOfAKeyAtTheTop) {
  const std::vector<KnownKey> known = {{"optimizer.beta1", {}},
                                       {"learning_rate", {}},
                                       {"optimizer.rules.learning_rate", {}},
                                       {"train.rate", {}}};
  EXPECT_EQ(hint_for_unknown_key("optimizer.lr", {"type", "beta1"}, known),
            "`learning_rate` stands at the top of a file");
}

TEST(UnknownKey, ElseTheKeysOfTheMap) { EXPECT_EQ(hint("run: {colour: blue}"), "one of `seed`, `mode`"); }

TEST(UnknownKey, PathsWithDotsAreForArguments) {
  EXPECT_EQ(hint("train.steps: 3"),
            "paths with dots are for arguments; in a file write `train: {steps: ...}`");
}

TEST(UnknownKey, AMisspeltKeyIsNotMissingToo) {
  struct Needs {
    std::string path;
  };
  Diagnostics diagnostics;
  Visitor visit;
  Needs needs;
  visit("path", needs.path, "file", required);
  visit.parse(parse_yaml("{pahts: x}", "a.yaml", diagnostics), Place{diagnostics, "", {}});
  EXPECT_THAT(errors_of(diagnostics),
              ElementsAre(::testing::HasSubstr("unknown key `pahts`; did you mean `path`?")));
}

}  // namespace
}  // namespace mtf::config
