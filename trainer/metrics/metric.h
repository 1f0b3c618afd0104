// The interface of BLEU, chrF and TER: statistics per segment, whose sum over the corpus determines the
// score, and a signature that says how the score was computed. report.h prints a MetricScore.
//
//   const auto metric = make_bleu({});
//   const MetricScore score = corpus_score(*metric, hypotheses, references);   // score.name, score.value
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mtf {

/// The references of a corpus: references[r][i] is reference r of segment i.
using References = std::vector<std::vector<std::string>>;

struct SignatureField {
  std::string name;
  std::string short_name;
  std::string value;
};

/// The version of sacreBLEU whose results are reproduced.
inline constexpr const char* kSacrebleuVersion = "2.6.0";

/// The description of how a score was computed, in sacreBLEU's format.
class MetricSignature {
 public:
  void add(std::string name, std::string short_name, std::string value);
  /// Returns "nrefs:1|case:mixed|...", or with short names "#:1|c:mixed|...".
  std::string to_string(bool short_names = false) const;
  const std::vector<SignatureField>& fields() const { return fields_; }

 private:
  std::vector<SignatureField> fields_;
};

class TextMetric {
 public:
  virtual ~TextMetric() = default;
  /// The name, such as "BLEU", "chrF2++" or "TER".
  virtual std::string name() const = 0;
  /// The number of statistics per segment.
  virtual size_t width() const = 0;
  /// Sets the `statistics` of a segment, which has at least one reference.
  virtual void measure(const std::string& hypothesis, std::span<const std::string* const> references,
                       std::span<double> statistics) = 0;

  /// Returns the score of summed statistics.
  virtual double value(std::span<const double> sums) const = 0;
  /// Returns the score in single precision, in which sacreBLEU computes the scores of resampled corpora.
  virtual double value(std::span<const float> sums) const = 0;
  /// Returns the score as in the trials of approximate randomization, where sacreBLEU stores counts as
  /// integers.
  virtual double trial_value(std::span<const double> sums) const { return value(sums); }
  /// True if value() of floats has single precision. BLEU ends with an exponential in double precision.
  virtual bool single_precision_value() const { return true; }

  /// Returns the text after the score in a report; may be empty.
  virtual std::string details(std::span<const double> /*sums*/) const { return {}; }
  /// Adds the metric's own fields to a signature.
  virtual void sign(MetricSignature& signature) const = 0;
};

/// A 95 % confidence interval: mean ± half_width.
struct Confidence {
  double mean = 0;
  double half_width = 0;
  int64_t samples = 0;
  std::string seed;
  bool single_precision = false;  ///< mean and half_width have single precision
};

struct MetricScore {
  std::string name;
  double value = 0;
  std::string details = {};
  std::optional<Confidence> confidence = {};
  MetricSignature signature = {};
};

/// The statistics of all segments, one row per segment.
class SegmentStatistics {
 public:
  /// Computes the statistics. Throws Error (kUsage) when the numbers of hypotheses and references differ or
  /// there are none.
  SegmentStatistics(TextMetric& metric, std::span<const std::string> hypotheses,
                    const References& references);

  size_t segments() const { return segments_; }
  std::span<const double> row(size_t segment) const {
    return std::span(values_).subspan(segment * width_, width_);
  }
  std::vector<double> sums() const;

 private:
  size_t segments_;
  size_t width_;
  std::vector<double> values_;
};

/// Returns the score of a corpus; `bootstrap_samples` > 1 adds a confidence interval. Throws Error (kUsage)
/// as SegmentStatistics does.
MetricScore corpus_score(TextMetric& metric, std::span<const std::string> hypotheses,
                         const References& references, int64_t bootstrap_samples = 0);

/// The resampling that a signature describes: "bs" for bootstrap resampling, "ar" for approximate
/// randomization.
struct Resampling {
  std::string kind;
  int64_t samples = 0;
  std::string seed;
};

/// Returns the signature of a score of `metric` with `references` references per segment.
MetricSignature signature_of(const TextMetric& metric, size_t references,
                             const std::optional<Resampling>& resampling = std::nullopt);

/// Throws Error (kUsage), with both counts, when a reference does not have as many lines as there are
/// hypotheses, or when there are no lines. The names are those of the files.
void check_line_counts(size_t hypotheses, const std::string& hypothesis_name, const References& references,
                       const std::vector<std::string>& reference_names);

}  // namespace mtf
