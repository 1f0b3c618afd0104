// Predictions for rows that belong together: the tags of a sentence, which may go on in several rows, and the answer to a
// question about a text of several windows.
//
//   BestAnswers answers(source, options, true);
//   executor.run(step);
//   answers.add(executor, first, examples);      // in every process
//   for (const auto& [question, best] : answers.found()) use(answers.text(question, best));
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "data/labelled/conll.h"
#include "data/labelled/squad.h"
#include "engine/runtime/executor.h"
#include "trainer/config/config.h"

namespace mtf {

/// The name of class `number`, or its number.
std::string class_name(const std::vector<std::string>& names, int64_t number);

/// The tags of sentences. A word without a token has the tag O.
class SentenceTags {
 public:
  struct Tags {
    std::vector<std::string> tags;  ///< [words]
    std::vector<float>
        probabilities;  ///< those of the tags, where the program gives them; 0 of a word without a token
  };

  /// Keeps a reference to the source.
  SentenceTags(const ConllSource& source, std::vector<std::string> names)
      : source_(source), names_(std::move(names)) {}

  /// Adds the first `examples` rows of the batch that the executor has run, of which the first is example `first` of the
  /// source. The call is collective.
  void add(const Executor& executor, int64_t first, int64_t examples);

  /// The tags by the number of the sentence.
  std::map<int64_t, Tags>& found() { return found_; }
  const std::map<int64_t, Tags>& found() const { return found_; }

 private:
  const ConllSource& source_;
  std::vector<std::string> names_;
  std::map<int64_t, Tags> found_;
};

/// The best part over all windows of a text.
class BestAnswers {
 public:
  struct Best {
    double score = -std::numeric_limits<double>::infinity();  ///< the sum of both logits
    int64_t first = -1, last = -1;  ///< tokens of the text; -1: no part was possible
    double null_score = std::numeric_limits<double>::infinity();  ///< the smallest of all windows
  };

  /// `unanswerable`: an answer may be empty. Keeps a reference to the source.
  BestAnswers(const SquadSource& source, const AnswerOptions& options, bool unanswerable)
      : source_(source), options_(options), unanswerable_(unanswerable) {}

  /// As SentenceTags::add().
  void add(const Executor& executor, int64_t first, int64_t examples);

  /// The best parts by the number of the question.
  std::map<int64_t, Best>& found() { return found_; }
  const std::map<int64_t, Best>& found() const { return found_; }
  const SquadQuestion& question(int64_t number) const {
    return source_.questions()[static_cast<size_t>(number)];
  }
  /// True if there is an answer, and it is not better to give none.
  bool has_answer(const Best& best) const;
  /// The answer to a question; may be empty.
  std::string text(int64_t number, const Best& best) const;

 private:
  void add_window(const SquadWindow& window, const float* start, const float* end);
  std::vector<int64_t> best_tokens(const SquadWindow& window, const float* logits) const;

  const SquadSource& source_;
  AnswerOptions options_;
  bool unanswerable_;
  std::map<int64_t, Best> found_;
};

}  // namespace mtf
