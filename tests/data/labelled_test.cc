// Sources of labelled texts: rows, labels, tags and answers, and the text that tokens stand for.
#include <gmock/gmock.h>

#include <algorithm>

#include "data/labelled/conll.h"
#include "data/labelled/labelled_text.h"
#include "data/labelled/squad.h"
#include "tests/data/data_testing.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabelledTexts : public TextTest {
 protected:
  /// Bytes as tokens: a row shows its end of sequence, which is start and separator, as "|".
  SourceContext context(int64_t length) const {
    SourceContext context;
    context.text = settings(length, length);
    return context;
  }
  std::unique_ptr<Source> open(const SourceOptions& options, int64_t length,
                               const std::optional<std::string>& preparation = {}) const {
    SourceContext opened = context(length);
    opened.preparation = preparation;
    return options.open(opened);
  }
  LabelledTextOptions pairs(const std::string& path) const {
    LabelledTextOptions options;
    options.path = {{path}};
    options.text = "a";
    options.pair = "b";
    options.labels = "label";
    return options;
  }
};

TEST_F(LabelledTexts, PairsBecomeRowsWithClasses) {
  const auto source = open(pairs(file("t.tsv", "a\tb\tlabel\nxy\tz\tyes\nNA\t\"?\"\tno\n")), 10);
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("|xy|z|", "|NA|\"?\"|"));
  EXPECT_THAT(rows_of(*source, "inputs_type")[0], ElementsAre(0, 0, 0, 0, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(rows_of(*source, "inputs_segmentation")[0], ElementsAre(1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(source->class_names(), ElementsAre("no", "yes"));
  EXPECT_THAT(rows_of(*source, "labels"), ElementsAre(ElementsAre(1), ElementsAre(0)));
  expect_boxes_of_the_whole(*source, 0);
  expect_boxes_of_the_whole(*source, 2);
}

TEST_F(LabelledTexts, OneTextWithoutHeaderAndNumbers) {
  LabelledTextOptions options;
  options.path = {{file("t.tsv", "0\tab\t1.5\n1\tcd\t-2\n")}};
  options.header = false;
  options.text = "2";
  options.labels = "1";
  options.targets = {"3"};
  const auto source = open(options, 4);
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("|ab|", "|cd|"));
  EXPECT_THAT(rows_of(*source, "labels"), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(values_of<float>(*source, "y", 1), ElementsAre(-2));
  EXPECT_TRUE(source->class_names().empty());
  EXPECT_THAT(failure([&] { source->check_labels({1}); }),
              HasSubstr("t.tsv:2: column `1`: label 1, but there are 1 classes"));
}

TEST_F(LabelledTexts, TextsAndLabelsMustBeUtf8) {
  const auto refused = [&](const std::string& line) {
    return failure([&] { open(pairs(file("t.tsv", "a\tb\tlabel\nx\ty\tno\n" + line)), 8); },
                   ErrorKind::kData);
  };
  EXPECT_THAT(refused("x\xf6\ty\tno\n"), HasSubstr("t.tsv:3: column `a`: no UTF-8: byte \\xf6"));
  EXPECT_THAT(refused("x\ty\tj\xe4\n"), AllOf(HasSubstr("t.tsv:3: column `label`"), HasSubstr("iconv")));
  const auto unused = pairs(file("t.tsv", "a\tb\tlabel\tGr\xf6n\nx\ty\tno\t\xff\n"));
  EXPECT_THAT(open(unused, 8)->class_names(), ElementsAre("no"));
}

TEST_F(LabelledTexts, KeysThatAreNotUsedMayHoldAnythingAndComeAndGo) {
  const std::string lines = R"({"a": "x", "b": "y", "label": "n", "by": ["n", "n"]}
{"a": "z", "b": null, "label": "p", "note": {"c": 1}}
{"a": "z", "label": "p"})";
  const auto source = open(pairs(file("t.jsonl", lines)), 8);
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("|x|y|", "|z||", "|z||"));
  const auto refused = [&](const std::string& line) {
    return failure([&] { open(pairs(file("t.jsonl", lines + "\n" + line)), 8); }, ErrorKind::kData);
  };
  EXPECT_THAT(refused(R"({"a": "x", "b ": "y", "label": "n"})"),
              HasSubstr("t.jsonl:4: column `b`: a value is missing, and there is a key `b `"));
  EXPECT_THAT(refused(R"({"a": "x", "b": "y"})"), HasSubstr("t.jsonl:4: column `label`: a value is missing"));
  EXPECT_THAT(refused(R"({"a": ["x"], "b": "y", "label": "n"})"),
              HasSubstr("t.jsonl:4: column `a`: a list or an object"));
}

TEST_F(LabelledTexts, TheLongerTextLosesTokensFirst) {
  const auto row = [](std::vector<int32_t> a, std::vector<int32_t> b, int64_t length) {
    return joined_row(std::move(a), std::move(b), {.start = 1, .separator = 2}, length).ids;
  };
  EXPECT_THAT(row({10, 11, 12, 13}, {20}, 7), ElementsAre(1, 10, 11, 12, 2, 20, 2));
  EXPECT_THAT(row({10, 11, 12}, {20, 21, 22}, 8), ElementsAre(1, 10, 11, 12, 2, 20, 21, 2));
  EXPECT_THAT(row({10, 11, 12}, {20, 21, 22}, 7), ElementsAre(1, 10, 11, 2, 20, 21, 2));
  EXPECT_THAT(joined_row({10, 11, 12}, {}, {.start = 1, .separator = 2}, 4).ids, ElementsAre(1, 10, 11, 2));
}

TEST_F(LabelledTexts, ClassesAreThoseOfTheTrainingData) {
  const auto train = open(pairs(file("t.jsonl", R"({"a": "x", "b": "y", "label": "n"}
{"a": "x", "b": "y", "label": "p"})")),
                          8);
  const auto options = pairs(file("d.csv", "a,b,label\nx,y,p\n"));
  EXPECT_THAT(rows_of(*open(options, 8, train->preparation()), "labels"), ElementsAre(ElementsAre(1)));
  const auto wrong = pairs(file("w.csv", "a,b,label\nx,y,q\n"));
  EXPECT_THAT(failure([&] { open(wrong, 8, train->preparation()); }),
              AllOf(HasSubstr("w.csv:2"), HasSubstr("no class `q`"), HasSubstr("`classes` of data.train")));
  // Without names the classes are numbers.
  EXPECT_THAT(failure([&] { open(wrong, 8, ""); }),
              AllOf(HasSubstr("w.csv:2"), HasSubstr("`q` is no whole number; the number of a class")));
}

TEST_F(LabelledTexts, ClassesOfTrainedWeightsAreNotTakenFromOtherData) {
  SourceContext evaluated = context(8);
  evaluated.prepares = false;
  LabelledTextOptions options = pairs(file("d.csv", "a,b,label\nx,y,p\nx,y,n\n"));
  EXPECT_THAT(failure([&] { options.open(evaluated); }, ErrorKind::kConfig),
              AllOf(HasSubstr("the names of the classes of the training data are not known"),
                    HasSubstr("`classes`, in their order")));
  options.classes = {"p", "n"};
  EXPECT_THAT(rows_of(*options.open(evaluated), "labels"), ElementsAre(ElementsAre(0), ElementsAre(1)));
  const auto numbers = pairs(file("n.csv", "a,b,label\nx,y,1\n"));
  EXPECT_THAT(rows_of(*numbers.open(evaluated), "labels"), ElementsAre(ElementsAre(1)));
  ConllOptions tagged;
  tagged.path = {{file("t.conll", "Ada B-PER\n")}};
  EXPECT_THAT(failure([&] { tagged.open(evaluated); }, ErrorKind::kConfig),
              HasSubstr("the names of the tags of the training data"));
  evaluated.preparation = "{\"classes\": [\"O\", \"B-PER\"]}";
  EXPECT_THAT(rows_of(*tagged.open(evaluated), "labels")[0][1], 1);
}

TEST_F(LabelledTexts, MistakesAreNamed) {
  const std::string path = file("t.csv", "a,b,label\nx,y,1\n");
  EXPECT_THAT(failure([&] { open(pairs(path), 2); }), HasSubstr("sequence_length"));
  LabelledTextOptions options = pairs(path);
  options.text = "aa";
  EXPECT_THAT(failure([&] { open(options, 8); }), AllOf(HasSubstr("no column `aa`"), HasSubstr("`a`")));
  options = pairs(path);
  options.special_tokens.start = "[CLS]";
  EXPECT_THAT(failure([&] { open(options, 8); }), HasSubstr("no piece `[CLS]`"));
  SourceContext bare;
  EXPECT_THAT(failure([&] { pairs(path).open(bare); }), HasSubstr("data.sequence_length"));
}

TEST_F(LabelledTexts, TagsStandAtTheFirstTokenOfAWord) {
  ConllOptions options;
  options.path = {{file("t.conll", "-DOCSTART- -X- O\n\nAda NNP B-PER\nis VBZ O\n\nX Y B-LOC\n")}};
  const auto source = open(options, 10);
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("|Ada is|", "|X|"));
  EXPECT_THAT(source->class_names(), ElementsAre("B-LOC", "B-PER", "O"));
  EXPECT_THAT(rows_of(*source, "labels")[0], ElementsAre(-1, 1, -1, -1, 2, -1, -1, -1, -1, -1));
  source->check_labels({3});
}

TEST_F(LabelledTexts, TagsBeyondTheClassesOfTheModelAreNamedWithTheirLine) {
  ConllOptions options;
  options.path = {{file("a.conll", "Ada B-PER\n")}, {file("b.conll", "is O\n\nX B-LOC\nis O\nY X\n")}};
  const auto named = open(options, 10);
  named->check_labels({4});
  EXPECT_THAT(failure([&] { named->check_labels({2}); }),
              HasSubstr("b.conll:1: `O` is label 2, but there are 2 classes; labels from 0 to 1, or 4 "
                        "classes in the model"));
  options.path = {{file("n.conll", "aa 0\nbb 3\n")}};
  EXPECT_THAT(failure([&] { open(options, 10)->check_labels({3}); }),
              HasSubstr("n.conll:2: label 3, but there are 3 classes; labels from 0 to 2, or 4 classes"));
}

TEST_F(LabelledTexts, LongSentencesGoOnInTheNextRow) {
  ConllOptions options;
  options.path = {{file("t.conll", "aa 0\nbb 1\ncc 2\ndddddddddd 3\n")}};
  options.tag = 2;
  const auto source = open(options, 8);
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("|aa bb|", "| cc|", "| ddddd|"));
  const auto& conll = dynamic_cast<const ConllSource&>(*source);
  EXPECT_EQ(conll.row(1).sentence, 0);
  EXPECT_EQ(conll.row(1).tokens[0].word, 2);
  EXPECT_EQ(rows_of(*source, "labels")[2][1], 3);
}

