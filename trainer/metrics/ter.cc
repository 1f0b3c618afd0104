#include "trainer/metrics/ter.h"

#include <algorithm>
#include <limits>

#include "trainer/metrics/edit_rate.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

/// Number is the precision of the arithmetic: double, or float for resampled corpora.
template <class Number>
Number ter_of(Number edits, Number reference_length) {
  if (reference_length > 0) return 100 * (edits / reference_length);
  return edits > 0 ? 100 : 0;
}

/// TER. The statistics of a segment are the number of edits and the length of the reference.
class Ter final : public TextMetric {
 public:
  explicit Ter(const TercomOptions& options) : options_(options) {}

  std::string name() const override { return "TER"; }
  size_t width() const override { return 2; }

  void measure(const std::string& hypothesis, std::span<const std::string* const> references,
               std::span<double> statistics) override {
    numbers_.clear();
    texts_.clear();
    texts_.reserve(references.size() + 1);  // the words are views of these strings
    const Units words = units_of(tercom_tokenize(hypothesis, options_));
    int64_t fewest = std::numeric_limits<int64_t>::max();
    size_t length = 0;
    for (const std::string* const reference : references) {
      const Units of_reference = units_of(tokenized_twice(*reference));
      fewest = std::min(fewest, edit_count(words, of_reference));
      length += of_reference.size();
    }
    statistics[0] = static_cast<double>(fewest);
    statistics[1] = static_cast<double>(length) / static_cast<double>(references.size());
  }

  double value(std::span<const double> sums) const override { return ter_of(sums[0], sums[1]); }
  double value(std::span<const float> sums) const override {
    return static_cast<double>(ter_of(sums[0], sums[1]));
  }

  void sign(MetricSignature& signature) const override {
    signature.add("case", "c", options_.case_sensitive ? "mixed" : "lc");
    signature.add("tok", "t", "tercom");
    signature.add("norm", "nr", options_.normalized ? "yes" : "no");
    signature.add("punct", "pn", options_.no_punctuation ? "no" : "yes");
    signature.add("asian", "as", options_.asian_support ? "yes" : "no");
  }

 private:
  /// Tokenises a reference twice, as sacreBLEU does. With `normalized` this makes a difference: 'it's"'
  /// becomes `it's "` and then `it 's "`.
  std::string tokenized_twice(const std::string& reference) const {
    const std::string once = collapse_white_space(tercom_tokenize(reference, options_));
    return options_.normalized ? tercom_tokenize(once, options_) : once;
  }

  Units units_of(std::string text) {
    texts_.push_back(std::move(text));
    return numbers_(split_words(texts_.back()));
  }

  TercomOptions options_;
  WordNumbers numbers_;
  std::vector<std::string> texts_;
};

}  // namespace

TerScore corpus_ter(std::span<const std::string> hypotheses, const References& references,
                    const TercomOptions& options) {
  Ter ter(options);
  const std::vector<double> sums = SegmentStatistics(ter, hypotheses, references).sums();
  return {
      .score = ter_of(sums[0], sums[1]), .edits = static_cast<int64_t>(sums[0]), .reference_length = sums[1]};
}

std::unique_ptr<TextMetric> make_ter(const TercomOptions& options) { return std::make_unique<Ter>(options); }

}  // namespace mtf
