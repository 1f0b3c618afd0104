// How well answers to questions agree with those that people gave, by the definitions of SQuAD's scripts.
//
//   AnswerScores scores(false);
//   scores.add("The Eiffel Tower!", {"Eiffel tower", "the tower"});
//   scores.exact_match()                                                // 100
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// An answer without what does not matter: case, ASCII punctuation, the articles a, an, the, and white space.
std::string normalized_answer(std::string_view answer);

class AnswerScores {
 public:
  /// `unanswerable`: some questions have no answer, and empty answers are scored as in SQuAD 2.0.
  explicit AnswerScores(bool unanswerable) : unanswerable_(unanswerable) {}

  /// Adds the answer to a question; of several that people gave the best one counts. None: the right answer is empty.
  void add(std::string_view answer, const std::vector<std::string>& right);

  /// The percentage of answers that are equal to one of the right ones, and the mean F1 over the words that they share,
  /// from 0 to 100.
  double exact_match() const;
  double f1() const;

 private:
  bool unanswerable_;
  int64_t questions_ = 0, exact_ = 0;
  double f1_ = 0;
};

}  // namespace mtf