std::vector<std::string> names_of(const std::vector<Feature>& features) {
  std::vector<std::string> names;
  for (const Feature& feature : features) names.push_back(feature.name);
  return names;
}

TEST_F(LabelledTexts, OnlyRowsOfPairsHaveTwoTypes) {
  const auto has_one = [](const Source& source) {
    return std::ranges::find(source.features(), "inputs_type", &Feature::name)->one_text;
  };
  const std::string table = file("t.tsv", "a\tb\tlabel\nxy\tz\tyes\nNA\tw\tno\n");
  LabelledTextOptions options = pairs(table);
  EXPECT_FALSE(has_one(*open(options, 10)));
  EXPECT_FALSE((*options.declared_features({10, 0}, {259, 0}))[2].one_text);
  options.pair = {};
  EXPECT_TRUE(has_one(*open(options, 10)));
  EXPECT_TRUE((*options.declared_features({10, 0}, {259, 0}))[2].one_text);
  EXPECT_TRUE(has_one(*open_sentences({{"Ada", "is"}}, {}, context(10))));
  SquadOptions questions;
  questions.max_question = 5;
  EXPECT_FALSE(has_one(*open_questions({{"who", ""}}, questions, context(10))));
}

TEST_F(LabelledTexts, ExamplesToPredictForNeedNoLabels) {
  SourceContext bare = context(10);
  bare.labelled = false;
  bare.preparation = "{\"classes\": [\"n\", \"p\"]}";
  const auto texts = pairs(file("t.csv", "b,a\ny,x\n")).open(bare);
  EXPECT_THAT(names_of(texts->features()), ElementsAre("inputs", "inputs_segmentation", "inputs_type"));
  EXPECT_THAT(texts_of(*texts, "inputs"), ElementsAre("|x|y|"));
  EXPECT_THAT(texts->class_names(), ElementsAre("n", "p"));
  EXPECT_THAT(texts_of(*open_texts({"x", ""}, {"y", "z"}, {}, bare), "inputs"), ElementsAre("|x|y|", "||z|"));
  EXPECT_THAT(texts_of(*open_texts({"xyz"}, {}, {}, bare), "inputs"), ElementsAre("|xyz|"));

  ConllOptions words;
  words.path = {{file("w.conll", "Ada\nis\n\nX\n")}};
  const auto sentences = words.open(bare);
  EXPECT_THAT(texts_of(*sentences, "inputs"), ElementsAre("|Ada is|", "|X|"));
  EXPECT_THAT(names_of(sentences->features()), ElementsAre("inputs", "inputs_segmentation", "inputs_type"));
  EXPECT_THAT(sentences->class_names(), ElementsAre("n", "p"));
  sentences->check_labels({1});
  EXPECT_THAT(texts_of(*open_sentences({{"Ada", "is"}, {}}, {}, bare), "inputs"),
              ElementsAre("|Ada is|", "||"));

  SquadOptions options;
  options.max_question = 5;
  const auto asked = open_questions({{"when", "in May"}, {"who", ""}}, options, bare);
  EXPECT_THAT(names_of(asked->features()),
              ElementsAre("inputs", "inputs_segmentation", "inputs_type", "answer_mask"));
  EXPECT_THAT(texts_of(*asked, "inputs"), ElementsAre("|when|in |", "|when|May|", "|who||"));
  EXPECT_THAT(rows_of(*asked, "answer_mask")[0], ElementsAre(1, 0, 0, 0, 0, 0, 1, 1, 1, 0));
}

