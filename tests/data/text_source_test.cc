#include "data/text/text_source.h"

#include <random>

#include "data/loader.h"
#include "data/text/evaluation_texts.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "engine/base/json.h"
#include "tests/data/library_model.h"
#include "tests/data/made_up_texts.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using TextRows = TextTest;

TEST_F(TextRows, UnpackedRowsHaveSegmentOneOnTheirTokens) {
  const auto source = make_text_source(parallel(file("en", "ab\n"), file("de", "c\n")), settings(5, 3));
  ASSERT_EQ(source->features().size(), 6u);
  EXPECT_EQ(source->features()[0], (Feature{"inputs", Shape{{"length", 5}}, DType::kInt32, 259}));
  EXPECT_EQ(source->features()[5], (Feature{"targets_position", Shape{{"length", 3}}, DType::kInt32}));
  EXPECT_THAT(rows_of(*source, "inputs"), ElementsAre(ElementsAre('a' + 3, 'b' + 3, 1, 0, 0)));
  EXPECT_THAT(rows_of(*source, "inputs_segmentation"), ElementsAre(ElementsAre(1, 1, 1, 0, 0)));
  EXPECT_THAT(rows_of(*source, "inputs_position"), ElementsAre(ElementsAre(0, 1, 2, 0, 0)));
  EXPECT_THAT(rows_of(*source, "targets"), ElementsAre(ElementsAre('c' + 3, 1, 0)));
  EXPECT_THAT(rows_of(*source, "targets_segmentation"), ElementsAre(ElementsAre(1, 1, 0)));
}

TEST_F(TextRows, PackedRowsNumberTheirExamples) {
  const auto source = make_text_source(parallel(file("en", "ab\nc\n"), file("de", "C\nDE\n")),
                                       settings(6, 5, Packing::kDense));
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("ab|c|"));
  EXPECT_THAT(rows_of(*source, "inputs_segmentation"), ElementsAre(ElementsAre(1, 1, 1, 2, 2, 0)));
  EXPECT_THAT(rows_of(*source, "inputs_position"), ElementsAre(ElementsAre(0, 1, 2, 0, 1, 0)));
  EXPECT_THAT(rows_of(*source, "targets_segmentation"), ElementsAre(ElementsAre(1, 1, 2, 2, 2)));
  EXPECT_THAT(rows_of(*source, "targets_position"), ElementsAre(ElementsAre(0, 1, 0, 1, 2)));
}

TEST_F(TextRows, PartsOfARowAreThoseOfTheWhole) {
  const auto source = make_text_source(text(file("t", "ab\nc\ndef\n")), settings(0, 12, Packing::kDense));
  const int64_t row = 0;
  for (int64_t begin = 0; begin < 12; ++begin) {
    for (int64_t count = 1; begin + count <= 12; ++count) {
      const Box box{{begin}, {{"length", count}}};
      std::vector<std::vector<int32_t>> parts(3, std::vector<int32_t>(static_cast<size_t>(count)));
      std::vector<FeatureSlice> slices;
      for (auto& part : parts) slices.push_back({reinterpret_cast<std::byte*>(part.data()), &box});
      source->read({&row, 1}, slices);
      for (size_t f = 0; f < 3; ++f) {
        const std::vector<int32_t> whole = rows_of(*source, source->features()[f].name)[0];
        EXPECT_EQ(parts[f], std::vector<int32_t>(whole.begin() + begin, whole.begin() + begin + count));
      }
    }
  }
}

TEST_F(TextRows, JoinedPairsAreTargetsAlone) {
  // Inputs and targets are joined to one text of targets: [8 7 1] + [4 1].
  ParallelOptions joined = parallel(file("en", "ab\nc\n\n"), file("de", "C\nDE\nX\n"));
  joined.as = PairsAs::kTargets;
  const auto source = make_text_source(joined, settings(0, 12, Packing::kReference));
  ASSERT_EQ(source->features().size(), 3u);
  EXPECT_THAT(texts_of(*source, "targets"), ElementsAre("ab|C|c|DE|"));
  EXPECT_THAT(rows_of(*source, "targets_segmentation"),
              ElementsAre(ElementsAre(1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0)));
  EXPECT_THAT(rows_of(*source, "targets_position"),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 0)));
  EXPECT_EQ(source->report().empty, 1);
}

