#include "trainer/predict/line_examples.h"

#include <fmt/format.h>

#include <utility>

#include "data/labelled/conll.h"
#include "data/labelled/labelled_text.h"
#include "trainer/decode/line_stream.h"
#include "trainer/predict/predict.h"

namespace mtf {
namespace {

std::vector<std::string> words_of_line(const std::string& line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string> words;
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace

LineExamples::LineExamples(const Session& session, LineKind kind)
    : context_(prediction_context(session, session.config.mark("infer.input"))),
      kind_(kind),
      input_(input_name(session.config.infer.input.text)) {
  if (const SourceChoice* const train = training_source(session.config)) {
    if (const auto* const texts = train->get_if<LabelledTextOptions>()) in_pairs_ = !texts->pair.empty();
    if (const auto* const rows = train->get_if<RowSourceOptions>()) special_tokens_ = rows->special_tokens;
    if (const auto* const squad = train->get_if<SquadOptions>()) squad_ = *squad;
  }
  features_ = open({kind == LineKind::kWords ? "" : "\t"}, 0)->features();
}

std::shared_ptr<const Source> LineExamples::open(const std::vector<std::string>& lines, int64_t first) const {
  if (kind_ == LineKind::kWords) {
    std::vector<std::vector<std::string>> sentences;
    for (const std::string& line : lines) sentences.push_back(words_of_line(line));
    return open_sentences(std::move(sentences), special_tokens_, context_);
  }
  const bool asks = kind_ == LineKind::kQuestions;
  if (!asks && !in_pairs_) return open_texts(lines, {}, special_tokens_, context_);
  std::vector<std::string> texts, pairs;
  for (const std::string& line : lines) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos)
      throw Error(ErrorKind::kData,
                  fmt::format("{}:{}: no tab character", input_, first + std::ssize(texts) + 1),
                  asks ? "a question, a tab character and a text in each line"
                       : "two texts with a tab character between them, as the pairs of data.train");
    texts.push_back(line.substr(0, tab));
    pairs.push_back(line.substr(tab + 1));
  }
  if (!asks) return open_texts(std::move(texts), std::move(pairs), special_tokens_, context_);
  std::vector<AskedText> asked;
  for (size_t i = 0; i < texts.size(); ++i) asked.push_back({std::move(texts[i]), std::move(pairs[i])});
  return open_questions(asked, squad_, context_);
}

}  // namespace mtf
