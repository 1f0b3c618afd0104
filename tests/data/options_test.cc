#include "data/sources/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "data/paths.h"
#include "engine/config/load.h"
#include "tests/support/failure.h"
#include "tests/support/problem_texts.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Parses options from YAML; `errors` receives the errors as text.
template <class Options>
Options parse(const std::string& yaml, std::string* errors = nullptr) {
  Diagnostics diagnostics;
  const config::Node node = config::parse_yaml(yaml, "test.yaml", diagnostics);
  const Options options = config::parse<Options>(node, diagnostics);
  const std::string text = lines_of(diagnostics.errors());
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
  const auto source = open_sources(*options.train, {.seed = 3});
  EXPECT_EQ(source->examples(), 100);
  EXPECT_EQ(source->features()[0], (Feature{"x", Shape{{"pixels", 8}}, DType::kFloat32}));
  EXPECT_EQ(source->features()[1].name, "y");
}

TEST(DataOptions, TextsWithAnInputsPart) {
  const auto options = parse<DataOptions>(R"(
train:
  text: {type: text, path: a}
  pairs: {type: tsv, path: a}
  joined: {type: tsv, path: a, as: targets}
  spans: {type: text, path: a, objective: {type: span_corruption, as: targets}}
  prefix: {type: text, path: a, objective: {type: prefix_lm, as: targets}}
  mixture: {type: text, path: a, objective: {type: ul2, as: targets}}
  middle: {type: text, path: a, objective: {type: fill_in_the_middle}}
  spans_of_pairs: {type: tsv, path: a, as: targets, objective: {type: span_corruption, as: targets}}
  ids: {type: tfrecord, path: a, features: {targets: ids}}
  joined_ids: {type: tfrecord, path: a, as: targets}
vocabulary: bytes
sequence_length: 64
)");
  std::map<std::string, std::optional<bool>> found;
  for (const NamedTexts& texts : training_texts(*options.train))
    found[texts.key] = has_inputs_part(texts.source);
  EXPECT_EQ(found, (std::map<std::string, std::optional<bool>>{{"data.train.text", false},
                                                               {"data.train.pairs", false},
                                                               {"data.train.joined", true},
                                                               {"data.train.spans", true},
                                                               {"data.train.prefix", true},
                                                               {"data.train.mixture", true},
                                                               {"data.train.middle", false},
                                                               {"data.train.spans_of_pairs", false},
                                                               {"data.train.ids", std::nullopt},
                                                               {"data.train.joined_ids", true}}));
}

TEST(DataOptions, SamplingSuitsTheVocabularyAndTheTexts) {
  const auto error = [](const std::string& source,
                        const std::string& vocabulary = "{type: sentencepiece, size: 100}") {
    return data_error(fmt::format("train: {}\nsequence_length: 8\nvocabulary: {}\n", source, vocabulary));
  };
  const std::string pairs = "{type: parallel, inputs: a, targets: b, sampling: ";
  EXPECT_EQ(error(pairs + "{alpha: 0.1}}"), "");
  EXPECT_EQ(error(pairs + "{alpha: {inputs: 0.1, targets: 0.2}}}"), "");
  EXPECT_EQ(error(pairs + "{dropout: 0.1}}", "{type: sentencepiece, size: 100, model: bpe}"), "");
  EXPECT_EQ(error(pairs + "{alpha: 0.1}}", "{type: sentencepiece, path: a.model}"),
            "");  // its kind is in the file
  EXPECT_THAT(error(pairs + "{dropout: 0.1}}"),
              HasSubstr("`dropout` is for byte pairs, and the vocabulary of `inputs`"));
  EXPECT_EQ(error(pairs + "{alpha: 0.1}}", "{type: hugging_face, path: a.json, end: x}"), "");  // likewise
  EXPECT_THAT(error(pairs + "{alpha: 0.1}}", "{type: sentencepiece, size: 100, model: bpe}"),
              HasSubstr("`alpha` is for unigram models"));
  EXPECT_THAT(error(pairs + "{alpha: 0.1}}", "bytes"), HasSubstr("no segmentations can be drawn"));
  EXPECT_THAT(error(pairs + "{}}"), HasSubstr("neither `alpha` nor `dropout`"));
  EXPECT_THAT(error(pairs + "{alpha: 0.1, dropout: {targets: 0.1}}}"),
              HasSubstr("both given for one vocabulary"));
  EXPECT_THAT(error(pairs + "{alpha: {target: 0.1}}}"), HasSubstr("there is no feature `target` of texts"));
  EXPECT_THAT(error(pairs + "{alpha: 0}}"), HasSubstr("greater than 0"));
  EXPECT_THAT(error("{type: text, path: a, sampling: {alpha: {inputs: 0.1}}}"),
              HasSubstr("the rows have no `inputs`"));
  EXPECT_THAT(error("{type: text, path: a, sampling: {dropout: {inputs: 0.1, targets: 0.1}}}", "bytes"),
              HasSubstr("the rows have no `inputs`"));
  EXPECT_THAT(error("{type: parallel, inputs: a, targets: b, alignments: c, sampling: {alpha: 0.1}}"),
              HasSubstr("the words of `alignments` are not found"));
  EXPECT_THAT(error("{type: tfrecord, path: a, features: {targets: ids}, sampling: {alpha: 0.1}}"),
              HasSubstr("`targets` are token ids"));
}

