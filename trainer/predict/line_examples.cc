#include "trainer/predict/line_examples.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "data/labelled/conll.h"
#include "data/labelled/labelled_text.h"
#include "trainer/decode/line_stream.h"
#include "trainer/predict/predict.h"
#include "trainer/session/open_data.h"

namespace mtf {

LineExamples::LineExamples(const Session& session, LineKind kind)
    : context_(prediction_context(session, session.config.mark("data.train"))),
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
    for (const std::string& line : lines) {
      const std::vector<std::string_view> words = words_in(line, " \t\r");
      sentences.emplace_back(words.begin(), words.end());
    }
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
