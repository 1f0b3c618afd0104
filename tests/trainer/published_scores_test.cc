// Metrics of entities, answers, numbers and classes against a second implementation of the published definitions
// (published_scores.py), on random data, and on cases that one can check by hand.
#include <gmock/gmock.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "trainer/evaluation/confusion_matrix.h"
#include "trainer/metrics/answers.h"
#include "trainer/metrics/correlation.h"
#include "trainer/metrics/entities.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

TEST(Entities, AllSchemesAreRead) {
  EXPECT_THAT(entities_of({"I-PER", "I-PER", "O", "I-LOC", "B-LOC"}),
              ElementsAre(Entity{0, 2, "PER"}, Entity{3, 4, "LOC"}, Entity{4, 5, "LOC"}));
  EXPECT_THAT(entities_of({"B-PER", "I-PER", "I-LOC"}),
              ElementsAre(Entity{0, 2, "PER"}, Entity{2, 3, "LOC"}));
  EXPECT_THAT(entities_of({"S-PER", "B-LOC", "I-LOC", "E-LOC", "O"}),
              ElementsAre(Entity{0, 1, "PER"}, Entity{1, 4, "LOC"}));
  EXPECT_THAT(entities_of({"O", "NOUN", ""}), ElementsAre());
}

TEST(Entities, OneOfTwoIsFound) {
  EntityCounts counts;
  counts.add({"B-PER", "I-PER", "O", "B-LOC"}, {"B-PER", "I-PER", "O", "B-PER"});
  EXPECT_DOUBLE_EQ(counts.precision(), 0.5);
  EXPECT_DOUBLE_EQ(counts.recall(), 0.5);
  EXPECT_DOUBLE_EQ(counts.f1(), 0.5);
}

TEST(Answers, ArticlesPunctuationAndCaseDoNotMatter) {
  EXPECT_EQ(normalized_answer("The  \"Cat\", a dog & an Ape's den"), "cat dog apes den");
  AnswerScores scores(false);
  scores.add("the Eiffel Tower!", {"Eiffel tower"});
  scores.add("Paris", {"London", "in Paris"});
  EXPECT_DOUBLE_EQ(scores.exact_match(), 50);
  EXPECT_NEAR(scores.f1(), (100 + 100 * 2.0 / 3) / 2, 1e-12);
}

TEST(Answers, EmptyOnesAreRightWhereThereIsNone) {
  AnswerScores scores(true);
  scores.add("", {});
  scores.add("x", {});
  EXPECT_DOUBLE_EQ(scores.exact_match(), 50);
  EXPECT_DOUBLE_EQ(scores.f1(), 50);
}

class PublishedScores : public ::testing::Test {
 protected:
  /// The cases of one kind.
  static std::vector<Json> cases(const std::string& kind) {
    const std::string command = "python3 " MTF_SOURCE_DIR "/tests/trainer/published_scores.py 7 500";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> script(popen(command.c_str(), "r"), pclose);
    std::string text;
    char buffer[1 << 16];
    while (const size_t size = std::fread(buffer, 1, sizeof buffer, script.get())) text.append(buffer, size);
    std::vector<Json> found;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      Json json = Json::parse(text.substr(at, end - at));
      if (json["kind"] == kind) found.push_back(std::move(json));
      at = end + 1;
    }
    EXPECT_EQ(found.size(), 500u);
    return found;
  }
};

TEST_F(PublishedScores, OfEntities) {
  for (const Json& json : cases("entities")) {
    EntityCounts counts;
    for (const Json& sentence : json["sentences"]) counts.add(sentence[0], sentence[1]);
    ASSERT_NEAR(counts.precision(), json["precision"], 1e-12) << json;
    ASSERT_NEAR(counts.recall(), json["recall"], 1e-12) << json;
    ASSERT_NEAR(counts.f1(), json["f1"], 1e-12) << json;
  }
}

TEST_F(PublishedScores, OfAnswers) {
  for (const Json& json : cases("answers")) {
    AnswerScores scores(json["version_2"].get<bool>());
    for (const Json& question : json["questions"])
      scores.add(question[0].get<std::string>(), question[1].get<std::vector<std::string>>());
    ASSERT_NEAR(scores.exact_match(), json["exact_match"], 1e-9) << json;
    ASSERT_NEAR(scores.f1(), json["f1"], 1e-9) << json;
  }
}

TEST_F(PublishedScores, OfNumbers) {
  for (const Json& json : cases("numbers")) {
    const auto a = json["a"].get<std::vector<double>>(), b = json["b"].get<std::vector<double>>();
    ASSERT_NEAR(pearson(a, b), json["pearson"], 1e-9) << json;
    ASSERT_NEAR(spearman(a, b), json["spearman"], 1e-9) << json;
  }
}

TEST_F(PublishedScores, OfClasses) {
  for (const Json& json : cases("classes")) {
    ConfusionMatrix matrix(json["classes"].get<int64_t>());
    for (size_t i = 0; i < json["labels"].size(); ++i) matrix.add(json["labels"][i], json["predictions"][i]);
    ASSERT_NEAR(matrix.matthews(), json["matthews"], 1e-9) << json;
    ASSERT_NEAR(matrix.accuracy(), json["f1_micro"], 1e-12) << json;
    ASSERT_NEAR(matrix.scores()[1].f1, json["f1_binary"], 1e-12) << json;
  }
}

}  // namespace
}  // namespace mtf::testing