TEST_F(TextRows, JoinedPairsAreNeverSplitUnasked) {
  ParallelOptions joined = parallel(file("en", "ab\ncdef\n"), file("de", "C\nDEF\n"));
  joined.as = PairsAs::kTargets;
  TextSettings how = settings(0, 6, Packing::kDense);
  EXPECT_THAT(texts_of(*make_text_source(joined, how), "targets"), ElementsAre("ab|C|"));
  how.purpose = TextPurpose::kEvaluation;
  EXPECT_THAT(texts_of(*make_text_source(joined, how), "targets"), ElementsAre("ab|C|", "cdef||"));
}

TEST_F(TextRows, JoinedPairsWhoseTargetsWouldBeCutOffAreDropped) {
  // Of the second pair the cut would leave the inputs, of the third an end of sequence behind them.
  ParallelOptions joined = parallel(file("en", "ab\ncdefghi\ncdef\ncde\n"), file("de", "C\nX\nXYZ\nXYZ\n"));
  joined.as = PairsAs::kTargets;
  const auto open = [&](Packing packing) {
    TextSettings how = settings(0, 12, packing);
    how.filter.max_length = 6;
    how.filter.too_long = TooLong::kCut;
    return make_text_source(joined, how);
  };
  const auto dense = open(Packing::kDense);
  EXPECT_THAT(texts_of(*dense, "targets"), ElementsAre("ab|C|cde|X|"));
  EXPECT_EQ(dense->report().empty, 2);
  EXPECT_EQ(dense->report().too_long, 1);
  EXPECT_THAT(texts_of(*open(Packing::kReference), "targets"), ElementsAre("ab|C|cde|X|"));
  TextSettings how = settings(0, 6, Packing::kReference);  // pairs that fill their rows
  EXPECT_THAT(texts_of(*make_text_source(joined, how), "targets"),
              ElementsAre("ab|C|", "cdefgh", "cdef|X", "cde|XY"));
}

/// A vocabulary that finds no token in a text of tildes, as SentencePiece does in one of ideographic spaces.
class WithoutTildes : public Vocabulary {
 public:
  int64_t size() const override { return bytes_.size(); }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids = bytes_.encode(text);
    std::erase(ids, '~' + 3);
    return ids;
  }
  std::string decode(std::span<const int32_t> ids) const override { return bytes_.decode(ids); }
  std::string piece(int32_t id) const override { return bytes_.piece(id); }
  std::string fingerprint() const override { return "without tildes"; }

 private:
  ByteVocabulary bytes_;
};

TEST_F(TextRows, TextsOfSeveralLinesHaveTheIdsThatTheLibraryGivesTheWholeText) {
  const std::vector<std::string> words = made_up_texts(50);
  const std::vector<std::string> ends = {"\n", "\n\n", " \n", "\r\n", "\t\n ", "\n\u3000", "  ", ".\n- "};
  std::mt19937 random(3);
  std::vector<std::string> texts;
  std::string bytes;
  for (int text = 0; text < 40; ++text) {
    std::string& all = texts.emplace_back(random() % 2 == 0 ? "" : " ");
    for (uint32_t left = 1 + random() % 6; left > 0; --left)
      all += words[random() % words.size()] + ends[random() % ends.size()];
    bytes += json_text({{"targets", all}}) + "\n";
  }
  JsonlOptions source;
  source.path = {{file("texts", bytes)}};
  source.columns = std::vector<std::string>{"targets"};
  for (const std::string rules : {"nmt_nfkc", "nfkc", "identity"}) {
    for (const char* option :
         {"add_dummy_prefix", "remove_extra_whitespaces", "treat_whitespace_as_suffix"}) {
      for (const char* value : {"true", "false"}) {
        const auto vocabulary = std::make_shared<const SentencePieceVocabulary>(
            library_model(texts, {{"vocab_size", "150"},
                                  {"hard_vocab_limit", "false"},
                                  {"normalization_rule_name", rules},
                                  {option, value}}),
            "test.model");
        TextSettings how = settings(0, 1000);
        how.vocabularies.targets = vocabulary;
        const auto rows = rows_of(*make_text_source(source, how), "targets");
        ASSERT_EQ(rows.size(), texts.size());
        for (size_t text = 0; text < texts.size(); ++text) {
          std::vector<int32_t> expected = vocabulary->encode_at_once(texts[text]);
          expected.push_back(kEosId);
          expected.resize(1000);
          ASSERT_EQ(rows[text], expected) << rules << " " << option << " " << value << ": " << texts[text];
        }
      }
    }
  }
}

/// A vocabulary that puts a ^ in front of each text, as SentencePiece does with a blank.
class WithFront final : public Vocabulary {
 public:
  int64_t size() const override { return bytes_.size(); }
  std::vector<int32_t> encode(std::string_view text) const override {
    return bytes_.encode("^" + std::string(text));
  }
  std::string decode(std::span<const int32_t> ids) const override { return bytes_.decode(ids); }
  std::string piece(int32_t id) const override { return bytes_.piece(id); }
  std::string fingerprint() const override { return "with front"; }

