// Tests the counts and scores of classes against a straightforward implementation, and the files that are made of them.
#include "trainer/evaluation/confusion_matrix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "trainer/evaluation/confusion_svg.h"
#include "trainer/evaluation/evaluation_files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;

struct Example {
  int64_t label = 0, prediction = 0;
};

std::vector<Example> random_examples(int64_t classes, int count) {
  std::mt19937_64 random(static_cast<uint64_t>(classes));
  std::vector<Example> examples(static_cast<size_t>(count));
  for (Example& example : examples) {
    const auto draw = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(classes)); };
    example.label = draw();
    example.prediction = random() % 2 == 0 ? example.label : draw();
  }
  return examples;
}

ConfusionMatrix matrix_of(int64_t classes, const std::vector<Example>& examples) {
  ConfusionMatrix matrix(classes);
  for (const auto& [label, prediction] : examples) matrix.add(label, prediction);
  return matrix;
}

/// The number of examples for which `is` holds.
template <class Is>
double count(const std::vector<Example>& examples, const Is& is) {
  return static_cast<double>(std::ranges::count_if(examples, is));
}

TEST(ConfusionMatrix, CountsAndScoresAreThoseOfTheirDefinitions) {
  for (const int64_t classes : {2, 3, 10, 40}) {
    const std::vector<Example> examples = random_examples(classes, 60);
    const ConfusionMatrix matrix = matrix_of(classes, examples);
    EXPECT_EQ(matrix.mean().support, 60);
    EXPECT_EQ(matrix.accuracy(), count(examples, [](auto& e) { return e.label == e.prediction; }) / 60);
    ClassScores sum;
    double occur = 0;
    for (int64_t c = 0; c < classes; ++c) {
      for (int64_t p = 0; p < classes; ++p)
        EXPECT_EQ(matrix.count(c, p),
                  count(examples, [&](auto& e) { return e.label == c && e.prediction == p; }));
      const double right = count(examples, [&](auto& e) { return e.label == c && e.prediction == c; });
      const double support = count(examples, [&](auto& e) { return e.label == c; });
      const double predicted = count(examples, [&](auto& e) { return e.prediction == c; });
      const double precision = predicted > 0 ? right / predicted : 0,
                   recall = support > 0 ? right / support : 0;
      const double f1 = precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
      const ClassScores scores = matrix.scores()[static_cast<size_t>(c)];
      EXPECT_DOUBLE_EQ(scores.precision, precision);
      EXPECT_DOUBLE_EQ(scores.recall, recall);
      EXPECT_NEAR(scores.f1, f1, 1e-15);
      EXPECT_NEAR(scores.iou, f1 / (2 - f1), 1e-15);
      EXPECT_EQ(scores.support, support);
      EXPECT_EQ(scores.predicted, predicted);
      if (support + predicted == 0) continue;
      ++occur;
      sum.precision += precision;
      sum.recall += recall;
      sum.f1 += f1;
    }
    const ClassScores mean = matrix.mean();
    EXPECT_NEAR(mean.precision, sum.precision / occur, 1e-12);
    EXPECT_NEAR(mean.recall, sum.recall / occur, 1e-12);
    EXPECT_NEAR(mean.f1, sum.f1 / occur, 1e-12);
  }
}

// The values of scikit-learn's precision_recall_fscore_support([0, 1, 1, 2, 2, 2], [0, 1, 2, 2, 2, 4],
// average="macro", zero_division=0): classes 3 and 5 do not occur, class 4 is only predicted.
TEST(ConfusionMatrix, LeavesOutClassesThatDoNotOccur) {
  const ConfusionMatrix matrix = matrix_of(6, {{0, 0}, {1, 1}, {1, 2}, {2, 2}, {2, 2}, {2, 4}});
  const ClassScores mean = matrix.mean();
  EXPECT_NEAR(mean.precision, (1 + 1 + 2 / 3.0 + 0) / 4, 1e-15);
  EXPECT_NEAR(mean.recall, (1 + 1 / 2.0 + 2 / 3.0 + 0) / 4, 1e-15);
  EXPECT_NEAR(mean.f1, (1 + 2 / 3.0 + 2 / 3.0 + 0) / 4, 1e-15);
  EXPECT_NEAR(mean.iou, (1 + 1 / 2.0 + 1 / 2.0 + 0) / 4, 1e-15);
  EXPECT_EQ(ConfusionMatrix(3).mean().f1, 0);
  EXPECT_EQ(ConfusionMatrix(3).accuracy(), 0);
}

