#include "data/text/text_reader.h"

#include "data/text/line_reader.h"
#include "data/text/text_scan.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextReading : public TextTest {
 protected:
  static std::vector<std::string> lines(const std::string& path) {
    TextProblems problems;
    LineReader reader(path, problems);
    std::vector<std::string> result;
    while (const auto line = reader.next()) result.emplace_back(*line);
    EXPECT_TRUE(problems.empty());
    return result;
  }

  /// Returns "inputs/targets" for each example; ids are printed as "[1 2]".
  static std::vector<std::string> examples(const TextSourceOptions& options) {
    std::vector<Problem> missing;
    TextProblems problems;
    const TextFiles files = find_text_files(options, {}, missing);
    TextReader reader(files, {}, problems);
    const auto shown = [](const TextField& field) {
      return field.has_ids ? fmt::format("[{}]", fmt::join(field.ids, " ")) : field.text;
    };
    std::vector<std::string> result;
    for (TextExample example; reader.next(example);)
      result.push_back(shown(example.inputs) + "/" + shown(example.targets));
    EXPECT_TRUE(problems.empty() && missing.empty());
    EXPECT_EQ(reader.bytes_read(), reader.bytes());
    return result;
  }

  static std::string scan_failure(const TextSourceOptions& options, BySide<int64_t> sizes = {}) {
    return failure([&] {
      std::vector<Problem> missing;
      const TextFiles files = find_text_files(options, {}, missing);
      if (!missing.empty()) throw Error(missing);
      scan_texts(files, sizes);
    });
  }
};

TEST_F(TextReading, LinesEndWithNewlinesOfEitherKindOrTheFile) {
  EXPECT_THAT(lines(file("a", "one\ntwo\r\n\nthree")), ElementsAre("one", "two", "", "three"));
  EXPECT_THAT(lines(file("b", "one\n")), ElementsAre("one"));
  EXPECT_THAT(lines(file("c", "")), ElementsAre());
  EXPECT_THAT(lines(file("d", "\n")), ElementsAre(""));
  EXPECT_THAT(lines(file("e", "\xef\xbb\xbfmark\nnext")), ElementsAre("mark", "next"));
  EXPECT_THAT(lines(file("f", "\xef\xbb\xbf")), ElementsAre());
  EXPECT_THAT(lines(file("g", "\xef\xbb\xbf\n")), ElementsAre(""));
}

TEST_F(TextReading, LinesLongerThanAnyBufferAndCompressedFiles) {
  const std::string text(3'000'000, 'x');
  EXPECT_THAT(lines(file("a", "short\n" + text + "\n" + text)), ElementsAre("short", text, text));
  EXPECT_THAT(lines(compressed("a.gz", "short\n" + text + "\nend\n")), ElementsAre("short", text, "end"));
}

TEST_F(TextReading, LinesAboveTheLimitEndTheReadingOfTheirFile) {
  const TextLimit limit{.bytes = 10};
  TextProblems problems;
  LineReader reader(file("a", "0123456789\r\n" + std::string(11, 'x') + "\n"), problems, {.bytes = 11});
  EXPECT_EQ(reader.next(), "0123456789");
  EXPECT_EQ(reader.next(), std::string(11, 'x'));
  const std::string long_line = "short\n" + std::string(20'000'000, '\0');
  for (const std::string& path : {file("b", long_line), compressed("b.gz", long_line)}) {
    std::vector<Problem> missing;
    const TextFiles files = find_text_files(text(path), {}, missing, limit);
    EXPECT_EQ(
        failure([&] { scan_texts(files, {}); }),
        path + ": line 2: longer than 10 bytes; a file of shorter texts, or a greater `data.max_line_bytes`");
  }
  std::vector<Problem> missing;
  const TextFiles documents = find_text_files(
      text(file("c", "one\ntwo\n\nthree\nfour\nfive\n"), TextUnit::kDocument), {}, missing, limit);
  EXPECT_THAT(failure([&] { scan_texts(documents, {}); }),
              HasSubstr("c: the document up to line 6: longer than 10 bytes"));
}

