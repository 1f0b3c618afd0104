#include "data/labelled/squad.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/class_names.h"
#include "data/input_file.h"
#include "engine/base/counted.h"
#include "engine/base/json.h"
#include "engine/base/printable.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

using Json = nlohmann::json;

/// The key of SquadSource::preparation().
constexpr const char* kUnanswerable = "unanswerable";

constexpr int64_t kLargestFile = int64_t{4} << 30;

/// What the files have, before texts become tokens.
struct SquadTexts {
  std::vector<std::string> contexts;
  std::vector<SquadQuestion> questions;
  int64_t misplaced = 0;  ///< questions whose first answer does not stand in the text where the file says
};

/// Returns the offset of the byte of character `index`; nothing if the text is shorter.
std::optional<size_t> byte_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (int64_t i = 0; i < index; ++i) {
    if (at >= text.size()) return std::nullopt;
    next_character(text, at);
  }
  return at;
}

void read_answers(const Json& json, const std::string& context, SquadQuestion& question, SquadTexts& texts) {
  if (json.value("is_impossible", false) || !json.contains("answers")) return;
  for (const Json& answer : json.at("answers")) {
    const auto text = answer.at("text").get<std::string>();
    if (question.answers.empty()) {
      const int64_t start = answer.value("answer_start", int64_t{-1});
      if (start >= 0) question.start = byte_offset(context, start);
      if (question.start && context.compare(*question.start, text.size(), text) != 0) question.start.reset();
      if (!question.start) ++texts.misplaced;
    }
    question.answers.push_back(text);
  }
}

void read_paragraph(const Json& paragraph, SquadTexts& texts) {
  texts.contexts.push_back(paragraph.at("context").get<std::string>());
  for (const Json& json : paragraph.at("qas")) {
    SquadQuestion question;
    question.id = json.at("id").is_string() ? json.at("id").get<std::string>() : json.at("id").dump();
    question.text = json.at("question").get<std::string>();
    question.context = std::ssize(texts.contexts) - 1;
    read_answers(json, texts.contexts.back(), question, texts);
    texts.questions.push_back(std::move(question));
  }
}

void read_squad(const std::string& path, SquadTexts& texts) {
  try {
    const Json json = parse_json(read_file(path, "a JSON file", kLargestFile), [&](const std::string& key) {
      throw Error(ErrorKind::kData, fmt::format("{}: two values of `{}` in an object", path, printable(key)),
                  "each key once");
    });
    for (const Json& article : json.at("data")) {
      for (const Json& paragraph : article.at("paragraphs")) read_paragraph(paragraph, texts);
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kData, fmt::format("{}: {}", path, message_of(error)),
                "a file of SQuAD: {\"data\": [{\"paragraphs\": [{\"context\": .., \"qas\": [{\"id\": .., "
                "\"question\": .., \"answers\": [{\"text\": .., \"answer_start\": ..}]}]}]}]}");
  }
}

SquadTexts read_files(const SquadOptions& options) {
  SquadTexts texts;
  for (const std::string& path : files_of(options.path)) read_squad(path, texts);
  return texts;
}

SquadContext encoded_context(std::string text, const WordEncoder& encoder) {
  SquadContext context{std::move(text), {}, {}, {}};
  context.words = words_of(context.text);
  for (size_t i = 0; i < context.words.size(); ++i) {
    const WordSpan& word = context.words[i];
    const std::vector<int32_t> ids = encoder.encode(
        std::string_view(context.text).substr(word.begin, word.end - word.begin), word.after_blank);
    context.ids.insert(context.ids.end(), ids.begin(), ids.end());
    context.word_of.resize(context.ids.size(), static_cast<int32_t>(i));
  }
  return context;
}

std::vector<Feature> features_with_answers(std::vector<Feature> features, bool labelled = true) {
  features.push_back({"answer_mask", features[0].shape, DType::kInt32});
  if (!labelled) return features;
  features.push_back({"answer_start", Shape{}, DType::kInt32});
  features.push_back({"answer_end", Shape{}, DType::kInt32});
  return features;
}

/// How much of the text stands around entry i of a window, by BERT's rule for overlapping windows.
double context_around(const SquadWindow& window, int64_t i) {
  const auto around = static_cast<double>(std::min(i, window.count - 1 - i));
  return around + 0.01 * static_cast<double>(window.count);
}

