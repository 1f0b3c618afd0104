#include "trainer/programs/compare/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "tests/support/failure.h"
#include "trainer/programs/compare/difference_text.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A fixture with two runs, a and b, in a directory.
class Compare : public ::testing::Test {
 protected:
  Compare() {
    std::string name = (std::filesystem::temp_directory_path() / "mtf_compare_XXXXXX").string();
    directory_ = mkdtemp(name.data());
    for (const char* run : {"a", "b"}) std::filesystem::create_directory(directory_ / run);
  }
  ~Compare() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
    return path(name);
  }

  /// Writes RUN/checkpoints/step-N with one variable, kernel [io=2, hidden=3].
  void checkpoint(const std::string& run, int64_t step, const std::vector<float>& kernel) const {
    Manifest manifest;
    manifest.step = step;
    const std::vector<CheckpointFile> files{{"weights.safetensors",
                                             {{.name = "kernel",
                                               .dtype = DType::kFloat32,
                                               .shape = {{"io", 2}, {"hidden", 3}},
                                               .begin = {},
                                               .size = {},
                                               .data = std::as_bytes(std::span(kernel))}}}};
    std::filesystem::create_directories(directory_ / run / "checkpoints");
    write_checkpoint(path(run + "/checkpoints"), manifest, files);
  }

  Comparison compare_runs(CompareOptions options = {}) const {
    options.a = path("a");
    options.b = path("b");
    return compare(options);
  }

  /// Returns the message with which the comparison of the runs fails.
  std::string failure_of_runs(const CompareOptions& options = {}) const {
    return failure([&] { compare_runs(options); });
  }

  std::vector<ConfigDifference> compare_yaml(const std::string& a, const std::string& b) const {
    return compare_configs(write("a.yaml", a), write("b.yaml", b));
  }

  SeriesComparison compare_lines(const std::string& a, const std::string& b, double tolerance = 0) const {
    return compare_metrics(write("a.jsonl", a), write("b.jsonl", b), tolerance);
  }

 private:
  std::filesystem::path directory_;
};

std::string last_line(const std::string& text) { return text.substr(text.rfind('\n', text.size() - 2) + 1); }

TEST(CompareText, DifferencesAreRelativeToTheLargerNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(relative_difference(0.5, 0.5), 0);
  EXPECT_EQ(relative_difference(2, 1), 0.5);
  EXPECT_EQ(relative_difference(0, 1e-30), 1);
  EXPECT_EQ(relative_difference(0, 1e-30, 1), 1e-30);
  EXPECT_EQ(relative_difference(kNaN, kNaN), 0);
  EXPECT_EQ(relative_difference(kNaN, 1), infinity);
  EXPECT_EQ(relative_difference(infinity, infinity), 0);
  EXPECT_EQ(relative_difference(infinity, -infinity), infinity);
}

TEST(CompareText, NumbersHaveTheDigitsThatShowTheDifference) {
  EXPECT_EQ(against(0.53121, 0.53133), "0.5312 against 0.5313");
  EXPECT_EQ(against(0.5, 0.25), "0.5 against 0.25");
  EXPECT_EQ(against(0.59023475, 0.59023476), "0.59023475 against 0.59023476");
  EXPECT_EQ(against(1, std::nextafter(1.0, 2.0)), "1 against 1.0000000000000002");
  EXPECT_EQ(against(kNaN, 1), "nan against 1");
}

TEST_F(Compare, ConfigurationsByKey) {
  EXPECT_THAT(compare_yaml("train: {steps: 5}\nmesh: null\n", "mesh: null\ntrain: {steps: 5}\n"), IsEmpty());
  EXPECT_THAT(
      compare_yaml("run: {seed: 1}\nmesh: null\nlayout: {}\n",
                   "run: {seed: 2}\nmesh: {rows: 2}\nlayout: {batch: rows}\n"),
      ElementsAre(ConfigDifference{"run.seed", "1", "2"}, ConfigDifference{"mesh", "null", "{rows: 2}"},
                  ConfigDifference{"layout.batch", "-", "rows"}));
  EXPECT_THAT(compare_yaml("trainable: [a, b]\n", "trainable: [a, c]\n"),
              ElementsAre(ConfigDifference{"trainable", "[a, b]", "[a, c]"}));
}

TEST_F(Compare, OptionsThatFollowFromTheTypeAreNotListed) {
  EXPECT_THAT(compare_yaml("optimizer: {type: sgd, clip_norm: null}\n",
                           "optimizer: {type: adam, clip_norm: 0.5, beta1: 0.9}\n"),
              ElementsAre(ConfigDifference{"optimizer.type", "sgd", "adam"},
                          ConfigDifference{"optimizer.clip_norm", "null", "0.5"}));
}

