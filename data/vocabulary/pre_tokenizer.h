// Divides texts into the words that a byte pair encoding encodes one by one, as a tokenizer.json says.
//
//   const PreTokenizer pre_tokenizer(file.pre_tokenizer, name);   // immutable: several threads may use one
//   WordDivision words(pre_tokenizer);                            // for one thread
//   for (std::string_view word : words.divide(text, true)) ...
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/vocabulary/pattern_matcher.h"
#include "data/vocabulary/tokenizer_file.h"

namespace mtf {

class PreTokenizer {
 public:
  struct Split {
    SearchPattern pattern;
    SplitAtPattern::Matches matches;
    bool inverted;
  };
  using Step = std::variant<SpellBlanks, Split>;

  /// Throws Error (kData) for a pattern that is not supported; `name` is that of the file.
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& name);

  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

class WordDivision {
 public:
  /// `pre_tokenizer` must outlive it.
  explicit WordDivision(const PreTokenizer& pre_tokenizer);

  struct Word {
    std::string_view text;
    bool begins_text;  ///< its first character is the first of the whole text
  };
  /// Returns the words of a part of a text in valid UTF-8; `begins_text`: the part is the first. They last until the next
  /// call, and as long as the part.
  const std::vector<Word>& divide(std::string_view part, bool begins_text);

 private:
  void spell(const SpellBlanks& step);
  void split(const PreTokenizer::Split& step, PatternMatcher& matcher);

  const PreTokenizer& pre_tokenizer_;
  std::vector<PatternMatcher> matchers_;  ///< one for each step that splits
  std::vector<Word> words_, divided_;
  std::deque<std::string> spelled_;
};

}  // namespace mtf