 private:
  ByteVocabulary bytes_;
};

TEST_F(TextRows, LinesAreEncodedApartWhereTheyAreSentences) {
  std::vector<Problem> problems;
  const TextFiles files =
      find_text_files(text(file("t", "ab\nc\n\nd\n"), TextUnit::kDocument), {}, problems, {});
  TokenizeOptions how{.vocabularies = {nullptr, std::make_shared<const WithFront>()}, .threads = 1};
  TokenChunk found;
  const auto read = [&] { tokenize(files, how, [&](const TokenChunk& chunk) { found = chunk; }); };
  read();
  EXPECT_EQ(decoded(found.tokens.targets), "^ab\nc|^d|");
  EXPECT_THAT(found.lines.targets, IsEmpty());
  const std::string key = token_store_key(files, how, path("cache"));
  how.lines_apart = true;
  read();
  EXPECT_EQ(decoded(found.tokens.targets), "^ab\n^c|^d|");
  EXPECT_THAT(found.lines.targets, ElementsAre(4));
  EXPECT_NE(token_store_key(files, how, path("cache")), key);
}

TEST_F(TextRows, JoinedPairsHaveTwoEndsAlsoWhereATextHasNoTokens) {
  ParallelOptions joined = parallel(file("en", "ab\n~\nef\n"), file("de", "~~\nCD\nEF\n"));
  joined.as = PairsAs::kTargets;
  TextSettings how = settings(0, 8);
  how.vocabularies.targets = std::make_shared<const WithoutTildes>();
  const auto source = make_text_source(joined, how);
  EXPECT_THAT(texts_of(*source, "targets"), ElementsAre("ef|EF|"));
  EXPECT_EQ(source->report().empty, 2);
}

/// Bytes in which ~ spells out the end of a sequence.
class WithSpelledEnds final : public WithoutTildes {
 public:
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids = ByteVocabulary().encode(text);
    std::ranges::replace(ids, '~' + 3, kEosId);
    return ids;
  }
  std::string fingerprint() const override { return "with spelled ends"; }
};

TEST_F(TextRows, JoinedPairsHaveTwoEndsAlsoWhereATextSpellsOutMore) {
  ParallelOptions joined = parallel(file("en", "a~b\n"), file("de", "~CD\n"));
  joined.as = PairsAs::kTargets;
  TextSettings how = settings(0, 8);
  how.vocabularies.targets = std::make_shared<const WithSpelledEnds>();
  EXPECT_THAT(texts_of(*make_text_source(joined, how), "targets"), ElementsAre("ab|CD|"));
}

TEST_F(TextRows, TooLongTextsAreDroppedCutOrSplit) {
  const std::string path = file("t", "abcdefg\nxy\n");
  const auto rows = [&](TooLong rule, Packing packing) {
    TextSettings how = settings(0, 3, packing);
    how.filter.too_long = rule;
    return texts_of(*make_text_source(text(path), how), "targets");
  };
  EXPECT_THAT(rows(TooLong::kDrop, Packing::kNone), ElementsAre("xy|"));
  EXPECT_THAT(rows(TooLong::kCut, Packing::kNone), ElementsAre("ab|", "xy|"));
  EXPECT_THAT(rows(TooLong::kCut, Packing::kReference), ElementsAre("abc", "xy|"));
  EXPECT_THAT(rows(TooLong::kSplit, Packing::kNone), ElementsAre("abc", "def", "g|", "xy|"));
  EXPECT_THAT(texts_of(*make_text_source(text(path), settings(0, 3)), "targets"),
              ElementsAre("abc", "def", "g|", "xy|"));
}

TEST_F(TextRows, OnlyTextsThatWereCutGetAnEndOfSequence) {
  // The ids have no end-of-sequence token, as TensorFlow Datasets writes them: the first text is cut, the
  // second just fits.
  const std::string records = tfrecord_frame(example_message({{"targets", {7, 8, 9, 10}}})) +
                              tfrecord_frame(example_message({{"targets", {4, 5, 6}}})) +
                              tfrecord_frame(example_message({{"targets", {3}}}));
  TfrecordOptions options = tfrecord(file("ids", records));
  options.features = {{"targets", {}}};
  TextSettings how = settings(0, 3);
  how.filter.too_long = TooLong::kCut;
  EXPECT_THAT(rows_of(*make_text_source(options, how), "targets"),
              ElementsAre(ElementsAre(7, 8, 1), ElementsAre(4, 5, 6), ElementsAre(3, 0, 0)));
}