/// The first one counts of several windows with the same score.
void mark_most_context(std::vector<SquadWindow>& windows) {
  for (size_t w = 0; w < windows.size(); ++w) {
    SquadWindow& window = windows[w];
    window.has_most_context.assign(static_cast<size_t>(window.count), true);
    for (int64_t i = 0; i < window.count; ++i) {
      const int64_t token = window.begin + i;
      const double here = context_around(window, i);
      for (size_t v = 0; v < windows.size(); ++v) {
        const int64_t there = token - windows[v].begin;
        if (v == w || there < 0 || there >= windows[v].count) continue;
        const double other = context_around(windows[v], there);
        if (other > here || (other == here && v < w)) window.has_most_context[static_cast<size_t>(i)] = false;
      }
    }
  }
}

}  // namespace

void describe(config::Visitor& visit, SquadOptions& options) {
  visit("path", options.path, "JSON files of SQuAD 1.1 or 2.0, plain or .gz: a path, a list or a glob",
        config::required);
  visit("stride", options.stride, "tokens from the beginning of a window of a long text to that of the next",
        config::positive);
  visit("max_question", options.max_question, "longer questions are cut off after so many tokens",
        config::positive);
  describe_rows(visit, options);
}

std::string SquadContext::part(int64_t first, int64_t last) const {
  const auto word = [&](int64_t token) -> const WordSpan& {
    return words[static_cast<size_t>(word_of[static_cast<size_t>(token)])];
  };
  return text.substr(word(first).begin, word(last).end - word(first).begin);
}

int64_t SquadContext::character(int64_t token) const {
  const size_t end = words[static_cast<size_t>(word_of[static_cast<size_t>(token)])].begin;
  int64_t count = 0;
  for (size_t at = 0; at < end; ++count) next_character(text, at);
  return count;
}

std::vector<SquadWindow> windows_of(int64_t tokens, int64_t room, int64_t stride) {
  std::vector<SquadWindow> windows;
  for (int64_t begin = 0;; begin += std::min(room, stride)) {
    SquadWindow window;
    window.begin = begin;
    window.count = std::min(room, tokens - begin);
    windows.push_back(std::move(window));
    if (begin + room >= tokens) break;
  }
  mark_most_context(windows);
  return windows;
}

SquadSource::SquadSource(TokenRows tokens, std::vector<SquadContext> contexts,
                         std::vector<SquadQuestion> questions, std::vector<SquadWindow> windows,
                         bool labelled)
    : features_(features_with_answers(tokens.features(), labelled)),
      tokens_(std::move(tokens)),
      contexts_(std::move(contexts)),
      questions_(std::move(questions)),
      windows_(std::move(windows)) {
  for (const SquadWindow& window : windows_) answers_.push_back(answer_in(window));
}

/// The tokens of all words that the answer touches.
SquadSource::Answer SquadSource::answer_in(const SquadWindow& window) const {
  const SquadQuestion& question = questions_[static_cast<size_t>(window.question)];
  if (!question.start) return {};
  const SquadContext& of = context(question);
  const size_t begin = *question.start, end = begin + question.answers.front().size();
  int64_t first = -1, last = -1;
  for (int64_t token = 0; token < std::ssize(of.ids); ++token) {
    const WordSpan& word = of.words[static_cast<size_t>(of.word_of[static_cast<size_t>(token)])];
    if (word.end <= begin || word.begin >= end) continue;
    if (first < 0) first = token;
    last = token;
  }
  if (first < window.begin || last >= window.begin + window.count || last < 0) return {};
  return {static_cast<int32_t>(first - window.begin + window.offset),
          static_cast<int32_t>(last - window.begin + window.offset)};
}

void SquadSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  tokens_.read(rows, slices);
  slices = slices.subspan(TokenRows::kFeatures);
  fill_entries(rows, slices[0], tokens_.length(), [this](int64_t row, int64_t i) {
    const SquadWindow& at = window(row);
    return i == 0 || (i >= at.offset && i < at.offset + at.count) ? 1 : 0;
  });
  if (slices.size() == 1) return;
  auto* const starts = reinterpret_cast<int32_t*>(slices[1].output);
  auto* const ends = reinterpret_cast<int32_t*>(slices[2].output);
  for (size_t i = 0; i < rows.size(); ++i) {
    starts[i] = answers_[static_cast<size_t>(rows[i])].start;
    ends[i] = answers_[static_cast<size_t>(rows[i])].end;
  }
}

bool SquadSource::has_unanswerable() const {
  return std::ranges::any_of(questions_, [](const auto& question) { return question.answers.empty(); });
}

