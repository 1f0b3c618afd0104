#include "trainer/metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/text/lowercase.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "trainer/metrics/ngrams.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

constexpr std::array<std::pair<BleuSmoothing, std::string_view>, 4> kSmoothingNames = {
    {{BleuSmoothing::kExp, "exp"},
     {BleuSmoothing::kFloor, "floor"},
     {BleuSmoothing::kAddK, "add-k"},
     {BleuSmoothing::kNone, "none"}}};

/// The statistics of a segment begin with the lengths of the hypothesis and of the reference; then come the
/// matches and the totals by order.
constexpr size_t kLengths = 2;

double smooth_value_of(const BleuOptions& options) {
  if (options.smooth_value) return *options.smooth_value;
  return options.smoothing == BleuSmoothing::kFloor ? 0.1 : 1;
}

double brevity_penalty(double hypothesis_length, double reference_length) {
  if (hypothesis_length >= reference_length) return 1;
  return hypothesis_length > 0 ? std::exp(1 - reference_length / hypothesis_length) : 0;
}

/// Returns the logarithm of a precision as sacreBLEU does: that of 0 is very low but finite.
double log_precision(double precision) { return precision == 0 ? -9999999999 : std::log(precision); }

template <class Number>
struct Precisions {
  std::vector<Number> values;
  size_t orders;  ///< number of orders in the mean
};

/// Number is the precision of the arithmetic: double, or float for resampled corpora.
template <class Number>
Precisions<Number> smoothed_precisions(std::span<const Number> sums, const BleuOptions& options) {
  Precisions<Number> result{std::vector<Number>(options.max_order), options.max_order};
  const double smooth_value = smooth_value_of(options);
  Number halvings = 1;
  for (size_t n = 0; n < options.max_order; ++n) {
    Number matches = sums[kLengths + n], total = sums[kLengths + options.max_order + n];
    if (options.smoothing == BleuSmoothing::kAddK && n > 0) {
      matches += static_cast<Number>(smooth_value);
      total += static_cast<Number>(smooth_value);
    }
    if (total == 0) break;
    if (options.effective_order) result.orders = n + 1;
    if (matches != 0) {
      result.values[n] = 100 * matches / total;
    } else if (options.smoothing == BleuSmoothing::kExp) {
      halvings *= 2;
      result.values[n] = 100 / (halvings * total);
    } else if (options.smoothing == BleuSmoothing::kFloor) {
      result.values[n] = static_cast<Number>(100 * smooth_value) / total;
    }
  }
  return result;
}

template <class Number>
BleuScore bleu_of(std::span<const Number> sums, const BleuOptions& options) {
  BleuScore bleu;
  bleu.hypothesis_length = static_cast<int64_t>(sums[0]);
  bleu.reference_length = static_cast<int64_t>(sums[1]);
  bleu.brevity_penalty = brevity_penalty(static_cast<double>(bleu.hypothesis_length),
                                         static_cast<double>(bleu.reference_length));
  bleu.precisions.resize(options.max_order);
  for (const Number count : sums.subspan(kLengths, options.max_order))
    bleu.matches.push_back(static_cast<int64_t>(count));
  for (const Number count : sums.subspan(kLengths + options.max_order))
    bleu.totals.push_back(static_cast<int64_t>(count));
  if (std::ranges::all_of(bleu.matches, [](int64_t matches) { return matches == 0; })) return bleu;
  const Precisions<Number> precisions = smoothed_precisions(sums, options);
  double logarithms = 0;
  for (size_t n = 0; n < precisions.orders; ++n)
    logarithms += log_precision(static_cast<double>(precisions.values[n]));
  std::ranges::copy(precisions.values, bleu.precisions.begin());
  bleu.score = bleu.brevity_penalty * std::exp(logarithms / static_cast<double>(precisions.orders));
  return bleu;
}

/// Returns the length of the reference closest to `length`; if two are equally close, the shorter one.
size_t closest_length(size_t length, std::span<const Units> references) {
  const auto distance = [length](const Units& units) {
    return units.size() > length ? units.size() - length : length - units.size();
  };
  return std::ranges::min(references, {},
                          [&](const Units& units) { return std::pair(distance(units), units.size()); })
      .size();
}

class Bleu final : public TextMetric {
 public:
  explicit Bleu(const BleuOptions& options)
      : options_(options), pieces_(read_pieces(options.tokenizer, options.tokenizer_model)) {}