TEST(DataOptions, NamesOfClassesDiffer) {
  const std::string idx = "train: {type: idx, images: a, labels: b, class_names: ";
  EXPECT_EQ(data_error(idx + "[a, b, c]}"), "");
  EXPECT_THAT(data_error(idx + "[a, b, b]}"),
              HasSubstr("`class_names`: classes 1 and 2 are both called `b`"));
  EXPECT_THAT(data_error(idx + "[a, '']}"), HasSubstr("`class_names`: class 1 has no name"));
  EXPECT_THAT(data_error("train: {type: table, path: t.csv, labels: k, classes: [a, a]}"),
              HasSubstr("`classes`: classes 0 and 1 are both called `a`"));
}

TEST(DataOptions, IdxSourceTakesAPathOrAList) {
  const auto one = parse<DataOptions>("train: {type: idx, images: a, labels: b}");
  auto train = *one.train;
  EXPECT_EQ(paths_of(train).size(), 2u);
  const auto two = parse<DataOptions>("train: {type: idx, images: [a, b], labels: [c, d]}");
  train = *two.train;
  EXPECT_EQ(paths_of(train).size(), 4u);
}

TEST(DataOptions, MistakesAreNamedAtTheirPlace) {
  EXPECT_THAT(data_error("train: {type: identity, sise: 8}"), AllOf(HasSubstr("sise"), HasSubstr("size")));
  EXPECT_THAT(data_error("train: {type: identity, size: 0}"), HasSubstr("test.yaml:1:31"));
  EXPECT_THAT(data_error("train: {type: idxx}"), HasSubstr("idx"));
}

TEST(DataOptions, SourcesThatComeLaterSaySo) {
  for (const char* type : {"volumes", "dicom"})
    EXPECT_THAT(data_error(std::string("train: {type: ") + type + ", path: x}"),
                AllOf(HasSubstr(type), HasSubstr("test.yaml:1:15")));
}

