#include "data/labelled/conll.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/input_file.h"
#include "data/labelled/word_encoder.h"
#include "data/sources/array_source.h"
#include "data/text/line_reader.h"
#include "engine/base/counted.h"

namespace mtf {
namespace {

/// A line that begins so stands between documents.
constexpr std::string_view kDocumentStart = "-DOCSTART-";

/// Reads the words of files, and passes a word and its tag, or the end of a sentence, on.
class ConllReader {
 public:
  /// `labelled`: there are tags; otherwise they are empty.
  ConllReader(const ConllOptions& options, const TextLimit& limit, bool labelled)
      : options_(options), limit_(limit), labelled_(labelled) {}

  template <class Word, class End>
  void read(const std::string& path, const Word& use_word, const End& end_sentence) {
    TextProblems problems;
    LineReader lines(path, problems, limit_);
    while (const std::optional<std::string_view> line = lines.next()) {
      problems.throw_if_any();
      const std::vector<std::string_view> columns = words_in(*line);
      if (columns.empty() || columns[0] == kDocumentStart) {
        end_sentence();
        continue;
      }
      const std::string place = fmt::format("{}:{}", path, lines.line());
      const std::string tag =
          labelled_ ? column(columns, options_.tag.value_or(std::ssize(columns)), place) : std::string();
      use_word(column(columns, options_.word, place), tag, place);
    }
    problems.throw_if_any();
    end_sentence();
  }

 private:
  static std::string column(const std::vector<std::string_view>& columns, int64_t number,
                            const std::string& place) {
    if (number <= std::ssize(columns)) return std::string(columns[static_cast<size_t>(number - 1)]);
    throw Error(ErrorKind::kData, fmt::format("{}: {}", place, counted(std::ssize(columns), "column")),
                fmt::format("{} or more, as `word` and `tag` say", number));
  }

  const ConllOptions& options_;
  TextLimit limit_;
  bool labelled_;
};

struct Corpus {
  std::vector<ConllSource::Sentence> sentences;
  std::vector<std::string> classes;
  ClassPlaces places;
};

Corpus read_corpus(const ConllOptions& options, const SourceContext& context) {
  ClassLabels labels(options.classes, known_classes(context.preparation));
  ConllReader reader(options, context.text.limit, context.labelled);
  Corpus corpus;
  std::vector<std::string> words;
  for (const std::string& path : files_of(options.path)) {
    reader.read(
        path,
        [&](std::string word, const std::string& tag, const std::string& place) {
          words.push_back(std::move(word));
          if (context.labelled) labels.add(tag, [&] { return place; });
        },
        [&] {
          if (!words.empty()) corpus.sentences.push_back({std::exchange(words, {}), {}});
        });
  }
  if (corpus.sentences.empty())
    throw Error(ErrorKind::kData, context.mark, "the files have no word", "a word and its tag in each line");
  if (!context.prepares && labels.are_found())
    throw_unprepared(context.mark, "the names of the tags", "`classes`, in their order");
  corpus.classes = labels.classes();
  const std::vector<int32_t> tags = labels.numbers();
  corpus.places = labels.places();
  auto next = tags.begin();
  for (ConllSource::Sentence& sentence : corpus.sentences) {
    if (!context.labelled) break;
    sentence.tags.assign(next, next + std::ssize(sentence.words));
    next += std::ssize(sentence.words);
  }
  return corpus;
}

std::vector<std::vector<int32_t>> encode_words(const ConllSource::Sentence& sentence,
                                               const WordEncoder& encoder) {
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& word : sentence.words) ids.push_back(encoder.encode(word, !ids.empty()));
  return ids;
}

/// Cuts one sentence into rows.
class RowCutter {
 public:
  RowCutter(TokenRows& tokens, std::vector<ConllSource::Row>& rows, const SpecialTokens& special)
      : tokens_(tokens), rows_(rows), special_(special), room_(tokens.length() - 1) {}

  void cut(int64_t sentence, const std::vector<std::vector<int32_t>>& words) {
    begin(sentence);
    for (size_t i = 0; i < words.size(); ++i) {
      std::span<const int32_t> ids = words[i];
      ids = ids.first(std::min(ids.size(), static_cast<size_t>(room_ - 1)));  // of a word longer than a row
      if (std::ssize(ids_) + std::ssize(ids) > room_) {
        end();
        begin(sentence);
      }
      if (!ids.empty()) row_.tokens.push_back({static_cast<int32_t>(i), static_cast<int32_t>(ids_.size())});
      ids_.insert(ids_.end(), ids.begin(), ids.end());
    }
    end();
  }

 private:
  void begin(int64_t sentence) {
    ids_ = {special_.start};
    row_ = {sentence, {}};
  }
  void end() {
    ids_.push_back(special_.separator);
    tokens_.add({ids_, std::ssize(ids_)});
    rows_.push_back(std::move(row_));
  }

  TokenRows& tokens_;
  std::vector<ConllSource::Row>& rows_;
  SpecialTokens special_;
  int64_t room_;  ///< tokens of a row before the separator
  std::vector<int32_t> ids_;
  ConllSource::Row row_;
};

std::vector<Feature> features_with_tags(std::vector<Feature> features, bool labelled = true) {
  if (labelled) features.push_back({std::string(kLabelsFeature), features[0].shape, DType::kInt32});
  return features;
}

}  // namespace