TEST_F(TextRows, FiltersCountWhatTheyDrop) {
  TextSettings how = settings(8, 8);
  how.filter.max_ratio = 2;
  how.filter.max_length = 6;
  std::vector<std::string> said;
  how.report = [&](const TextReport& report) { said.push_back(report.to_string()); };
  const auto pairs = parallel(file("en", "abcdef\na\nabc\n\nok\n"), file("de", "x\nabcd\nab\nx\nok\n"));
  for (int run = 0; run < 2; ++run) {  // the second run uses the cache
    const auto source = make_text_source(pairs, how);
    EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("abc|", "ok|"));
    EXPECT_EQ(source->report().examples, 5);
    EXPECT_EQ(source->report().empty, 1);
    EXPECT_EQ(source->report().too_unequal, 2);
  }
  how.filter.max_ratio.reset();
  EXPECT_EQ(make_text_source(pairs, how)->report().too_long, 1);
  EXPECT_THAT(said[0], AllOf(HasSubstr("5 examples in 2 rows (inputs 43.8 % full"),
                             HasSubstr("1 without text dropped"),
                             HasSubstr("2 (40.0 %) with lengths beyond 1:2 dropped")));
  EXPECT_THAT(said[2], HasSubstr("1 (20.0 %) longer than 6 tokens dropped"));
  EXPECT_EQ(said[0], said[1]);
  how.name = "news";
  make_text_source(pairs, how);
  EXPECT_THAT(said.back(), ::testing::StartsWith("news: 5 examples in "));
  how.filter.max_length = 1;
  EXPECT_THAT(failure([&] { make_text_source(pairs, how); }), HasSubstr("none of 5 examples is left"));
}

TEST_F(TextRows, TheRatioOfJoinedPairsIsThatOfTheirParts) {
  ParallelOptions pairs = parallel(file("en", "abcdef\na\nabc\n"), file("de", "x\nabcd\nab\n"));
  pairs.as = PairsAs::kTargets;
  TextSettings how = settings(0, 12);
  how.filter.max_ratio = 2;
  const auto source = make_text_source(pairs, how);
  EXPECT_THAT(texts_of(*source, "targets"), ElementsAre("abc|ab|"));
  EXPECT_EQ(source->report().too_unequal, 2);
}

TEST_F(TextRows, DocumentsKeepTheirLinesAndLowerCaseIsUnicode) {
  TextSettings how = settings(0, 12);
  how.lowercase = true;
  const auto source = make_text_source(text(file("t", "AB\nÄ\n\nC\n"), TextUnit::kDocument), how);
  EXPECT_THAT(texts_of(*source, "targets"), ElementsAre("ab\nä|", "c|"));
}