TEST_F(TextReading, ObjectsThatAreNestedDeeplyAreRefused) {
  const auto nested = [&](int depth) {
    std::string line = R"({"inputs": "a", "targets": "b", "more": )";
    for (int i = 0; i < depth; ++i) line += '[';
    for (int i = 0; i < depth; ++i) line += ']';
    return line + "}\n";
  };
  JsonlOptions objects;
  objects.path = {{file("deep", nested(900))}};
  EXPECT_THAT(examples(objects), ElementsAre("a/b"));
  objects.path = {{file("deeper", nested(900) + nested(1'000'000))}};
  EXPECT_THAT(scan_failure(objects),
              HasSubstr("deeper: line 2: no valid JSON: lists and objects are nested more than 1000 deep"));
  objects.path = {{file("quoted", R"({"inputs": ")" + std::string(200'000, 'x') + "\n")}};
  EXPECT_LT(scan_failure(objects).size(), 600u) << "the text is not quoted whole";
}

TEST_F(TextReading, PlainTextByLineAndByDocument) {
  const std::string path = file("a", "\none\ntwo\n \n\nthree\n");
  EXPECT_THAT(examples(text(path)), ElementsAre("/one", "/two", "/three"));
  EXPECT_THAT(examples(text(path, TextUnit::kDocument)), ElementsAre("/one\ntwo", "/three"));
  TextOptions as_inputs = text(path);
  as_inputs.as = Side::kInputs;
  EXPECT_THAT(examples(as_inputs), ElementsAre("one/", "two/", "three/"));
}

TEST_F(TextReading, ParallelFilesColumnsAndObjects) {
  EXPECT_THAT(examples(parallel(file("en", "a\n\nb\n"), compressed("de.gz", "A\nX\nB\n"))),
              ElementsAre("a/A", "/X", "b/B"));
  TsvOptions columns = tsv(file("t.tsv", "7\ta\tA\tmore\n8\tb\tB\n"));
  columns.columns = {"id", "inputs", "targets"};
  EXPECT_THAT(examples(columns), ElementsAre("a/A", "b/B"));
  JsonlOptions objects;
  objects.path = {{file("j", R"({"en": "a\n", "de": "A", "n": 1})"
                             "\n"
                             R"({"de": "\u00c4", "en": ""})")}};
  objects.columns = config::Named<std::string>{{"inputs", "en"}, {"targets", "de"}};
  EXPECT_THAT(examples(objects), ElementsAre("a\n/A", "/Ä"));
}

TEST_F(TextReading, GlobsAndListsAreReadInOrder) {
  file("p-2.txt", "b\n"), file("p-1.txt", "a\n"), file("q.txt", "c\n");
  TextOptions options;
  options.path = {{path("q.txt")}, {path("p-*.txt")}};
  EXPECT_THAT(examples(options), ElementsAre("/c", "/a", "/b"));
}

TEST_F(TextReading, TokenIdsOfTensor2TensorAndTensorFlowDatasets) {
  const std::string records =
      tfrecord_frame(example_message({{"inputs", {5, 6, 1, 0, 0}}, {"targets", {-7, 8, 1}}})) +
      tfrecord_frame(example_message({{"targets", {9}}, {"inputs", {}}}));
  EXPECT_THAT(examples(tfrecord(file("t2t", records))), ElementsAre("[5 6 1]/[-7 8 1]", "[]/[9]"));
  TfrecordOptions datasets =
      tfrecord(compressed("tfds.gz", tfrecord_frame(example_message({{"en", {4, 5}}}, {{"de", "Haus"}}))));
  datasets.features = {{"inputs", {StoredText::kIds, "en"}}, {"targets", {StoredText::kText, "de"}}};
  datasets.vocab_shift = 1;
  datasets.append_eos = true;
  EXPECT_THAT(examples(datasets), ElementsAre("[5 6 1]/Haus"));
}

TEST_F(TextReading, LineCountsThatDifferAreSaidOfBothFiles) {
  ParallelOptions two = parallel(file("a.en", "1\n2\n3\n"), file("a.de", "1\n2\n3\n4\n5\n"));
  two.inputs.push_back({file("b.en", "1\n2\n")});
  two.targets.push_back({file("b.de", "1\n")});
  EXPECT_THAT(scan_failure(two), AllOf(HasSubstr("a.en has 3 lines, and " + path("a.de") + " has 5"),
                                       HasSubstr("b.en has 2 lines, and " + path("b.de") + " has 1")));
  two.targets.pop_back();
  EXPECT_THAT(scan_failure(two), HasSubstr("2 files of inputs and 1 of targets"));
}

TEST_F(TextReading, BytesThatAreNoUtf8AreNamedByTheirLinesOfAllFilesAtOnce) {
  std::string many =
      "fine\ngr\xf6\xdf"
      "e\n";
  for (int i = 0; i < 10; ++i) many += "\xff\n";
  const std::string message = scan_failure(parallel(file("a", many), file("b", many)));
  EXPECT_THAT(message,
              AllOf(HasSubstr(path("a") + ": line 2: no UTF-8: byte \\xf6 after 2 characters; the same in "
                                          "lines 3, 4, 5 and 7 more"),
                    HasSubstr(path("b") + ": line 2"), HasSubstr("iconv")));
}

TEST_F(TextReading, FilesOfOtherKindsAreToldByTheirFirstBytes) {
  const auto said = [&](const std::string& bytes) { return scan_failure(text(file("t", bytes))); };
  EXPECT_THAT(said("\x28\xb5\x2f\xfd\n\xff\n"), path("t") +
                                                    ": it is compressed with zstd; unpack it, or compress "
                                                    "it with gzip");
  EXPECT_THAT(said(std::string("\xfd\x37zXZ\0\0\4\n\xff", 10)), HasSubstr("t: it is compressed with xz;"));
  EXPECT_THAT(said("BZh91AY&SY\xff\n"), HasSubstr("t: it is compressed with bzip2;"));
  EXPECT_THAT(said(std::string("\xff\xfeh\0\n\0", 6)),
              AllOf(HasSubstr("t: it is UTF-16;"), HasSubstr("iconv")));
  EXPECT_THAT(said("BZh9 is fine\n\xff\n"), HasSubstr("t: line 2: no UTF-8"));
}

TEST_F(TextReading, BlankLinesBetweenObjectsCountAsThoseOfPlainTexts) {
  JsonlOptions objects;
  objects.path = {{file("j", "{\"targets\": \"a\"}\n\n{\"targets\": \"b\"}\r\n \r\n")}};
  objects.columns = std::vector<std::string>{"targets"};
  EXPECT_THAT(examples(objects), ElementsAre("/a", "/b"));
  std::vector<Problem> missing;
  EXPECT_EQ(scan_texts(find_text_files(objects, {}, missing), {}).blank_lines, 2);
}

TEST_F(TextReading, MissingColumnsKeysAndBadJson) {
  EXPECT_THAT(scan_failure(tsv(file("t", "a\tb\nonly one\nc\td\n"))), HasSubstr("t: line 2: 1 of 2 columns"));
  JsonlOptions objects;
  objects.path = {{file("j",
                        "{\"inputs\": \"a\", \"targets\": \"b\"}\nnothing\n{\"inputs\": \"a\"}\n[]\n"
                        "{\"inputs\": 1, \"targets\": \"b\"}\n{\"inputs\": \"\", \"inputs\": \"\"}\n")}};
  EXPECT_THAT(scan_failure(objects),
              AllOf(HasSubstr("line 2: no valid JSON"), HasSubstr("line 3: `targets` is missing"),
                    HasSubstr("line 4: no JSON object"), HasSubstr("line 5: `inputs` is no text"),
                    HasSubstr("line 6: the key `inputs` occurs twice")));
}

TEST_F(TextReading, IdsOutsideTheVocabularyAndDamagedRecords) {
  const auto record = [](std::vector<int64_t> inputs, std::vector<int64_t> targets) {
    return tfrecord_frame(example_message({{"inputs", inputs}, {"targets", targets}}));
  };
  const std::string good = record({5, 1}, {6, 1});
  EXPECT_THAT(scan_failure(tfrecord(file("r", good + record({5, 1}, {10, 1}))), {10, 10}),
              AllOf(HasSubstr("record 2: id 10 in `targets`"), HasSubstr("from 1 to 9")));
  EXPECT_THAT(scan_failure(tfrecord(file("r", record({5, 0, 1}, {6, 1})))), HasSubstr("id 0 in `inputs`"));
  EXPECT_THAT(scan_failure(tfrecord(file("r", record({-5, 1}, {6, 1})))), HasSubstr("id -5 in `inputs`"));
  EXPECT_THAT(scan_failure(tfrecord(file("r", record({INT64_MIN}, {INT64_MAX})))),
              HasSubstr("record 1: id -9223"));
  EXPECT_THAT(scan_failure(tfrecord(file("r", tfrecord_frame("no message at all")))),
              HasSubstr("no tf.Example"));
  EXPECT_THAT(scan_failure(tfrecord(file("r", tfrecord_frame(example_message({{"en", {1}}}))))),
              AllOf(HasSubstr("no feature `inputs`"), HasSubstr("en")));
  EXPECT_THAT(scan_failure(tfrecord(file("r", good + good.substr(0, good.size() - 1)))),
              HasSubstr("the file ends within"));
}

TEST_F(TextReading, AllFilesThatCannotBeReadAreNamed) {
  TextOptions options = text(path("none"));
  options.path.push_back({"/dev/null"});
  options.path.push_back({path("*.txt")});
  EXPECT_THAT(scan_failure(options),
              AllOf(HasSubstr("there is no file " + path("none")), HasSubstr("/dev/null is no regular file"),
                    HasSubstr("no file matches")));
  const std::string cut = compressed("cut.gz", std::string(1000, 'a') + "\nb\n");
  std::filesystem::resize_file(cut, 12);
  EXPECT_THAT(scan_failure(text(cut)), HasSubstr("cut off"));
  const std::string padded = compressed("padded.gz", "a\nbcd\n");
  std::ofstream(padded, std::ios::binary | std::ios::app) << std::string(5, '\0');
  EXPECT_THAT(scan_failure(text(padded)), HasSubstr("something else follows the 6 bytes"));
  EXPECT_THAT(scan_failure(text(file("blank", "\n \n"))), HasSubstr("blank: there is no text"));
}

TEST_F(TextReading, CountsEmptyTextsAndBlankLines) {
  std::vector<Problem> missing;
  const TextFiles pairs =
      find_text_files(parallel(file("a", "x\n\n \ny\n"), file("b", "x\ny\nz\nw\n")), {}, missing);
  const TextCounts counts = scan_texts(pairs, {});
  EXPECT_EQ(counts.examples, 4);
  EXPECT_EQ(counts.empty, 2);
  EXPECT_EQ(scan_texts(find_text_files(text(path("a")), {}, missing), {}).blank_lines, 2);
}

TEST_F(TextReading, EveryTextIsHandedOutForAVocabulary) {
  std::vector<Problem> missing;
  std::vector<std::string> texts;
  for_each_text(
      find_text_files(parallel(file("a", "x\n\n"), file("b", "y\nz\n")), {}, missing),
      [&](Side side, std::string_view text) { texts.push_back(fmt::format("{} {}", name_of(side), text)); });
  EXPECT_THAT(texts, ElementsAre("inputs x", "targets y", "targets z"));
}

}  // namespace
}  // namespace mtf::testing