TEST_F(Compare, LayersByNameOrIndex) {
  const std::string a =
      "model:\n  layers:\n"
      "    - dense: {name: layer_1, output: {hidden: 16}}\n"
      "    - dropout: {rate: 0.1}\n"
      "    - dense: {name: layer_2, output: {io: 16}}\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    return std::string(a).replace(a.find(from), from.size(), to);
  };
  EXPECT_THAT(compare_yaml(a, with("hidden: 16", "hidden: 32")),
              ElementsAre(ConfigDifference{"model.layers.layer_1.output.hidden", "16", "32"}));
  EXPECT_THAT(compare_yaml(a, with("rate: 0.1", "rate: 0.2")),
              ElementsAre(ConfigDifference{"model.layers.1.rate", "0.1", "0.2"}));
  EXPECT_THAT(compare_yaml(a, with("    - dropout: {rate: 0.1}\n", "")),
              ElementsAre(ConfigDifference{"model.layers.1", "{dropout: {rate: 0.1}}", "-"}));
}

TEST_F(Compare, VariablesThatBlocksReferToAreNamed) {
  const std::string blocks = "model: {blocks: {wide: [{dense: {output: {hidden: $hidden}}}]}}\n";
  EXPECT_THAT(compare_yaml("vars: {hidden: 16}\n" + blocks, "vars: {hidden: 32}\n" + blocks),
              ElementsAre(ConfigDifference{"vars.hidden", "16", "32"}));
}

TEST_F(Compare, MetricsStepByStep) {
  const SeriesComparison same =
      compare_lines(R"({"step":1,"time":0.1,"loss":0.5,"examples_per_second":7,"mfu":0.1,"memory_bytes":1000}
{"step":2,"loss":null}
)",
                    R"({"step":1,"time":9,"loss":0.5,"examples_per_second":1,"mfu":0.5,"memory_bytes":5000}
{"step":2,"loss":null}
)");
  EXPECT_EQ(same.steps, 2);
  EXPECT_FALSE(same.first) << "times, speeds and memory are not compared, NaN equals NaN";
  ASSERT_EQ(same.metrics.size(), 1u);

  const SeriesComparison different = compare_lines(R"({"step":1,"loss":0.5,"grad_norm":1.0}
{"step":5,"loss":0.4,"grad_norm":2.0}
{"step":6,"loss":0.4,"grad_norm":2.0}
{"step":7,"loss":0.25,"grad_norm":2.0}
)",
                                                   R"({"step":1,"loss":0.5,"grad_norm":1.0}
{"step":2,"loss":0.5,"grad_norm":1.0}
{"step":6,"loss":0.4,"grad_norm":2.5}
{"step":7,"loss":0.5,"grad_norm":2.4}
)");
  EXPECT_EQ(different.steps, 3);
  EXPECT_EQ(different.first_step, 1);
  EXPECT_EQ(different.last_step, 7);
  EXPECT_EQ(different.differing, 2);
  EXPECT_EQ(different.only_a, 1);
  EXPECT_EQ(different.only_b, 1);
  ASSERT_TRUE(different.first);
  EXPECT_EQ(different.first->step, 6);
  EXPECT_EQ(different.first->metric, "grad_norm");
  EXPECT_EQ(different.first->values, "2 against 2.5");
  ASSERT_EQ(different.metrics.size(), 2u);
  EXPECT_EQ(different.metrics[0].metric, "loss");
  EXPECT_EQ(different.metrics[0].differing, 1);
  EXPECT_EQ(different.metrics[0].largest, 0.5);
  EXPECT_EQ(different.metrics[0].largest_at_step, 7);
  EXPECT_EQ(different.metrics[1].differing, 2);
  EXPECT_EQ(different.metrics[1].largest_at_step, 6);
}

TEST_F(Compare, ToleranceDecidesWhatDiffersAndTheLargestDifferenceIsStillKnown) {
  const std::string a = "{\"step\":1,\"loss\":0.5}\n", b = "{\"step\":1,\"loss\":0.500001}\n";
  EXPECT_TRUE(compare_lines(a, b).first);
  const SeriesComparison within = compare_lines(a, b, 1e-5);
  EXPECT_FALSE(within.first);
  EXPECT_NEAR(within.metrics[0].largest, 2e-6, 1e-8);
}