TEST(DataOptions, SourcesOfText) {
  const std::string shared = "\nsequence_length: 64\nvocabulary: bytes";
  const auto text = parse<DataOptions>("train: {type: text, path: [a, b], join: document}" + shared);
  EXPECT_EQ(std::get<SourceChoice>(*text.train).get_if<TextOptions>()->path.size(), 2u);
  EXPECT_EQ(std::get<SourceChoice>(*text.train).get_if<TextOptions>()->join, TextUnit::kDocument);
  const auto tsv =
      parse<DataOptions>("train: {type: tsv, path: a, columns: [_, targets, inputs], as: targets}" + shared);
  EXPECT_THAT(sides_in_rows(*text_source(std::get<SourceChoice>(*tsv.train))), ElementsAre(Side::kTargets));
  const auto jsonl =
      parse<DataOptions>("train: {type: jsonl, path: a, columns: {inputs: en, targets: de}}" + shared);
  EXPECT_EQ(std::get<SourceChoice>(*jsonl.train).get_if<JsonlOptions>()->columns.index(), 1u);
  const auto records = parse<DataOptions>(
      "train: {type: tfrecord, path: a, features: {inputs: ids, targets: {kind: text, key: de}}, "
      "vocab_shift: 1}" +
      shared);
  const auto& features = std::get<SourceChoice>(*records.train).get_if<TfrecordOptions>()->features;
  EXPECT_EQ(features.find("inputs")->kind, StoredText::kIds);
  EXPECT_EQ(features.find("targets")->key, "de");
}

TEST(DataOptions, LengthsAndRulesOfTexts) {
  const auto options = parse<DataOptions>(
      "train: {type: parallel, inputs: a, targets: b}\nsequence_length: {inputs: 64, targets: 80}\n"
      "vocabulary: bytes\npacking: reference\nfilter: {max_length: 50, max_ratio: 3, too_long: cut}\ncache: "
      "/c");
  const TextSettings settings = text_settings(options, {});
  EXPECT_EQ(settings.lengths, (BySide<int64_t>{64, 80}));
  EXPECT_EQ(settings.packing, Packing::kReference);
  EXPECT_EQ(settings.filter.max_length, 50);
  EXPECT_EQ(settings.cache, "/c");
  const auto features = declared_features(*options.train, settings.lengths, {100, 200});
  ASSERT_EQ(features->size(), 6u);
  EXPECT_EQ((*features)[3], (Feature{"targets", Shape{{"length", 80}}, DType::kInt32, 200}));
}

TEST(DataOptions, WhatTextsLackIsSaid) {
  const std::string pairs = "train: {type: parallel, inputs: a, targets: b}\n";
  EXPECT_THAT(data_error(pairs + "vocabulary: bytes"), HasSubstr("`data.sequence_length` is missing"));
  EXPECT_THAT(data_error(pairs + "sequence_length: 8"), HasSubstr("`data.vocabulary` is missing"));
  EXPECT_THAT(data_error(pairs + "vocabulary: bytes\nsequence_length: {inputs: 8}"),
              HasSubstr("no number for `targets`"));
  EXPECT_THAT(data_error(pairs + "vocabulary: bytes\nsequence_length: {inputs: 8, target: 8}"),
              AllOf(HasSubstr("no feature `target`"), HasSubstr("did you mean `targets`")));
  EXPECT_THAT(data_error(pairs + "vocabulary: bytes\nsequence_length: 8\nfilter: {too_long: split}"),
              HasSubstr("pairs of texts cannot be split"));
  EXPECT_THAT(data_error("train: {type: tsv, path: a, columns: [en, de]}"),
              HasSubstr("neither `inputs` nor `targets`"));
  EXPECT_THAT(data_error("train: {type: tsv, path: a, columns: [targets], as: targets}"),
              HasSubstr("no pairs to be joined"));
  EXPECT_THAT(data_error("train: {type: tfrecord, path: a, features: {input: ids}}"),
              HasSubstr("no feature `input`"));
}

TEST(DataOptions, SeveralSourcesByName) {
  const auto options = parse<DataOptions>(
      "train: {one: {type: identity, examples: 30, weight: 2}, two: {type: identity, examples: 10}}");
  const auto source = open_sources(*options.train, {});
  EXPECT_EQ(source->examples(), 40);
  EXPECT_LT(source->stream_example(0, 1), 40);
  EXPECT_THAT(data_error("train: {one: {type: identity, size: 4}, two: {type: idx}}"), HasSubstr("images"));
  EXPECT_THAT(data_error("train: {path: a}"), HasSubstr("needs a `type`"));
  EXPECT_THAT(data_error("train: {one: {type: identity, weight: 0}}"), HasSubstr("weight"));
  const auto different =
      parse<DataOptions>("train: {one: {type: identity, size: 4}, two: {type: identity, size: 5}}");
  EXPECT_THAT(failure([&] { open_sources(*different.train, {}); }, ErrorKind::kData),
              HasSubstr("x float32 [io=4], y float32 [io=4] and x float32 [io=5], y float32 [io=5]"));
  auto copy = options;
  EXPECT_THAT(paths_of(*copy.train), ::testing::IsEmpty());
}

