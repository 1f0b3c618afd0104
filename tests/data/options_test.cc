#include "data/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/paths.h"
#include "engine/config/load.h"

namespace mtf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Options from YAML text; the errors as text.
template <class Options>
Options parse(const std::string& yaml, std::string* errors = nullptr) {
  Diagnostics diagnostics;
  const config::Node node = config::parse_yaml(yaml, "test.yaml", diagnostics);
  const Options options = config::parse<Options>(node, diagnostics);
  std::string text;
  for (const Problem& problem : diagnostics.errors()) text += problem.to_string() + "\n";
  if (errors) {
    *errors = text;
  } else {
    EXPECT_EQ(text, "");
  }
  return options;
}

std::string data_error(const std::string& yaml) {
  std::string errors;
  parse<DataOptions>(yaml, &errors);
  return errors;
}

TEST(DataOptions, IdentitySource) {
  const auto options =
      parse<DataOptions>("train: {type: identity, size: 8, examples: 100, dimension: pixels}\nseed: 3");
  EXPECT_TRUE(options.shuffle);
  EXPECT_EQ(options.seed, 3);
  const auto source = make_source(*options.train, 3);
  EXPECT_EQ(source->examples(), 100);
  EXPECT_EQ(source->features()[0], (Feature{"x", Shape{{"pixels", 8}}, DType::kFloat32}));
  EXPECT_EQ(source->features()[1].name, "y");
}

TEST(DataOptions, IdxSourceTakesAPathOrAList) {
  const auto one = parse<DataOptions>("train: {type: idx, images: a, labels: b}");
  EXPECT_EQ(std::get<IdxOptions>(*one.train).images.size(), 1u);
  const auto two = parse<DataOptions>("train: {type: idx, images: [a, b], labels: [c, d]}");
  EXPECT_EQ(std::get<IdxOptions>(*two.train).labels.size(), 2u);
}

TEST(DataOptions, MistakesAreNamedAtTheirPlace) {
  EXPECT_THAT(data_error("train: {type: idx, images: a}"), HasSubstr("labels"));
  EXPECT_THAT(data_error("train: {type: identity, sise: 8}"), AllOf(HasSubstr("sise"), HasSubstr("size")));
  EXPECT_THAT(data_error("train: {type: identity, size: 0}"), HasSubstr("test.yaml:1:31"));
  EXPECT_THAT(data_error("train: {type: idxx}"), HasSubstr("idx"));
}

TEST(DataOptions, SourcesAndKeysThatComeLaterSaySo) {
  for (const char* type : {"text", "parallel", "tsv", "jsonl", "tfrecord", "volumes", "images", "npy"})
    EXPECT_THAT(data_error(std::string("train: {type: ") + type + ", path: x}"),
                AllOf(HasSubstr(type), HasSubstr("test.yaml:1:15")));
  EXPECT_THAT(data_error("sequence_length: 512"), HasSubstr("sequence_length"));
}

TEST(DataOptions, MissingFilesAreReportedTogetherAtTheirPaths) {
  const auto options = parse<DataOptions>("train: {type: idx, images: /absent/i, labels: /absent/l}");
  try {
    make_source(*options.train, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("test.yaml:1:28: there is no file /absent/i"),
                                    HasSubstr("test.yaml:1:47: there is no file /absent/l")));
  }
}

TEST(EvaluationSource, HasTheKeysOfTheSourceAndItsOwn) {
  const auto options =
      parse<EvaluationSourceOptions>("{type: identity, size: 4, metrics: [loss, accuracy], limit: 10}");
  EXPECT_EQ(std::get<IdentityOptions>(source_of(options)).size, 4);
  EXPECT_THAT(metrics_of(options), ElementsAre("loss", "accuracy"));
  EXPECT_EQ(limit_of(options), 10);
  std::string errors;
  parse<EvaluationSourceOptions>("{type: parallel, inputs: a, targets: b, metrics: [bleu]}", &errors);
  EXPECT_THAT(errors, HasSubstr("parallel"));
}

TEST(Paths, GlobsGiveTheirMatchesSortedByName) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "GlobsGiveTheirMatches";
  std::filesystem::create_directories(directory);
  for (const char* name : {"b.idx", "a.idx", "c.txt", "[1].idx"}) std::ofstream(directory / name) << "x";
  const auto path = [&](const char* name) { return (directory / name).string(); };
  std::vector<Problem> problems;
  EXPECT_THAT(find_files({{path("c.txt")}, {path("?.idx")}}, problems),
              ElementsAre(path("c.txt"), path("a.idx"), path("b.idx")));
  EXPECT_THAT(find_files({{path("[1].idx")}}, problems), ElementsAre(path("[1].idx")));
  EXPECT_EQ(problems.size(), 0u);
  EXPECT_THAT(find_files({{path("*.gz")}, {path("absent")}, {directory.string()}}, problems),
              testing::IsEmpty());
  EXPECT_EQ(problems.size(), 3u);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace mtf
