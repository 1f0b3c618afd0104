#include "trainer/metrics/chrf.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/text/lowercase.h"
#include "trainer/metrics/ngrams.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

/// The statistics of an order: the numbers of n-grams of the hypothesis, of the reference, and in common.
constexpr size_t kPerOrder = 3;

/// Number is the precision of the arithmetic: double, or float for resampled corpora.
template <class Number>
Number f_score(Number precision, Number recall, Number factor) {
  const Number denominator = factor * precision + recall;
  return denominator > 0 ? (1 + factor) * precision * recall / denominator : 0;
}

/// Returns the F-score of the mean precision and recall or, with eps_smoothing, the mean of the F-scores.
template <class Number>
Number chrf_of(std::span<const Number> sums, const ChrfOptions& options) {
  constexpr auto kEpsilon = static_cast<Number>(1e-16);
  const auto factor = static_cast<Number>(options.beta * options.beta);
  Number scores = 0, precisions = 0, recalls = 0;
  int64_t orders = 0;
  for (size_t i = 0; i < sums.size(); i += kPerOrder) {
    const Number in_hypothesis = sums[i], in_reference = sums[i + 1], matches = sums[i + 2];
    const Number precision = in_hypothesis > 0 ? matches / in_hypothesis : kEpsilon;
    const Number recall = in_reference > 0 ? matches / in_reference : kEpsilon;
    const Number score = f_score(precision, recall, factor);
    scores += factor * precision + recall > 0 ? score : kEpsilon;
    if (in_hypothesis > 0 && in_reference > 0) {
      precisions += precision;
      recalls += recall;
      ++orders;
    }
  }
  if (options.eps_smoothing)
    return 100 * scores / static_cast<Number>(options.char_order + options.word_order);
  if (orders == 0) return 0;
  return 100 *
         f_score(precisions / static_cast<Number>(orders), recalls / static_cast<Number>(orders), factor);
}

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_one_character(std::string_view word) { return decode_utf8(word.substr(0, 5)).size() == 1; }

/// Splits a text into words. An ASCII punctuation mark at the end of a word, or else at its beginning,
/// becomes a separate word.
std::vector<std::string_view> words_and_punctuation(std::string_view text) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split_words(text)) {
    const size_t size = word.size();
    if (is_one_character(word)) {
      words.push_back(word);
    } else if (is_punctuation(word.back())) {
      words.insert(words.end(), {word.substr(0, size - 1), word.substr(size - 1)});
    } else if (is_punctuation(word.front())) {
      words.insert(words.end(), {word.substr(0, 1), word.substr(1)});
    } else {
      words.push_back(word);
    }
  }
  return words;
}

/// The characters and the words of a text, as numbers.
struct ChrfText {
  Units characters;
  Units words;
};

double gram_count(const Units& units, size_t order) {
  return units.size() < order ? 0.0 : static_cast<double>(units.size() - order + 1);
}

class Chrf final : public TextMetric {
 public:
  explicit Chrf(const ChrfOptions& options) : options_(options) {}

  std::string name() const override {
    return fmt::format("chrF{}{}", options_.beta, std::string(static_cast<size_t>(options_.word_order), '+'));
  }
  size_t width() const override { return kPerOrder * orders(); }

  void measure(const std::string& hypothesis, std::span<const std::string* const> references,
               std::span<double> statistics) override {
    numbers_.clear();
    texts_.clear();
    texts_.reserve(references.size() + 1);  // the words are views of these strings
    const ChrfText text = units_of(hypothesis);
    double best = -1;
    std::vector<double> candidate(statistics.size());
    for (const std::string* const reference : references) {
      compare(text, units_of(*reference), candidate);
      const double score = chrf_of<double>(candidate, options_);
      if (score <= best) continue;
      best = score;
      std::ranges::copy(candidate, statistics.begin());
    }
  }

  double value(std::span<const double> sums) const override { return chrf_of(sums, options_); }
  double value(std::span<const float> sums) const override {
    return static_cast<double>(chrf_of(sums, options_));
  }

  void sign(MetricSignature& signature) const override {
    signature.add("case", "c", options_.lowercase ? "lc" : "mixed");
    signature.add("eff", "e", options_.eps_smoothing ? "no" : "yes");
    signature.add("nc", "nc", std::to_string(options_.char_order));
    signature.add("nw", "nw", std::to_string(options_.word_order));
    signature.add("space", "s", options_.whitespace ? "yes" : "no");
  }

 private:
  size_t orders() const { return static_cast<size_t>(options_.char_order + options_.word_order); }

  ChrfText units_of(const std::string& line) {
    texts_.push_back(options_.lowercase ? to_lower_case(line) : line);
    const std::string& text = texts_.back();
    ChrfText units;
    units.characters = characters_of(text);
    if (options_.word_order > 0) units.words = numbers_(words_and_punctuation(text));
    return units;
  }

  Units characters_of(std::string_view text) const {
    std::string without_white_space;
    if (!options_.whitespace) {
      for (const std::string_view word : split_words(text)) without_white_space += word;
      text = without_white_space;
    }
    const std::u32string characters = decode_utf8(text);
    return {characters.begin(), characters.end()};
  }

  void compare(const ChrfText& hypothesis, const ChrfText& reference, std::span<double> statistics) {
    const auto char_orders = static_cast<size_t>(options_.char_order);
    compare(hypothesis.characters, reference.characters, statistics.first(kPerOrder * char_orders));
    compare(hypothesis.words, reference.words, statistics.subspan(kPerOrder * char_orders));
  }

  void compare(const Units& hypothesis, const Units& reference, std::span<double> statistics) {
    matches_.resize(statistics.size() / kPerOrder);
    matcher_.match(hypothesis, std::span(&reference, 1), matches_);
    for (size_t n = 0; n < matches_.size(); ++n) {
      const double in_reference = gram_count(reference, n + 1);
      // N-grams of an order that the reference does not have do not count against the hypothesis.
      statistics[kPerOrder * n] = in_reference > 0 ? gram_count(hypothesis, n + 1) : 0.0;
      statistics[kPerOrder * n + 1] = in_reference;
      statistics[kPerOrder * n + 2] = static_cast<double>(matches_[n]);
    }
  }

  ChrfOptions options_;
  WordNumbers numbers_;
  NgramMatcher matcher_;
  std::vector<std::string> texts_;
  std::vector<int64_t> matches_;
};

}  // namespace

double corpus_chrf(std::span<const std::string> hypotheses, const References& references,
                   const ChrfOptions& options) {
  Chrf chrf(options);
  return chrf.value(std::span<const double>(SegmentStatistics(chrf, hypotheses, references).sums()));
}

std::unique_ptr<TextMetric> make_chrf(const ChrfOptions& options) { return std::make_unique<Chrf>(options); }

}  // namespace mtf
