// Tests typed options: parsing, errors, dump, help and comparison, all from one description.
#include "tests/config/testing.h"

namespace mtf::config {
namespace {

using ::testing::ElementsAre;

enum class Mode { kTrain, kEvaluate, kExplain };
EnumNames enum_names(Mode) {
  return {{"train", Mode::kTrain},
          {"evaluate", Mode::kEvaluate},
          {"explain", Mode::kExplain},
          {"fit", Mode::kTrain}};
}
CommonNames common_names(Mode) {
  static constexpr std::array names = {CommonName{"predict", "`evaluate`"}};
  return names;
}

struct Train {
  std::optional<int64_t> steps;
  std::optional<double> epochs;
  int64_t batch_size = 64;
  std::vector<std::string> trainable = {".*"};
  float dropout = 0;
};
void describe(Visitor& visit, Train& options) {
  visit("steps", options.steps, "ends the run", positive, free_on_resume);
  visit("epochs", options.epochs, "ends the run", positive);
  visit("batch_size", options.batch_size, "examples of a step", at_least(1), fixed_on_resume);
  visit("trainable", options.trainable, "patterns of variables");
  visit("dropout", options.dropout, "rate", probability);
  visit.exactly_one_of({"steps", "epochs"});
}

struct Adam {
  static constexpr std::string_view type_name = "adam";
  double beta1 = 0.9;
  std::optional<double> clip_norm;
};
void describe(Visitor& visit, Adam& options) {
  visit("beta1", options.beta1, "decay of the mean", probability);
  visit("clip_norm", options.clip_norm, "bound of the gradient's norm", positive);
}
struct Sgd {
  static constexpr std::string_view type_name = "sgd";
  static constexpr std::array common_names = {CommonName{"gradient_descent", "`sgd` without momentum"}};
  double momentum = 0;
};
void describe(Visitor& visit, Sgd& options) { visit("momentum", options.momentum, "decay", off_at("0")); }
using Optimizer = std::variant<Adam, Sgd>;

struct Noam {
  static constexpr std::string_view type_name = "noam";
  int64_t warmup_steps = 0;
};
// `describe` may also be a template over the visitor.
template <class V>
void describe(V& visit, Noam& options) {
  visit("warmup_steps", options.warmup_steps, "steps of linear growth", required);
}
using Schedule = std::variant<double, Noam>;
using LearningRate = std::variant<std::monostate, double, Noam, std::vector<Schedule>>;

struct Tokens {
  int64_t tokens = 0;
};
void describe(Visitor& visit, Tokens& options) {
  visit("tokens", options.tokens, "tokens", positive, required);
}

struct Dataset {
  std::string path;
  double weight = 1;
};
void describe(Visitor& visit, Dataset& options) {
  visit("path", options.path, "file", required);
  visit("weight", options.weight, "share", positive);
}

struct Activation {
  static constexpr std::string_view shorthand = "function";
  std::string function = "relu";
  double slope = 0;
};
void describe(Visitor& visit, Activation& options) {
  visit("function", options.function, "which", one_of({"relu", "gelu"}));
  visit("slope", options.slope, "slope");
}

struct Options {
  Mode mode = Mode::kTrain;
  Train train;
  Optimizer optimizer;
  LearningRate learning_rate;
  std::variant<int64_t, Tokens> batch = int64_t{8};
  Named<Dataset> datasets;
  std::map<std::string, int64_t> lengths;
  Auto<int> threads;
  Activation activation;
  DType dtype = DType::kFloat32;
  Node model;
  bool replicas = false;
};
void describe(Visitor& visit, Options& options) {
  visit("mode", options.mode, "what to do", free_on_resume);
  visit("train", options.train, "training");
  visit("optimizer", options.optimizer, "how variables change", fixed_type_on_resume);
  visit("learning_rate", options.learning_rate, "a number, a schedule, or a list (product)");
  visit("batch", options.batch, "examples");
  visit("datasets", options.datasets, "by name");
  visit("lengths", options.lengths, "by feature", positive);
  visit("threads", options.threads, "workers", positive);
  visit("activation", options.activation, "non-linearity");
  visit("dtype", options.dtype, "element type", one_of({"float32", "bfloat16"}));
  visit("model", options.model, "the network");
  visit("replicas", options.replicas, "compare");
}

constexpr const char* kTrainSteps = "train: {steps: 1}\n";
Options options(const std::string& yaml) { return parsed<Options>(kTrainSteps + yaml); }
std::vector<std::string> errors(const std::string& yaml) { return parse_errors<Options>(kTrainSteps + yaml); }

TEST(Parse, DefaultsStayWhereNothingIsSaid) {
  const Options o = options("");
  EXPECT_EQ(o.mode, Mode::kTrain);
  EXPECT_EQ(o.train.steps, 1);
  EXPECT_EQ(o.train.batch_size, 64);
  EXPECT_THAT(o.train.trainable, ElementsAre(".*"));
  EXPECT_EQ(std::get<Adam>(o.optimizer).beta1, 0.9);
}

TEST(Parse, NullIsTheDefault) {
  const Options o = parsed<Options>(
      "train: {steps: null, epochs: 0.5, batch_size: null, trainable: null}\noptimizer: null");
  EXPECT_EQ(o.train.steps, std::nullopt);
  EXPECT_EQ(o.train.epochs, 0.5);
  EXPECT_EQ(o.train.batch_size, 64);
}

TEST(Parse, ListsEnumsTexts) {
  EXPECT_THAT(parsed<Train>("{steps: 1, trainable: layer_1}").trainable, ElementsAre("layer_1"));
  EXPECT_THAT(parsed<Train>("{steps: 1, trainable: [a, b, 12]}").trainable, ElementsAre("a", "b", "12"));
  EXPECT_EQ(options("mode: evaluate").mode, Mode::kEvaluate);
  EXPECT_EQ(options("dtype: bfloat16").dtype, DType::kBFloat16);
  EXPECT_EQ(options("threads: auto").threads.value, std::nullopt);
  EXPECT_EQ(options("threads: 4").threads.value, 4);
  EXPECT_TRUE(options("replicas: true").replicas);
}

TEST(Parse, SumTypes) {
  EXPECT_EQ(std::get<Sgd>(options("optimizer: sgd").optimizer).momentum, 0);
  EXPECT_EQ(std::get<Sgd>(options("optimizer: {type: sgd, momentum: 0.9}").optimizer).momentum, 0.9);
  EXPECT_EQ(std::get<Adam>(options("optimizer: {beta1: 0.5}").optimizer).beta1, 0.5)
      << "without type: the default's";
  EXPECT_EQ(std::get<double>(options("learning_rate: 0.001").learning_rate), 0.001);
  EXPECT_EQ(
      std::get<Noam>(options("learning_rate: {type: noam, warmup_steps: 7}").learning_rate).warmup_steps, 7);
  const auto product = std::get<std::vector<Schedule>>(
      options("learning_rate: [0.5, {type: noam, warmup_steps: 7}]").learning_rate);
  EXPECT_EQ(std::get<double>(product[0]), 0.5);
  EXPECT_EQ(std::get<Noam>(product[1]).warmup_steps, 7);
  EXPECT_EQ(std::get<int64_t>(options("batch: 3").batch), 3);
  EXPECT_EQ(std::get<Tokens>(options("batch: {tokens: 5}").batch).tokens, 5);
}

TEST(Parse, ShorthandStandsForOneField) {
  EXPECT_EQ(options("activation: gelu").activation.function, "gelu");
  EXPECT_EQ(options("activation: {function: gelu, slope: 1}").activation.slope, 1);
}

TEST(Parse, NamedMapsKeepTheirOrderAndLoseNullEntries) {
  const Options o = options("datasets: {test: {path: t}, dev: {path: d, weight: 2}, old: null}");
  ASSERT_EQ(o.datasets.size(), 2u);
  EXPECT_EQ(o.datasets[0].first, "test");
  EXPECT_EQ(o.datasets.find("dev")->weight, 2);
  EXPECT_EQ(options("lengths: {inputs: 3}").lengths.at("inputs"), 3);
}

TEST(Parse, UnknownKeyNamesTheNearest) {
  Diagnostics diagnostics;
  parse<Options>(parse_yaml("train: {stepz: 100, epochs: 1}\n", "my.yaml", diagnostics), diagnostics);
  EXPECT_THAT(errors_of(diagnostics),
              ElementsAre("my.yaml:1:9: unknown key `train.stepz`; did you mean `train.steps`?\n"
                          "    1 | train: {stepz: 100, epochs: 1}\n"
                          "      |         ^~~~~"));
  EXPECT_THAT(parse_errors<Tokens>("{tokens: 1, zzz: 2}"),
              ElementsAre("a.yaml:1:13: unknown key `zzz`; only `tokens` is known here"));
}

TEST(Parse, WrongTypes) {
  EXPECT_THAT(parse_errors<Options>(
                  "train:\n  steps: many\n  batch_size: 1.5\n  trainable: {a: 1}\n  dropout: yes\n"),
              ElementsAre("a.yaml:2:10: `train.steps` must be a whole number, not the text `many`",
                          "a.yaml:3:15: `train.batch_size` must be a whole number, not `1.5`",
                          "a.yaml:4:14: `train.trainable` must be a list of texts, not a map",
                          "a.yaml:5:12: `train.dropout` must be a number, not the text `yes`"));
  EXPECT_THAT(parse_errors<Train>("{steps: 1e3}"),
              ElementsAre("a.yaml:1:9: `steps` must be a whole number, not `1e3`; write 1000"));
  EXPECT_THAT(
      parse_errors<Train>("{steps: \"100\"}"),
      ElementsAre(
          "a.yaml:1:9: `steps` must be a whole number, not the text `100`; write 100 without quotes"));
  EXPECT_THAT(errors("replicas: yes"),
              ElementsAre("a.yaml:2:11: `replicas` must be true or false, not the text `yes`; write true"));
  EXPECT_THAT(parse_errors<Options>("train: [1]"),
              ElementsAre("a.yaml:1:8: `train` must be a map of options, not a list; write for "
                          "example `{steps: ...}`"));
  EXPECT_THAT(parse_errors<Options>("train:\n  steps:100\n"),
              ElementsAre("a.yaml:2:3: `train` must be a map of options, not the text `steps:100`; write a "
                          "blank after the colon: "
                          "`steps: 100`"));
  EXPECT_THAT(parse_errors<Train>("{steps: 1, trainable: [a, null, [b]]}"),
              ElementsAre("a.yaml:1:27: `trainable.1` must be a text, not null",
                          "a.yaml:1:33: `trainable.2` must be a text, not a list"));
  EXPECT_THAT(parse_errors<Train>("{steps: 99999999999999999999}"),
              ElementsAre("a.yaml:1:9: `steps` cannot be as large as 99999999999999999999"));
  EXPECT_THAT(errors("threads: 9999999999"),
              ElementsAre("a.yaml:2:10: `threads` cannot be as large as 9999999999"));
  EXPECT_THAT(errors("threads: atuo"),
              ElementsAre("a.yaml:2:10: `threads` must be a whole number or `auto`, not the text `atuo`"));
}

TEST(Parse, OutOfRange) {
  EXPECT_THAT(parse_errors<Train>("{steps: 0, batch_size: -1, dropout: 1.5}"),
              ElementsAre("a.yaml:1:9: `steps` must be greater than 0, not 0",
                          "a.yaml:1:24: `batch_size` must be at least 1, not -1",
                          "a.yaml:1:37: `dropout` must be from 0 to 1, not 1.5"));
  EXPECT_THAT(errors("lengths: {a: 0}"),
              ElementsAre("a.yaml:2:14: `lengths.a` must be greater than 0, not 0"));
  EXPECT_THAT(
      errors("activation: gleu"),
      ElementsAre("a.yaml:2:13: unknown value `gleu` of `activation.function`; did you mean `gelu`?"));
  EXPECT_THAT(errors("dtype: float64"),
              ElementsAre("a.yaml:2:8: `dtype` cannot be the text `float64`; did you mean `float32`?"));
}

TEST(Parse, UnknownWordsAndTypes) {
  EXPECT_THAT(errors("mode: trian"),
              ElementsAre("a.yaml:2:7: unknown value `trian` of `mode`; did you mean `train`?"));
  EXPECT_THAT(errors("optimizer: adm"),
              ElementsAre("a.yaml:2:12: unknown type `adm` of `optimizer`; did you mean `adam`?"));
  EXPECT_THAT(errors("optimizer: {type: foo}"),
              ElementsAre("a.yaml:2:19: unknown type `foo` of `optimizer`; one of `adam`, `sgd`"));
  EXPECT_THAT(errors("optimizer: {type: [adam]}"),
              ElementsAre("a.yaml:2:19: `optimizer.type` must be a word, not a list"));
  EXPECT_THAT(errors("optimizer: 3"),
              ElementsAre("a.yaml:2:12: `optimizer` must be `adam` or `sgd`, not `3`"));
  EXPECT_THAT(errors("learning_rate: {warmup_steps: 3}"),
              ElementsAre("a.yaml:2:16: `learning_rate` needs a `type`; only `noam` is known here"));
  EXPECT_THAT(errors("optimizer: {type: sgd, beta1: 1}"),
              ElementsAre("a.yaml:2:24: unknown key `optimizer.beta1`; only `momentum` is known here"));
  EXPECT_THAT(
      errors("batch: x"),
      ElementsAre("a.yaml:2:8: `batch` must be a whole number or a map with `tokens`, not the text `x`"));
}

TEST(Parse, OtherNamesForAWordMeanTheSame) {
  EXPECT_EQ(options("mode: fit").mode, Mode::kTrain);
  EXPECT_EQ(dump(options("mode: fit")).find("mode")->text(), "train");
  EXPECT_EQ(type_of<Mode>().name(), "train | evaluate | explain");
}

TEST(Parse, NamesOfOtherProgramsAreExplained) {
  EXPECT_THAT(errors("mode: Predict"),
              ElementsAre("a.yaml:2:7: unknown value `Predict` of `mode`; did you mean `evaluate`?"));
  EXPECT_THAT(
      errors("optimizer: GradientDescent"),
      ElementsAre("a.yaml:2:12: unknown type `GradientDescent` of `optimizer`; did you mean `sgd` without "
                  "momentum?"));
}

TEST(Parse, NullForSomethingThatIsOnByDefaultGetsAHint) {
  Diagnostics diagnostics;
  parse<Options>(
      parse_yaml("train: {steps: 1}\noptimizer: {type: sgd, momentum: null}", "a.yaml", diagnostics),
      diagnostics);
  EXPECT_FALSE(diagnostics.has_errors());
  ASSERT_EQ(diagnostics.warnings().size(), 1u);
  EXPECT_EQ(diagnostics.warnings()[0].message, "`optimizer.momentum`: null is the default, 0; 0 is off");
}

TEST(Parse, MissingAndConflictingKeys) {
  EXPECT_THAT(parse_errors<Options>("mode: train"),
              ElementsAre("a.yaml:1:1: `train` needs one of `steps`, `epochs`"));
  EXPECT_THAT(
      parse_errors<Train>("{steps: 1, epochs: 2}"),
      ElementsAre("a.yaml:1:12: `epochs` cannot stand beside `steps`; give one of `steps`, `epochs`"));
  EXPECT_THAT(errors("learning_rate: noam"),
              ElementsAre("a.yaml:2:16: `learning_rate.warmup_steps` is missing; steps of linear growth"));
  EXPECT_THAT(errors("datasets: {dev: {weight: 1}}"),
              ElementsAre("a.yaml:2:17: `datasets.dev.path` is missing; file"));
}

TEST(Parse, AnImpliedTypeCountsOnlyForSumTypes) {
  Diagnostics diagnostics;
  const Node base =
      parse_yaml("{optimizer: sgd, activation: gelu, batch: same, train: {steps: 1}}", "a.yaml", diagnostics);
  const Node over = parse_yaml("{optimizer: {momentum: 0.5}, activation: {slope: 2}, batch: {tokens: 3}}",
                               "b.yaml", diagnostics);
  const Options o = parse<Options>(merge(base, over), diagnostics);
  EXPECT_FALSE(diagnostics.has_errors());
  EXPECT_EQ(std::get<Sgd>(o.optimizer).momentum, 0.5);
  EXPECT_EQ(o.activation.slope, 2);
  EXPECT_EQ(std::get<Tokens>(o.batch).tokens, 3);
}

TEST(Parse, ReportsAllErrorsOfARunTogether) {
  Files files;
  files.write("a.yaml", "train: {stepz: 1, epochs: 1}\nmode: trian\nlayout: {batch:rows}\nx: $nope\n");
  Diagnostics diagnostics;
  const Node root = load({"a.yaml"}, {"optimizer.beta1=2", "train.batch_size=big", "modell=1"}, diagnostics);
  parse<Options>(root, diagnostics);
  std::vector<std::string> firsts;
  for (const std::string& error : errors_of(diagnostics)) firsts.push_back(error.substr(0, error.find('\n')));
  EXPECT_THAT(firsts, ElementsAre("a.yaml:1:9: unknown key `train.stepz`; did you mean `train.steps`?",
                                  "a.yaml:2:7: unknown value `trian` of `mode`; did you mean `train`?",
                                  ::testing::StartsWith("a.yaml:3:1: unknown key `layout`"),
                                  ::testing::StartsWith("a.yaml:3:10: `batch:rows` is a key"),
                                  ::testing::StartsWith("a.yaml:4:1: unknown key `x`"),
                                  ::testing::StartsWith("a.yaml:4:4: unknown variable `nope`"),
                                  "argument 2: `optimizer.beta1` must be from 0 to 1, not 2",
                                  "argument 3: `train.batch_size` must be a whole number, not the text `big`",
                                  "argument 4: unknown key `modell`; did you mean `model`?"));
}

TEST(Parse, ASyntaxErrorMakesNoMissingKeys) {
  Diagnostics diagnostics;
  parse<Options>(parse_yaml("mode: train\nlengths: {a: 1\n", "a.yaml", diagnostics), diagnostics);
  EXPECT_EQ(diagnostics.errors().size(), 1u);
}

TEST(Parse, ChecksRunWhenAllKeysAreRight) {
  struct Range {
    int64_t low = 0, high = 10;
  };
  struct Local {
    static void check(Visitor& visit, Range& range) {
      visit("low", range.low, "first");
      visit("high", range.high, "last");
      visit.check([&range](const Report& report) {
        if (range.low > range.high)
          report.error("low", "`low` is above `high`", "at most " + std::to_string(range.high));
      });
    }
  };
  Diagnostics diagnostics;
  Range range;
  Visitor visit;
  Local::check(visit, range);
  visit.parse(parse_yaml("{low: 20}", "a.yaml", diagnostics), Place{diagnostics, "", {}});
  EXPECT_THAT(errors_of(diagnostics),
              ElementsAre(::testing::StartsWith("a.yaml:1:7: `low` is above `high`; at most 10")));
}

TEST(Parse, ChecksReportThePlaceOfWhatIsBelowAKey) {
  struct Split {
    std::map<std::string, double> split;
    std::vector<double> factors;
  };
  Diagnostics diagnostics;
  Split options;
  Visitor visit;
  visit("split", options.split, "shares by name");
  visit("factors", options.factors, "numbers");
  visit.check([](const Report& report) {
    for (const char* path : {"split.dev", "split.test", "factors.1", "factors.2", "other"})
      report.error(path, std::string("at ") + path);
  });
  const Node node = parse_yaml("factors: [1, 22]\nsplit: {dev: 3}", "a.yaml", diagnostics);
  visit.parse(node, Place{diagnostics, "", {}});
  EXPECT_THAT(errors_of(diagnostics), ElementsAre(::testing::StartsWith("a.yaml:1:1: at other"),
                                                  ::testing::StartsWith("a.yaml:1:10: at factors.2"),
                                                  ::testing::StartsWith("a.yaml:1:14: at factors.1"),
                                                  ::testing::StartsWith("a.yaml:2:8: at split.test"),
                                                  ::testing::StartsWith("a.yaml:2:14: at split.dev")));
}

/// Parses YAML text after kTrainSteps with arguments.
Options with_arguments(const std::string& yaml, const std::vector<std::string>& arguments,
                       Diagnostics& diagnostics) {
  return parse<Options>(load_text(kTrainSteps + yaml, "a.yaml", arguments, diagnostics), diagnostics);
}

std::vector<std::string> argument_errors(const std::string& yaml, const std::vector<std::string>& arguments) {
  Diagnostics diagnostics;
  with_arguments(yaml, arguments, diagnostics);
  std::vector<std::string> lines;
  for (const std::string& error : errors_of(diagnostics)) lines.push_back(error.substr(0, error.find('\n')));
  return lines;
}

TEST(Append, StartsFromTheDefault) {
  Diagnostics diagnostics;
  const auto trainable = [&](const std::string& yaml, const std::vector<std::string>& arguments) {
    return with_arguments(yaml, arguments, diagnostics).train.trainable;
  };
  EXPECT_THAT(trainable("", {"train.trainable+=a", "train.trainable+=[b, c]"}),
              ElementsAre(".*", "a", "b", "c"));
  EXPECT_THAT(trainable("", {"train.trainable=null", "train.trainable+=a"}), ElementsAre(".*", "a"));
  EXPECT_THAT(trainable("", {"train.trainable=[]", "train.trainable+=a"}), ElementsAre("a"));
  EXPECT_THAT(trainable("", {"train.trainable=b", "train.trainable+=a"}), ElementsAre("b", "a"));
  EXPECT_THAT(trainable("", {"train.trainable+=a", "train.trainable=[b]"}), ElementsAre("b"));
  EXPECT_THAT(trainable("vars: {l: [x]}", {"vars.more+=y", "train.trainable=$more"}), ElementsAre("y"));
  const Options o = with_arguments("", {"learning_rate+=0.5"}, diagnostics);
  EXPECT_EQ(std::get<std::vector<Schedule>>(o.learning_rate).size(), 1u);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty());
}

TEST(Append, ToWhatIsNoListByDefaultIsAnError) {
  EXPECT_THAT(
      argument_errors("", {"optimizer+=x", "batch+=9", "train.trainable+=x", "train.trainable.0=y"}),
      ElementsAre("argument 2: `optimizer` is a map; `+=` appends to a list; write `optimizer.NAME=...`",
                  "argument 3: `batch` must be a whole number or a map with `tokens`, not a list",
                  "argument 5: the list `train.trainable` begins with its default; write the whole list: "
                  "`train.trainable=[...]`"));
}

TEST(Remove, ANameThatIsNotThereIsAnError) {
  const std::string yaml = "datasets: {dev: {path: d}, test: {path: t}, old: null}";
  EXPECT_THAT(argument_errors(yaml, {"datasets.dve=null"}),
              ElementsAre("argument 2: `datasets` has no entry `dve` to remove; did you mean `dev`?"));
  EXPECT_THAT(argument_errors(yaml, {"datasets={dve: null, dev: null}"}),
              ElementsAre("argument 2: `datasets` has no entry `dve` to remove; only `test` is known here"));
  EXPECT_THAT(argument_errors(yaml, {"datasets.x=null", "datasets.x=~"}),
              ElementsAre(::testing::StartsWith("argument 3: `datasets` has no entry `x` to remove")));
  EXPECT_THAT(argument_errors("", {"lengths.a=null"}),
              ElementsAre("argument 2: `lengths` has no entry `a` to remove"));
}

TEST(Remove, WhatIsThereOrIsAKeyOfTheSchema) {
  Diagnostics diagnostics;
  const std::string yaml = "datasets: {dev: {path: d}, test: {path: t}, old: null}";
  const Options o = with_arguments(yaml,
                                   {"datasets.dev=null", "datasets.dev=null", "datasets.old=null",
                                    "learning_rate=null", "train.epochs=null", "optimizer.clip_norm=null"},
                                   diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty());
  EXPECT_EQ(o.datasets.size(), 1u);
}

TEST(Dump, ShowsAllDefaultsAndLoadsAgainToTheSame) {
  const std::string yaml =
      "optimizer: {type: sgd, momentum: 0.1}\nlearning_rate: [0.5, {type: noam, warmup_steps: 7}]\nbatch: "
      "{tokens: 5}\n"
      "datasets: {dev: {path: \"a: $$b #\\n\\t\\\"ü\\\"\"}, \"12\": {path: \"null\"}, t: {path: "
      "'0x1'}}\nlengths: {a: 1}\nthreads: 3\n"
      "model: {type: lm, layers: [a, {b: {c: [1, {d: \"2\"}, []], e: {}}}]}\n";
  Files files;
  files.write("a.yaml", kTrainSteps + yaml);
  Diagnostics diagnostics;
  const Node first = dump(parse<Options>(load({"a.yaml"}, {}, diagnostics), diagnostics));
  files.write("b.yaml", to_yaml(first));
  const Options again = parse<Options>(load({"b.yaml"}, {}, diagnostics), diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty()) << to_yaml(first);
  EXPECT_EQ(again.datasets[0].second.path, "a: $b #\n\t\"ü\"");
  EXPECT_EQ(again.datasets[1].second.path, "null");
  EXPECT_TRUE(first == dump(again)) << to_yaml(first) << "\n" << to_yaml(dump(again));
}

TEST(Dump, ReadsLikeAConfiguration) {
  EXPECT_EQ(to_yaml(dump(options(
                "datasets: {dev: {path: x}}\nmodel: {layers: [{dense: {output: {hidden: 8}}}, relu]}"))),
            "mode: train\n"
            "train:\n"
            "  steps: 1\n"
            "  epochs: null\n"
            "  batch_size: 64\n"
            "  trainable: [.*]\n"
            "  dropout: 0\n"
            "optimizer: {type: adam, beta1: 0.9, clip_norm: null}\n"
            "learning_rate: null\n"
            "batch: 8\n"
            "datasets:\n"
            "  dev: {path: x, weight: 1}\n"
            "lengths: {}\n"
            "threads: auto\n"
            "activation: {function: relu, slope: 0}\n"
            "dtype: float32\n"
            "model:\n"
            "  layers:\n"
            "    - dense:\n"
            "        output: {hidden: 8}\n"
            "    - relu\n"
            "replicas: false\n");
}

TEST(Help, ShowsKeyDefaultTypeAndMeaning) {
  EXPECT_EQ(help<Options>("train"),
            "train:                            # training\n"
            "  steps: null                     # whole number, greater than 0: ends the run\n"
            "  epochs: null                    # number, greater than 0: ends the run\n"
            "  batch_size: 64                  # whole number, at least 1: examples of a step\n"
            "  trainable: [.*]                 # list of texts: patterns of variables\n"
            "  dropout: 0                      # number, from 0 to 1: rate\n");
  EXPECT_EQ(help<Options>("train.batch_size"),
            "batch_size: 64                    # whole number, at least 1: examples of a step\n");
  EXPECT_EQ(help<Options>("optimizer"),
            "optimizer:                        # adam | sgd: how variables change\n"
            "  # type: adam\n"
            "  #   beta1: 0.9                  # number, from 0 to 1: decay of the mean\n"
            "  #   clip_norm: null             # number, greater than 0: bound of the gradient's norm\n"
            "  # type: sgd\n"
            "  #   momentum: 0                 # number: decay\n");
}

TEST(Help, ATypeIsPrintedOnceWithItsName) {
  const std::string text = help<Options>("learning_rate");
  EXPECT_THAT(text, ::testing::HasSubstr("  # type: noam\n  #   warmup_steps: 0"));
  EXPECT_THAT(text, ::testing::HasSubstr("  # type: noam, as above\n"));
  EXPECT_EQ(text.find("warmup_steps"), text.rfind("warmup_steps"));
  EXPECT_THAT(help<Optimizer>(), ::testing::StartsWith("type: adam\n  beta1: 0.9"));
}

TEST(Help, OfAllKeysIsAConfigurationThatLoads) {
  Diagnostics diagnostics;
  const Node node = parse_yaml(help<Options>(), "help", diagnostics);
  parse<Options>(merge(node, parse_yaml("train: {steps: 1}", "a.yaml", diagnostics)), diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty()) << help<Options>();
  EXPECT_EQ(keys<Options>()[1], "train");
}

TEST(Help, UnknownSection) {
  try {
    help<Options>("trian");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "there is no key `trian`; did you mean `train`?");
  }
}

TEST(Changes, SayWhatMayChangeWhenARunContinues) {
  const Options before = options("optimizer: {type: adam, beta1: 0.5}");
  Options after = parsed<Options>(
      "train: {steps: 2, batch_size: 3}\nmode: evaluate\noptimizer: {beta1: 0.6}\nlengths: {a: 1}");
  std::vector<std::string> lines;
  for (const Change& change : changes(before, after)) {
    const char* resume = change.resume == Resume::kFree    ? "free"
                         : change.resume == Resume::kError ? "error"
                                                           : "reported";
    lines.push_back(change.path + ": " + change.before + " -> " + change.after + " " + resume);
  }
  EXPECT_THAT(lines, ElementsAre("mode: train -> evaluate free", "train.steps: 1 -> 2 free",
                                 "train.batch_size: 64 -> 3 error", "optimizer.beta1: 0.5 -> 0.6 reported",
                                 "lengths.a: not given -> 1 reported"));
  after.optimizer = Sgd{};
  EXPECT_EQ(changes(before, after)[3].path, "optimizer.type");
  EXPECT_EQ(changes(before, after)[3].resume, Resume::kError);
}

}  // namespace
}  // namespace mtf::config