std::string SquadSource::preparation() const {
  return Json{{kUnanswerable, has_unanswerable()}}.dump(1, ' ') + "\n";
}

std::optional<bool> prepared_unanswerable(const std::string& preparation) {
  return prepared_flag(preparation, kUnanswerable);
}

namespace {

std::unique_ptr<Source> open_windows(SquadTexts texts, const SquadOptions& options,
                                     const SourceContext& context) {
  const Vocabulary& vocabulary = row_vocabulary(context);
  TokenRows tokens(row_length(context), vocabulary.size());
  const SpecialTokens special = find_special_tokens(options.special_tokens, vocabulary, context.mark);
  // The tokens around question and text, and room for some of the text.
  if (tokens.length() < options.max_question + special.around_pair() + 1)
    throw Error(ErrorKind::kConfig, context.mark,
                fmt::format("rows of {} tokens leave no room for a text beside questions of {}",
                            tokens.length(), options.max_question),
                "a larger `data.sequence_length`, or a smaller `max_question`");
  const WordEncoder encoder(context);
  std::vector<SquadContext> contexts(texts.contexts.size());
  encode_in_parallel(context, std::ssize(contexts), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    contexts[at] = encoded_context(std::move(texts.contexts[at]), encoder);
  });
  std::vector<SquadWindow> windows;
  for (size_t q = 0; q < texts.questions.size(); ++q) {
    const SquadQuestion& question = texts.questions[q];
    std::vector<int32_t> ids = encode_text(context, question.text);
    ids.resize(std::min(ids.size(), static_cast<size_t>(options.max_question)));
    ids.insert(ids.begin(), special.start);
    ids.insert(ids.end(), static_cast<size_t>(special.between), special.separator);
    const SquadContext& of = contexts[static_cast<size_t>(question.context)];
    const auto offset = std::ssize(ids);
    const int64_t room = tokens.length() - offset - 1;
    for (SquadWindow& window : windows_of(std::ssize(of.ids), room, options.stride)) {
      TokenRow row{ids, offset};
      row.ids.insert(row.ids.end(), of.ids.begin() + window.begin,
                     of.ids.begin() + window.begin + window.count);
      row.ids.push_back(special.separator);
      tokens.add(row);
      window.question = static_cast<int64_t>(q);
      window.offset = offset;
      windows.push_back(std::move(window));
    }
  }
  return std::make_unique<SquadSource>(std::move(tokens), std::move(contexts), std::move(texts.questions),
                                       std::move(windows), context.labelled);
}

}  // namespace

bool SquadOptions::read_from(const config::Path& file) {
  if (!without_gz(file.text).ends_with(".json")) return false;
  path = {file};
  return true;
}

std::unique_ptr<Source> SquadOptions::open(const SourceContext& context) const {
  row_vocabulary(context);
  SquadTexts texts = read_files(*this);
  if (texts.questions.empty())
    throw Error(ErrorKind::kData, context.mark, "the files have no question", "files of SQuAD");
  if (texts.misplaced > 0 && context.note && context.labelled)
    context.note(fmt::format(
        "{} trained on as if there were no answer: the first one is not in the text at its `answer_start`",
        counted(texts.misplaced, "question")));
  return open_windows(std::move(texts), *this, context);
}

std::unique_ptr<Source> open_questions(const std::vector<AskedText>& asked, const SquadOptions& options,
                                       const SourceContext& context) {
  SquadTexts texts;
  for (const AskedText& each : asked) {
    SquadQuestion question;
    question.id = fmt::to_string(texts.questions.size());
    question.text = each.question;
    question.context = std::ssize(texts.contexts);
    texts.questions.push_back(std::move(question));
    texts.contexts.push_back(each.text);
  }
  return open_windows(std::move(texts), options, context);
}

std::optional<std::vector<Feature>> SquadOptions::declared_features(const BySide<int64_t>& lengths,
                                                                    const BySide<int64_t>& sizes) const {
  if (lengths.inputs == 0) return std::nullopt;
  return features_with_answers(TokenRows::features(lengths.inputs, sizes.inputs, true));
}

void SquadOptions::for_each_text(const Mark&, const TextUse& use) const {
  const SquadTexts texts = read_files(*this);
  for (const std::string& text : texts.contexts) use(Side::kInputs, text);
  for (const SquadQuestion& question : texts.questions) use(Side::kInputs, question.text);
}

namespace {

const config::Registration<SourceOptions, SquadOptions> squad_registration;

}  // namespace
}  // namespace mtf