TEST_F(LabelledTexts, TrainingNeedsLabels) {
  LabelledTextOptions options = pairs(file("t.csv", "a,b\nx,y\n"));
  options.labels = {};
  EXPECT_THAT(failure([&] { open(options, 8); }), HasSubstr("without `labels` and `targets`"));
}

TEST_F(LabelledTexts, FilesAreReadByTheirNames) {
  LabelledTextOptions texts;
  EXPECT_TRUE(texts.read_from({"a.csv.gz"}));
  EXPECT_FALSE(texts.read_from({"a.txt"}));
  EXPECT_THAT(texts.path, ElementsAre(config::Path{"a.csv.gz"}));
  EXPECT_TRUE(ConllOptions().read_from({"a.conll"}));
  EXPECT_FALSE(ConllOptions().read_from({"a.txt"}));
  EXPECT_TRUE(SquadOptions().read_from({"a.json"}));
  EXPECT_FALSE(SquadOptions().read_from({"a.jsonl"}));
}

TEST_F(LabelledTexts, WordsOfATextKeepTheirPlaces) {
  std::vector<std::string> words;
  const std::string text = "Dr. Größe,  $5\t東京 (x)";
  for (const WordSpan& word : words_of(text))
    words.push_back((word.after_blank ? "_" : "") + text.substr(word.begin, word.end - word.begin));
  EXPECT_THAT(words, ElementsAre("Dr", ".", "_Größe", ",", "_$", "5", "_東", "京", "_(", "x", ")"));
}