TEST_F(TextRows, EvaluationKeepsEveryPairInItsPlace) {
  const auto pairs = parallel(file("en", "abcdefgh\n\nc\n"), file("de", "A\nB\n\n"));
  TextSettings how = settings(4, 4, Packing::kDense);
  how.filter.max_length = 2;
  how.filter.max_ratio = 1;
  how.purpose = TextPurpose::kEvaluation;
  const auto source = make_text_source(pairs, how);
  EXPECT_THAT(texts_of(*source, "inputs"), ElementsAre("abc|", "|", "c|"));
  EXPECT_THAT(texts_of(*source, "targets"), ElementsAre("A|", "B|", "|"));
  EXPECT_THAT(rows_of(*source, "targets_segmentation")[2], ElementsAre(1, 0, 0, 0));

  const EvaluationTexts texts = read_evaluation_texts(pairs, {}, how.vocabularies);
  EXPECT_THAT(texts.inputs, ElementsAre("abcdefgh", "", "c"));
  EXPECT_THAT(texts.references, ElementsAre(ElementsAre("A", "B", "")));
  const std::string first = file("r1", "1\n2\n3\n"), second = file("r2", "4\n5\n6\n"),
                    bad = file("r3", "7\n");
  EXPECT_THAT(read_evaluation_texts(pairs, {{first}, {second}}, how.vocabularies).references,
              ElementsAre(ElementsAre("1", "2", "3"), ElementsAre("4", "5", "6")));
  EXPECT_THAT(failure([&] { read_evaluation_texts(pairs, {{bad}}, how.vocabularies); }),
              AllOf(HasSubstr("r3 has 1 lines"), HasSubstr("3 examples")));
  EXPECT_THAT(failure([&] { read_evaluation_texts(pairs, {{bad}}, how.vocabularies, {}, {.bytes = 0}); }),
              HasSubstr("r3: line 1: longer than 0 bytes"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);  // it has no writer
  EXPECT_THAT(failure([&] { read_evaluation_texts(pairs, {{path("pipe")}}, how.vocabularies); }),
              HasSubstr("pipe is no regular file; a file that can be read more than once"));
}

TEST_F(TextRows, AnEvaluationSaysWhatItCuts) {
  std::vector<std::string> notes;
  TextSettings how = settings(4, 3, Packing::kDense);
  how.purpose = TextPurpose::kEvaluation;
  how.name = "evaluate.datasets.dev";
  how.note = [&](const std::string& line) { notes.push_back(line); };
  make_text_source(parallel(file("en", "abcdefgh\nab\nc\n"), file("de", "A\nBCDE\nF\n")), how);
  EXPECT_THAT(notes, ElementsAre("evaluate.datasets.dev: 2 of 3 examples longer than 4 / 3 tokens cut off: "
                                 "losses are those of the beginnings; `data.sequence_length: {inputs: 9, "
                                 "targets: 5}` takes all whole"));
  notes.clear();
  const auto long_pairs = parallel(file("en", "abcdefgh\nab\n"), file("de", "A\nB\n"));
  how.lengths = {9, 5};
  make_text_source(long_pairs, how);
  make_text_source(text(file("t", "abcdefghijkl\n")), how);  // is split
  EXPECT_THAT(notes, ElementsAre());
  ParallelOptions joined = long_pairs;
  joined.as = PairsAs::kTargets;
  how.lengths = {0, 6};
  make_text_source(joined, how);
  EXPECT_THAT(notes,
              ElementsAre("evaluate.datasets.dev: 1 of 2 examples longer than 6 tokens cut off: losses "
                          "are those of the beginnings; `data.sequence_length: 11` takes all whole"));
}

TEST_F(TextRows, TextsOfIdsAreDecoded) {
  const std::string records =
      tfrecord_frame(example_message({{"inputs", {'h' + 3, 'i' + 3, 1}}, {"targets", {'H' + 3, 1}}}));
  const auto bytes = settings(4, 4).vocabularies;
  const EvaluationTexts texts = read_evaluation_texts(tfrecord(file("r", records)), {}, bytes);
  EXPECT_THAT(texts.inputs, ElementsAre("hi"));
  EXPECT_THAT(texts.references, ElementsAre(ElementsAre("H")));
}

TEST_F(TextRows, TheFingerprintIsThatOfTextsAndRules) {
  TextSettings how = settings(0, 8, Packing::kDense);
  const auto of = [&](const std::string& name, const std::string& content) {
    return make_text_source(text(file(name, content)), how)->fingerprint();
  };
  const std::string before = of("t", "one\ntwo\n");
  EXPECT_EQ(of("copy", "one\ntwo\n"), before);
  EXPECT_NE(of("t", "one\nTwo\n"), before);
  EXPECT_NE(of("t", "two\none\n"), before);
  how.packing = Packing::kNone;
  EXPECT_NE(of("copy", "one\ntwo\n"), before);
}

TEST_F(TextRows, BatchesArePureFunctionsOfTheirIndex) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += fmt::format("{}\n", i);
  const std::shared_ptr<const Source> source = make_text_source(text(file("t", lines)), settings(0, 8));
  const BatchStream stream(source, TrainingBatches{.batch_size = 64, .seed = 5});
  Batch batch = stream.make_batch(), again = stream.make_batch();
  stream.read(9, batch);
  stream.read(2, again);
  stream.read(9, again);
  EXPECT_THAT(again.values<int32_t>(0), ::testing::ElementsAreArray(batch.values<int32_t>(0)));
}

TEST_F(TextRows, SettingsThatDoNotSuitAreNamed) {
  const auto pairs = parallel(file("a", "1\n"), file("b", "2\n"));
  TextSettings how = settings(8, 0);
  EXPECT_THAT(failure([&] { make_text_source(pairs, how); }), HasSubstr("has no number for `targets`"));
  how = settings(8, 8);
  how.filter.too_long = TooLong::kSplit;
  EXPECT_THAT(failure([&] { make_text_source(pairs, how); }), HasSubstr("cannot be split"));
  how = settings(8, 8);
  how.cache = "/proc/none";
  EXPECT_THAT(failure([&] { make_text_source(pairs, how); }), HasSubstr("data.cache"));
}

}  // namespace
}  // namespace mtf::testing