  std::string name() const override { return "BLEU"; }
  size_t width() const override { return kLengths + 2 * options_.max_order; }

  void measure(const std::string& hypothesis, std::span<const std::string* const> references,
               std::span<double> statistics) override {
    numbers_.clear();
    texts_.clear();
    texts_.reserve(references.size() + 1);  // the words are views of these strings
    references_.clear();
    for (const std::string* const reference : references) references_.push_back(units_of(*reference));
    const Units units = units_of(hypothesis);
    matches_.resize(options_.max_order);
    matcher_.match(units, references_, matches_);
    statistics[0] = static_cast<double>(units.size());
    statistics[1] = static_cast<double>(closest_length(units.size(), references_));
    for (size_t n = 0; n < options_.max_order; ++n) {
      statistics[kLengths + n] = static_cast<double>(matches_[n]);
      statistics[kLengths + options_.max_order + n] =
          units.size() > n ? static_cast<double>(units.size() - n) : 0.0;
    }
  }

  double value(std::span<const double> sums) const override { return bleu_of(sums, options_).score; }
  double value(std::span<const float> sums) const override { return bleu_of(sums, options_).score; }
  double trial_value(std::span<const double> sums) const override {
    BleuOptions options = options_;
    options.smooth_value = std::floor(smooth_value_of(options_));  // sacreBLEU adds it to integers
    return options.smoothing == BleuSmoothing::kAddK ? bleu_of(sums, options).score : value(sums);
  }
  bool single_precision_value() const override { return false; }
  std::string details(std::span<const double> sums) const override {
    return bleu_of(sums, options_).details();
  }

  void sign(MetricSignature& signature) const override {
    std::string smoothing(name_of(options_.smoothing));
    if (options_.smoothing == BleuSmoothing::kFloor || options_.smoothing == BleuSmoothing::kAddK)
      smoothing += fmt::format("[{:.2f}]", smooth_value_of(options_));
    signature.add("case", "c", options_.lowercase ? "lc" : "mixed");
    signature.add("eff", "e", options_.effective_order ? "yes" : "no");
    signature.add("tok", "tok", std::string(signature_of(options_.tokenizer)));
    signature.add("smooth", "s", smoothing);
  }

 private:
  Units units_of(const std::string& line) {
    texts_.push_back(
        bleu_tokenize(options_.lowercase ? to_lower_case(line) : line, options_.tokenizer, pieces_.get()));
    return numbers_(split_words(texts_.back()));
  }

  BleuOptions options_;
  std::unique_ptr<const SentencePieceVocabulary> pieces_;
  WordNumbers numbers_;
  NgramMatcher matcher_;
  std::vector<std::string> texts_;  ///< the tokenised texts
  std::vector<Units> references_;
  std::vector<int64_t> matches_;
};

}  // namespace

std::string_view name_of(BleuSmoothing smoothing) {
  return std::ranges::find(kSmoothingNames, smoothing, &decltype(kSmoothingNames)::value_type::first)->second;
}

std::optional<BleuSmoothing> smoothing_named(std::string_view name) {
  const auto* const found =
      std::ranges::find(kSmoothingNames, name, &decltype(kSmoothingNames)::value_type::second);
  return found == kSmoothingNames.end() ? std::nullopt : std::optional(found->first);
}

std::vector<std::string> smoothing_names() {
  std::vector<std::string> names;
  for (const auto& [smoothing, name] : kSmoothingNames) names.emplace_back(name);
  return names;
}

std::string BleuScore::details() const {
  const double ratio = reference_length == 0
                           ? 0
                           : static_cast<double>(hypothesis_length) / static_cast<double>(reference_length);
  return fmt::format("{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                     fmt::join(precisions, "/"), brevity_penalty, ratio, hypothesis_length, reference_length);
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, const References& references,
                      const BleuOptions& options) {
  Bleu bleu(options);
  return bleu_of<double>(SegmentStatistics(bleu, hypotheses, references).sums(), options);
}

std::unique_ptr<TextMetric> make_bleu(const BleuOptions& options) { return std::make_unique<Bleu>(options); }

int64_t tokenized_lines(std::span<const std::string> lines) {
  return std::ranges::count_if(lines, [](const std::string& line) { return line.ends_with(" ."); });
}

}  // namespace mtf