constexpr const char* kQuestions = R"({"version": "v2.0", "data": [{"title": "t", "paragraphs": [{
  "context": "Größe is 5. It was built in 1889, they say.", "qas": [
    {"id": "a", "question": "when", "answers": [{"text": "1889", "answer_start": 28}]},
    {"id": "b", "question": "who", "is_impossible": true, "answers": []},
    {"id": "c", "question": "what", "answers": [{"text": "size", "answer_start": 1}]}]}]}]})";

TEST_F(LabelledTexts, AnswersAreTokensOfTheirText) {
  SquadOptions options;
  options.path = {{file("q.json", kQuestions)}};
  options.max_question = 8;
  options.stride = 16;
  const auto source = open(options, 30);
  const auto& squad = dynamic_cast<const SquadSource&>(*source);
  ASSERT_EQ(squad.questions().size(), 3u);
  const std::vector<std::string> texts = texts_of(*source, "inputs");
  EXPECT_EQ(texts[0], "|when|Größe is 5. It was bu|");
  int64_t answered = 0;
  for (int64_t row = 0; row < source->examples(); ++row) {
    const int32_t start = values_of<int32_t>(*source, "answer_start", row)[0];
    const int32_t end = values_of<int32_t>(*source, "answer_end", row)[0];
    const SquadWindow& window = squad.window(row);
    if (start == 0) continue;
    ++answered;
    EXPECT_EQ(window.question, 0);
    const SquadContext& of = squad.context(squad.questions()[0]);
    EXPECT_EQ(of.part(start - window.offset + window.begin, end - window.offset + window.begin), "1889");
    EXPECT_EQ(values_of<int32_t>(*source, "answer_mask", row)[static_cast<size_t>(start)], 1);
  }
  EXPECT_GT(answered, 0);
  EXPECT_FALSE(squad.questions()[2].start);
  EXPECT_EQ(squad.context(squad.questions()[0]).character(8),
            6);  // "is": ö and ß are characters of two bytes
  EXPECT_EQ(prepared_unanswerable(source->preparation()), true);
  EXPECT_EQ(prepared_unanswerable("{\"classes\": []}"), std::nullopt);
}