TEST(DataOptions, MissingFilesAreReportedTogetherAtTheirPaths) {
  const auto options = parse<DataOptions>("train: {type: idx, images: /absent/i, labels: /absent/l}");
  try {
    open_sources(*options.train, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);  // an error of the configuration
    EXPECT_THAT(error.what(), AllOf(HasSubstr("test.yaml:1:28: there is no file /absent/i"),
                                    HasSubstr("test.yaml:1:47: there is no file /absent/l")));
  }
}

TEST(EvaluationSource, HasTheKeysOfTheSourceAndItsOwn) {
  const auto options =
      parse<EvaluationSourceOptions>("{type: identity, size: 4, metrics: [loss, accuracy], limit: 10}");
  EXPECT_EQ(options.choice.type(), "identity");
  EXPECT_THAT(options.extra.metrics, ElementsAre(::testing::VariantWith<std::string>("loss"),
                                                 ::testing::VariantWith<std::string>("accuracy")));
  EXPECT_EQ(options.extra.limit, 10);
  auto texts = parse<EvaluationSourceOptions>("{type: parallel, inputs: a, targets: b, references: [c, d]}");
  EXPECT_EQ(texts.extra.references.size(), 2u);
  EXPECT_EQ(paths_of(texts).size(), 4u);
  std::string errors;
  parse<EvaluationSourceOptions>("{type: identity, references: a}", &errors);
  EXPECT_THAT(errors, HasSubstr("references"));
}

TEST(Paths, GlobsGiveTheirMatchesSortedByName) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "GlobsGiveTheirMatches";
  std::filesystem::create_directories(directory);
  for (const char* name : {"b.idx", "a.idx", "c.txt", "[1].idx"}) std::ofstream(directory / name) << "x";
  const auto path = [&](const char* name) { return (directory / name).string(); };
  std::vector<Problem> problems;
  EXPECT_THAT(find_files({{path("c.txt")}, {path("?.idx")}}, problems),
              ElementsAre(path("c.txt"), path("a.idx"), path("b.idx")));
  EXPECT_THAT(find_files({{path("[1].idx")}}, problems), ElementsAre(path("[1].idx")));
  EXPECT_EQ(problems.size(), 0u);
  EXPECT_THAT(find_files({{path("*.gz")}, {path("absent")}, {directory.string()}}, problems),
              ::testing::IsEmpty());
  EXPECT_EQ(problems.size(), 3u);
  std::filesystem::remove_all(directory);
}

TEST(DataOptions, AnObjectiveSaysWhichLengthsItsRowsNeed) {
  const auto errors = [](const std::string& objective, const std::string& lengths) {
    return data_error("train: {type: text, path: a, objective: {" + objective +
                      "}}\nvocabulary: {type: bytes, extra_ids: 100}\nsequence_length: {" + lengths + "}");
  };
  EXPECT_EQ(errors("type: span_corruption", "inputs: 64"), "");
  EXPECT_EQ(errors("type: span_corruption, as: targets", "targets: 64"), "");
  EXPECT_EQ(errors("type: masked_lm", "inputs: 64"), "");
  EXPECT_EQ(errors("type: fill_in_the_middle", "targets: 64"), "");
  EXPECT_EQ(errors("type: ul2", "inputs: 64, targets: 64"), "");
  EXPECT_THAT(errors("type: span_corruption", "targets: 64"),
              HasSubstr("`data.sequence_length` has no number for `inputs`"));
  EXPECT_THAT(errors("type: prefix_lm", "inputs: 64"),
              HasSubstr("`data.sequence_length` has no number for `targets`"));
}

}  // namespace
}  // namespace mtf
