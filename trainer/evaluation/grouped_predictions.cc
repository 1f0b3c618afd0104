#include "trainer/evaluation/grouped_predictions.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/session/evaluation_graph.h"

namespace mtf {

std::string class_name(const std::vector<std::string>& names, int64_t number) {
  return number >= 0 && number < std::ssize(names) ? names[static_cast<size_t>(number)]
                                                   : fmt::to_string(number);
}

void SentenceTags::add(const Executor& executor, int64_t first, int64_t examples) {
  const std::string of_all = kExample + "probabilities";
  const bool has_probabilities = executor.program().output(of_all) != kNoValue;
  const HostTensor predictions = executor.fetch(kPredictions);
  const HostTensor probabilities = has_probabilities ? executor.fetch(of_all) : HostTensor();
  const int64_t length = predictions.shape.size() / predictions.shape[0].size;
  const int64_t classes = has_probabilities ? probabilities.shape.size() / predictions.shape.size() : 0;
  for (int64_t i = 0; i < examples; ++i) {
    const ConllSource::Row& row = source_.row(first + i);
    const size_t words = source_.sentences()[static_cast<size_t>(row.sentence)].words.size();
    Tags& found = found_[row.sentence];
    found.tags.resize(words, "O");
    found.probabilities.resize(words, 0);
    for (const TaggedToken& token : row.tokens) {
      const int64_t at = i * length + token.position;
      const int32_t tag = predictions.data<int32_t>()[at];
      const auto word = static_cast<size_t>(token.word);
      found.tags[word] = class_name(names_, tag);
      if (has_probabilities) found.probabilities[word] = probabilities.data<float>()[at * classes + tag];
    }
  }
}

void BestAnswers::add(const Executor& executor, int64_t first, int64_t examples) {
  const HostTensor start = executor.fetch(kExample + "start"), end = executor.fetch(kExample + "end");
  const int64_t length = start.shape.size() / start.shape[0].size;
  for (int64_t i = 0; i < examples; ++i)
    add_window(source_.window(first + i), start.data<float>() + i * length, end.data<float>() + i * length);
}

/// The `n_best` tokens of the window with the largest logits; of equal ones the first.
std::vector<int64_t> BestAnswers::best_tokens(const SquadWindow& window, const float* logits) const {
  std::vector<int64_t> tokens(static_cast<size_t>(window.count));
  for (int64_t i = 0; i < window.count; ++i) tokens[static_cast<size_t>(i)] = i;
  std::ranges::stable_sort(tokens, std::ranges::greater{},
                           [&](int64_t i) { return logits[window.offset + i]; });
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(options_.n_best)));
  return tokens;
}

void BestAnswers::add_window(const SquadWindow& window, const float* start, const float* end) {
  Best& best = found_[window.question];
  best.null_score = std::min(best.null_score, static_cast<double>(start[0]) + static_cast<double>(end[0]));
  const std::vector<int64_t> ends = best_tokens(window, end);
  for (const int64_t first : best_tokens(window, start)) {
    if (!window.has_most_context[static_cast<size_t>(first)]) continue;
    for (const int64_t last : ends) {
      if (last < first || last - first >= options_.max_length) continue;
      const double score =
          static_cast<double>(start[window.offset + first]) + static_cast<double>(end[window.offset + last]);
      if (score <= best.score) continue;
      best = {score, window.begin + first, window.begin + last, best.null_score};
    }
  }
}

bool BestAnswers::has_answer(const Best& best) const {
  return best.first >= 0 && !(unanswerable_ && best.null_score - best.score > options_.null_threshold);
}

std::string BestAnswers::text(int64_t number, const Best& best) const {
  return has_answer(best) ? source_.context(question(number)).part(best.first, best.last) : std::string();
}

}  // namespace mtf
