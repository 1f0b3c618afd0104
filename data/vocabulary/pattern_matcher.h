// Finds a pattern in UTF-8 texts: a text, or a regular expression in the syntax of Oniguruma, which Hugging Face's tokenisers
// use, as far as that of ICU is the same.
//
//   const SearchPattern pattern("\\s+", true, "tokenizer.json");   // immutable: several threads may use one
//   PatternMatcher matcher(pattern);                               // for one thread
//   matcher.find("two words", [](size_t begin, size_t end, bool is_match) { ... });
#pragma once

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mtf {

class SearchPattern {
 public:
  /// Throws Error (kData) for an expression that is malformed, or that ICU would read in another way; `name` is that of the
  /// file, for messages.
  SearchPattern(std::string pattern, bool is_regex, const std::string& name);

  /// Null for a text.
  const icu::RegexPattern* regex() const { return regex_.get(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::unique_ptr<icu::RegexPattern> regex_;
};

class PatternMatcher {
 public:
  /// `pattern` must outlive it.
  explicit PatternMatcher(const SearchPattern& pattern) : pattern_(pattern) {}

  /// Calls `part` with all parts of the text, which is valid UTF-8, from its begin to its end: matches and what lies between
  /// them. A match may be empty.
  template <class Part>
  void find(std::string_view text, const Part& part) {
    size_t done = 0;
    start(text);
    for (size_t begin = 0, end = 0; next(text, begin, end);) {
      if (begin > done) part(done, begin, false);
      part(begin, end, true);
      done = end;
    }
    if (done < text.size()) part(done, text.size(), false);
  }

 private:
  void start(std::string_view text);
  bool next(std::string_view text, size_t& begin, size_t& end);
  size_t byte_of_unit(std::string_view text, int32_t unit);

  const SearchPattern& pattern_;
  std::unique_ptr<icu::RegexMatcher> matcher_;
  icu::UnicodeString units_;  ///< the text in UTF-16
  int32_t unit_ = 0;          ///< a place in it, and the same one in UTF-8
  size_t byte_ = 0;
};

}  // namespace mtf