TEST(ConfusionSvg, StaysSmallForAnyNumberOfClasses) {
  for (const int64_t classes : {2, 30, 31, 100, 101, 1000, 20000}) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < classes; ++i)
      names.push_back(fmt::format("a rather long name of a class, {}", i));
    const std::string svg = confusion_svg(matrix_of(classes, random_examples(classes, 50000)), names, "test");
    EXPECT_LT(svg.size(), 1'000'000U) << classes;
    EXPECT_EQ(svg.find("<g><title>") != std::string::npos, classes <= 30) << classes;
    EXPECT_EQ(svg.find("most frequent mistakes") != std::string::npos, classes > 30) << classes;
  }
}

TEST(ConfusionSvg, HoldsWhateverNamesContain) {
  const std::string svg = confusion_svg(matrix_of(3, {{0, 0}, {0, 1}, {2, 2}}),
                                        {"</svg><script>", "a\x01\xff\n&\"", "größe"}, "<dev>");
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("\x01")));
  EXPECT_THAT(svg, HasSubstr("&lt;dev&gt;"));
  EXPECT_THAT(svg, HasSubstr("größe"));
}

class EvaluationFiles : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(directory_); }

  static Evaluation evaluation(const std::string& dataset) {
    Evaluation result{dataset, {}, 4, std::nullopt, 0};
    result.matrix = matrix_of(3, {{0, 0}, {1, 2}, {2, 2}, {2, 2}});
    result.class_names = {"cat", "dog"};
    result.misclassified = {{{1, 1, 2, 0.5}, "data:image/png;base64,AAAA"}};
    return result;
  }
  nlohmann::json read(const std::string& name) const {
    return nlohmann::json::parse(std::ifstream(directory_ + "/" + name));
  }

  const std::string directory_ = fmt::format("{}evaluation_files.{}", ::testing::TempDir(), ::getpid());
};

TEST_F(EvaluationFiles, HaveClassesByName) {
  write_evaluation_files(directory_, 7, evaluation("dev"));
  const nlohmann::json classes = read("evaluation/dev.json");
  EXPECT_EQ(classes["step"], 7);
  EXPECT_EQ(classes["accuracy"], 0.75);
  EXPECT_EQ(classes["confusion_matrix"], nlohmann::json({{1, 0, 0}, {0, 0, 1}, {0, 0, 2}}));
  EXPECT_EQ(classes["classes"][1]["name"], "dog");
  EXPECT_EQ(classes["classes"][2]["name"], 2);
  EXPECT_EQ(classes["classes"][2]["recall"], 1);
  EXPECT_EQ(classes["classes"][2]["predicted"], 3);
  EXPECT_EQ(read("samples/misclassified-dev.jsonl"), nlohmann::json::parse(R"({"dataset": "dev", "step": 7,
"example": 1, "label": "dog", "prediction": 2, "probability": 0.5, "image": "data:image/png;base64,AAAA"})"));
}

TEST_F(EvaluationFiles, StayInTheirDirectory) {
  write_evaluation_files(directory_, 7, evaluation("../a/b%"));
  EXPECT_TRUE(fs::exists(directory_ + "/evaluation/%2E.%2Fa%2Fb%25.json"));
}

TEST_F(EvaluationFiles, OfLaterStepsAreRemoved) {
  write_evaluation_files(directory_, 7, evaluation("dev"));
  write_evaluation_files(directory_, 9, evaluation("test"));
  remove_evaluation_files_after(directory_, 8);
  EXPECT_TRUE(fs::exists(directory_ + "/evaluation/dev.svg"));
  EXPECT_FALSE(fs::exists(directory_ + "/evaluation/test.json"));
  EXPECT_FALSE(fs::exists(directory_ + "/evaluation/test.svg"));
  EXPECT_EQ(fs::file_size(directory_ + "/samples/misclassified-test.jsonl"), 0U);
  EXPECT_GT(fs::file_size(directory_ + "/samples/misclassified-dev.jsonl"), 0U);
}

TEST_F(EvaluationFiles, ListTheCountsOfManyClasses) {
  Evaluation many = evaluation("dev");
  many.matrix = matrix_of(5000, {{4000, 1}, {4000, 1}, {2, 2}});
  const nlohmann::json classes = nlohmann::json::parse(classes_json(1, many));
  EXPECT_FALSE(classes.contains("confusion_matrix"));
  EXPECT_EQ(classes["confusion_counts"], nlohmann::json({{2, 2, 1}, {4000, 1, 2}}));
}

}  // namespace
}  // namespace mtf