TEST_F(LabelledTexts, AnswersThatAreNotAtTheirPlaceAreCounted) {
  const auto notes = [&](const std::vector<std::string>& answers) {
    std::string questions;
    for (const std::string& answer : answers)
      questions += fmt::format(R"({}{{"id": "q", "question": "who", "answers": [{{"text": "cat"{}}}]}})",
                               questions.empty() ? "" : ", ", answer);
    SquadOptions options;
    options.path = {{file(
        "q.json", fmt::format(R"({{"data": [{{"paragraphs": [{{"context": "The cat.", "qas": [{}]}}]}}]}})",
                              questions))}};
    options.max_question = 8;
    SourceContext noting = context(30);
    std::string lines;
    noting.note = [&](const std::string& line) { lines += line; };
    options.open(noting);
    return lines;
  };
  EXPECT_EQ(notes({R"(, "answer_start": 4)"}), "");
  EXPECT_EQ(notes({R"(, "answer_start": 4)", R"(, "answer_start": 500)"}),
            "1 question trained on as if there were no answer: the first one is not in the text at its "
            "`answer_start`");
  EXPECT_THAT(notes({"", R"(, "answer_start": -1)", R"(, "answer_start": 3)"}),
              HasSubstr("3 questions trained on"));
}

TEST_F(LabelledTexts, EachTokenHasMostContextInOneWindow) {
  for (const int64_t tokens : {0, 1, 10, 11, 37, 100}) {
    std::vector<int> counts(static_cast<size_t>(tokens), 0);
    for (const SquadWindow& window : windows_of(tokens, 10, 4)) {
      for (int64_t i = 0; i < window.count; ++i)
        counts[static_cast<size_t>(window.begin + i)] += window.has_most_context[static_cast<size_t>(i)];
    }
    EXPECT_THAT(counts, ::testing::Each(1)) << tokens;
  }
}

TEST_F(LabelledTexts, FilesThatAreNoQuestionsAreNamed) {
  SquadOptions options;
  options.path = {{file("q.json", "{\"data\": [{}]}")}};
  EXPECT_THAT(failure([&] { open(options, 100); }), AllOf(HasSubstr("q.json"), HasSubstr("paragraphs")));
  options.path = {{file("q.json", kQuestions)}};
  EXPECT_THAT(failure([&] { open(options, 60); }), HasSubstr("max_question"));
}

}  // namespace
}  // namespace mtf::testing