void describe(config::Visitor& visit, ConllOptions& options) {
  visit("path", options.path,
        "text files in UTF-8 with a word and its tag in each line and a blank line after each sentence, "
        "plain or .gz: a path, a list or a glob",
        config::required);
  visit("word", options.word, "the column of the word, from 1", config::positive);
  visit("tag", options.tag, "the column of the tag, from 1; null: the last one", config::positive);
  visit("classes", options.classes, "the tags in their order; none: those of the training data, sorted");
  describe_rows(visit, options);
  visit.check(
      [&options](const config::Report& report) { check_class_names(options.classes, "classes", report); });
}

ConllSource::ConllSource(TokenRows tokens, std::vector<Sentence> sentences, std::vector<Row> rows,
                         std::vector<std::string> tags, ClassPlaces places, bool labelled)
    : features_(features_with_tags(tokens.features(), labelled)),
      tokens_(std::move(tokens)),
      sentences_(std::move(sentences)),
      rows_(std::move(rows)),
      tags_(std::move(tags)),
      places_(std::move(places)) {}

int32_t ConllSource::label(int64_t row, int64_t position) const {
  const Row& at = rows_[static_cast<size_t>(row)];
  const auto found = std::ranges::lower_bound(at.tokens, position, {}, &TaggedToken::position);
  if (found == at.tokens.end() || found->position != position) return kNoTag;
  return sentences_[static_cast<size_t>(at.sentence)].tags[static_cast<size_t>(found->word)];
}

void ConllSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  tokens_.read(rows, slices);
  if (features_.size() == TokenRows::kFeatures) return;
  fill_entries(rows, slices[TokenRows::kFeatures], tokens_.length(),
               [this](int64_t row, int64_t i) { return label(row, i); });
}

std::string ConllSource::preparation() const { return preparation_of(tags_); }

void ConllSource::check_labels(const LabelRange& classes) const { check_below(classes, places_, tags_); }

namespace {

std::unique_ptr<Source> open_corpus(Corpus corpus, const SpecialTokenOptions& special_tokens,
                                    const SourceContext& context) {
  const Vocabulary& vocabulary = row_vocabulary(context);
  TokenRows tokens(row_length(context), vocabulary.size());
  if (tokens.length() < 3)
    throw Error(ErrorKind::kConfig, context.mark, "`data.sequence_length` leaves no room for a word",
                "3 or more");
  const SpecialTokens special = find_special_tokens(special_tokens, vocabulary, context.mark);
  const WordEncoder encoder(context);
  std::vector<std::vector<std::vector<int32_t>>> ids(corpus.sentences.size());
  encode_in_parallel(context, std::ssize(ids), [&](int64_t i) {
    ids[static_cast<size_t>(i)] = encode_words(corpus.sentences[static_cast<size_t>(i)], encoder);
  });
  std::vector<ConllSource::Row> rows;
  RowCutter cutter(tokens, rows, special);
  for (size_t i = 0; i < ids.size(); ++i) cutter.cut(static_cast<int64_t>(i), ids[i]);
  return std::make_unique<ConllSource>(std::move(tokens), std::move(corpus.sentences), std::move(rows),
                                       std::move(corpus.classes), std::move(corpus.places), context.labelled);
}

}  // namespace

bool ConllOptions::read_from(const config::Path& file) {
  if (!without_gz(file.text).ends_with(".conll")) return false;
  path = {file};
  return true;
}

std::unique_ptr<Source> ConllOptions::open(const SourceContext& context) const {
  return open_corpus(read_corpus(*this, context), special_tokens, context);
}

std::vector<std::string_view> words_in(std::string_view line, std::string_view blanks) {
  std::vector<std::string_view> words;
  for (size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(blanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(blanks, end);
  }
  return words;
}

std::unique_ptr<Source> open_sentences(std::vector<std::vector<std::string>> sentences,
                                       const SpecialTokenOptions& special_tokens,
                                       const SourceContext& context) {
  Corpus corpus;
  for (std::vector<std::string>& words : sentences) corpus.sentences.push_back({std::move(words), {}});
  return open_corpus(std::move(corpus), special_tokens, context);
}

std::optional<std::vector<Feature>> ConllOptions::declared_features(const BySide<int64_t>& lengths,
                                                                    const BySide<int64_t>& sizes) const {
  if (lengths.inputs == 0) return std::nullopt;
  return features_with_tags(TokenRows::features(lengths.inputs, sizes.inputs, false));
}

void ConllOptions::for_each_text(const Mark&, const TextUse& use) const {
  std::string sentence;
  ConllReader reader(*this, {}, false);
  for (const std::string& file : files_of(path)) {
    reader.read(
        file,
        [&](const std::string& word, const std::string&, const std::string&) {
          sentence += sentence.empty() ? word : " " + word;
        },
        [&] {
          if (!sentence.empty()) use(Side::kInputs, sentence);
          sentence.clear();
        });
  }
}

namespace {

const config::Registration<SourceOptions, ConllOptions> conll_registration;

}  // namespace
}  // namespace mtf