TEST_F(Compare, MetricsThatAreSmallDifferencesHaveTheRoundingOfWhatTheyAreOf) {
  for (const std::string metric : {"report/router/min_gap", "pearson", "spearman", "matthews"}) {
    const auto compare_values = [&](double a, double b) {
      return compare_lines(fmt::format("{{\"step\":1,\"{}\":{}}}\n", metric, a),
                           fmt::format("{{\"step\":1,\"{}\":{}}}\n", metric, b), 1e-5);
    };
    EXPECT_FALSE(compare_values(1e-4, 1.001e-4).first) << metric;
    EXPECT_FALSE(compare_values(0, -1e-7).first) << metric;
    EXPECT_TRUE(compare_values(1e-4, 2e-4).first) << metric;
  }
  EXPECT_TRUE(compare_lines("{\"step\":1,\"loss\":1e-4}\n", "{\"step\":1,\"loss\":1.001e-4}\n", 1e-5).first);
}

TEST_F(Compare, MetricsThatOnlyOneRunHas) {
  const SeriesComparison series =
      compare_lines("{\"step\":1,\"loss\":1,\"tokens\":5}\n", "{\"step\":1,\"loss\":1,\"bleu\":7}\n");
  EXPECT_FALSE(series.first);
  EXPECT_THAT(series.metrics_only_a, ElementsAre("tokens"));
  EXPECT_THAT(series.metrics_only_b, ElementsAre("bleu"));
}

TEST_F(Compare, TextsAreComparedAsWell) {
  const SeriesComparison series =
      compare_lines("{\"step\":1,\"rows\":\"ab\"}\n", "{\"step\":1,\"rows\":\"ac\"}\n", 1e-5);
  ASSERT_TRUE(series.first);
  EXPECT_EQ(series.first->values, R"("ab" against "ac")");
}

TEST_F(Compare, DamagedLinesAreNamed) {
  const auto failure_of = [&](const std::string& lines) {
    return failure([&] { compare_lines(lines, "{\"step\":1}\n"); });
  };
  EXPECT_THAT(failure_of("{\"step\":1}\n{\"step\":\n"), EndsWith("a.jsonl:2: this is no JSON object"));
  EXPECT_THAT(failure_of("{\"loss\":1}\n"), EndsWith("a.jsonl:1: there is no whole number `step`"));
  EXPECT_THAT(failure_of("{\"step\":1}\n{\"step\":1}\n"), EndsWith("a.jsonl:2: step 1 occurs a second time"));
  EXPECT_EQ(failure_of("{\"step\":1}\n{\"step\":"), "no error")
      << "the program was killed while it wrote the last line";
}

TEST_F(Compare, EvaluationsByDataSet) {
  const std::vector<SeriesComparison> evaluations =
      compare_evaluations(write("a.jsonl", R"({"dataset":"test","step":5,"loss":9,"seconds":1}
{"dataset":"dev","step":5,"loss":1,"seconds":1}
{"dataset":"test","step":5,"loss":2,"seconds":1}
)"),
                          write("b.jsonl", R"({"dataset":"test","step":5,"loss":2,"seconds":3}
{"dataset":"dev","step":5,"loss":4,"seconds":1}
{"dataset":"extra","step":5,"loss":4,"seconds":1}
)"),
                          0);
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_EQ(evaluations[0].dataset, "test");
  EXPECT_FALSE(evaluations[0].first) << "the later evaluation of a step counts";
  EXPECT_EQ(evaluations[1].dataset, "dev");
  EXPECT_EQ(evaluations[1].first->values, "1 against 4");
  EXPECT_EQ(evaluations[2].dataset, "extra");
  EXPECT_EQ(evaluations[2].steps, 0);
  EXPECT_EQ(evaluations[2].only_b, 1);
}

TEST_F(Compare, RunsThatAgreeAreTheSameWhateverTheirLayout) {
  for (const std::string run : {"a", "b"}) {
    write(run + "/metrics.jsonl", "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n");
    write(run + "/evaluate.jsonl", "{\"dataset\":\"test\",\"step\":2,\"loss\":0.25}\n");
    write(run + "/config.yaml", run == "a" ? "layout: {}\n" : "layout: {batch: all}\n");
    checkpoint(run, 2, {1, 2, 3, 4, 5, 6});
  }
  const Comparison comparison = compare_runs();
  EXPECT_FALSE(comparison.differs());
  EXPECT_THAT(report(comparison),
              HasSubstr("configuration: 1 key differs\n  key           A  B\n  layout.batch  -  all\n"));
  EXPECT_EQ(last_line(report(comparison)), "same: 2 steps, 1 evaluation, 1 tensor\n");
  EXPECT_EQ(last_line(report(compare_runs({.tolerance = 1e-5}))),
            "same within 1e-05: 2 steps, 1 evaluation, 1 tensor\n");
  EXPECT_TRUE(compare_runs({.config = true}).differs()) << "nothing else was asked for";
  EXPECT_EQ(last_line(report(compare_runs({.config = true}))), "different: first key layout.batch\n");
  EXPECT_FALSE(compare_runs({.config = true, .metrics = true}).differs());
}

TEST_F(Compare, TheVerdictNamesTheFirstDifference) {
  write("a/metrics.jsonl", "{\"step\":7,\"loss\":0.53121}\n{\"step\":8,\"loss\":0.1}\n");
  write("b/metrics.jsonl", "{\"step\":7,\"loss\":0.53131}\n{\"step\":8,\"loss\":0.1}\n");
  checkpoint("a", 7, {1, 2, 3, 4, 5, 6});
  checkpoint("b", 7, {1, 2, 3, 4, 5, 7});
  EXPECT_EQ(last_line(report(compare_runs())),
            "different: first at step 7, loss 0.5312 against 0.5313 (1.9e-04)\n");
  EXPECT_EQ(last_line(report(compare_runs({.tolerance = 1e-3}))),
            "different: first at step 7, tensor kernel at [io=1, hidden=2], 6 against 7 (1.4e-01)\n");

  write("a/evaluate.jsonl", "{\"dataset\":\"test\",\"step\":5,\"loss\":1}\n");
  write("b/evaluate.jsonl", "{\"dataset\":\"test\",\"step\":5,\"loss\":2}\n");
  EXPECT_EQ(last_line(report(compare_runs())),
            "different: first at step 5, test/loss 1 against 2 (5.0e-01)\n");
}

TEST_F(Compare, TheNewestCheckpointOfBothIsCompared) {
  for (const int64_t step : {5, 10, 20}) checkpoint("a", step, {1, 2, 3, 4, 5, static_cast<float>(step)});
  for (const int64_t step : {5, 10, 15}) checkpoint("b", step, {1, 2, 3, 4, 5, 10});
  const Comparison comparison = compare_runs();
  EXPECT_EQ(comparison.tensor_step, 10);
  EXPECT_FALSE(comparison.differs());
  EXPECT_THAT(comparison.notes, ElementsAre("neither has config.yaml", "neither has metrics.jsonl"));

  const std::string step_5 = path("b/checkpoints/") + checkpoint_name(5);
  EXPECT_TRUE(compare({.a = path("a"), .b = step_5}).differs())
      << "a checkpoint is compared with the run's of its step";
  const Comparison file = compare({.a = step_5 + "/weights.safetensors", .b = path("a")});
  EXPECT_THAT(file.notes, ElementsAre("the tensors of B are those of its step 20"));
  EXPECT_THAT(report(file), HasSubstr("10 against 20"));
}

TEST_F(Compare, WhatCannotBeComparedIsSaid) {
  EXPECT_THAT(failure_of_runs(), HasSubstr("no directory of a run"));
  write("a/config.yaml", "run: {seed: 1}\n");
  write("b/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  EXPECT_THAT(failure_of_runs(), HasSubstr("nothing in common"));
  EXPECT_THAT(failure_of_runs({.config = true}), HasSubstr("B has no config.yaml"));
  EXPECT_THAT(failure_of_runs({.tensors = true}), HasSubstr("neither has checkpoints"));
  write("a/metrics.jsonl", "{\"step\":2,\"loss\":1}\n");
  EXPECT_THAT(failure_of_runs({.metrics = true}), HasSubstr("no step in common"));
  EXPECT_THROW(compare({.a = path("a"), .b = path("missing")}), Error);
}

TEST(CompareCommandLine, IsReadAndMistakesAreSaid) {
  const CompareOptions options =
      parse_compare_command_line({"runs/a,b", "--tolerance", "1e-5", "runs/c", "--tensors"});
  EXPECT_EQ(options.a, "runs/a,b");
  EXPECT_EQ(options.b, "runs/c");
  EXPECT_EQ(options.tolerance, 1e-5);
  EXPECT_TRUE(options.tensors);
  EXPECT_FALSE(options.metrics || options.config || options.help);
  EXPECT_TRUE(parse_compare_command_line({"--help"}).help);
  EXPECT_EQ(parse_compare_command_line({"a", "b"}).tolerance, 0);

  const std::vector<std::vector<std::string>> mistakes{{},
                                                       {"a"},
                                                       {"a", "b", "c"},
                                                       {"a", "b", "--tensor"},
                                                       {"a", "b", "--tolerance"},
                                                       {"a", "b", "--tolerance", "-1"},
                                                       {"a", "b", "--tolerance=1e-5x"}};
  for (const std::vector<std::string>& words : mistakes)
    EXPECT_THROW(parse_compare_command_line(words), Error);
}

}  // namespace
}  // namespace mtf
