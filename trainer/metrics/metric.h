// What BLEU, chrF and TER have in common: numbers per segment, whose sum over the corpus gives the score, and
// a signature that says how it was computed. A MetricScore is printed by report.h.
//
//   const auto metric = make_bleu({});
//   const MetricScore score = corpus_score(*metric, hypotheses, references);   // score.name, score.value
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mtf {

/// References of a corpus: references[r][i] is reference r of segment i.
using References = std::vector<std::vector<std::string>>;

struct SignatureField {
  std::string name;
  std::string short_name;
  std::string value;
};

/// The version of sacreBLEU whose figures these are.
inline constexpr const char* kSacrebleuVersion = "2.6.0";

/// How a score was computed, in sacreBLEU's form.
class MetricSignature {
 public:
  void add(std::string name, std::string short_name, std::string value);
  /// "nrefs:1|case:mixed|...", or with short names "#:1|c:mixed|...".
  std::string to_string(bool short_names = false) const;
  const std::vector<SignatureField>& fields() const { return fields_; }

 private:
  std::vector<SignatureField> fields_;
};

class TextMetric {
 public:
  virtual ~TextMetric() = default;
  /// "BLEU", "chrF2++", "TER".
  virtual std::string name() const = 0;
  /// Numbers per segment.
  virtual size_t width() const = 0;
  /// Sets `statistics` to the numbers of a segment. There is at least one reference.
  virtual void measure(const std::string& hypothesis, std::span<const std::string* const> references,
                       std::span<double> statistics) = 0;

  /// The score of summed statistics.
  virtual double value(std::span<const double> sums) const = 0;
  /// The same in single precision, in which sacreBLEU computes the scores of resampled corpora.
  virtual double value(std::span<const float> sums) const = 0;
  /// The same where sacreBLEU keeps counts as integers: in the trials of approximate randomization.
  virtual double trial_value(std::span<const double> sums) const { return value(sums); }
  /// Whether `value` of floats is a float: BLEU ends with an exponential in double precision.
  virtual bool single_precision_value() const { return true; }

  /// What stands behind the score in a report; may be empty.
  virtual std::string details(std::span<const double> /*sums*/) const { return {}; }
  /// The metric's own fields.
  virtual void sign(MetricSignature& signature) const = 0;
};

/// A 95 % confidence interval: mean ± half_width.
struct Confidence {
  double mean = 0;
  double half_width = 0;
  int64_t samples = 0;
  std::string seed;
  bool single_precision = false;  ///< both numbers are floats
};

struct MetricScore {
  std::string name;
  double value = 0;
  std::string details = {};
  std::optional<Confidence> confidence = {};
  MetricSignature signature = {};
};

/// The statistics of all segments, one row each.
class SegmentStatistics {
 public:
  /// Throws Error (kUsage) when the numbers of hypotheses and references differ or there are none.
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

/// Throws Error (kUsage) as SegmentStatistics does. `bootstrap_samples` > 1 adds a confidence interval.
MetricScore corpus_score(TextMetric& metric, std::span<const std::string> hypotheses,
                         const References& references, int64_t bootstrap_samples = 0);

/// Corpora that were drawn for a signature to tell: "bs" by bootstrap resampling, "ar" by approximate
/// randomization.
struct Resampling {
  std::string kind;
  int64_t samples = 0;
  std::string seed;
};

/// The signature of a score of `metric` against `references` references per segment.
MetricSignature signature_of(const TextMetric& metric, size_t references,
                             const std::optional<Resampling>& resampling = std::nullopt);

/// Throws Error (kUsage) with both counts when there are not as many lines in each of `references` as there
/// are hypotheses, or no lines at all. Names are those of the files.
void check_line_counts(size_t hypotheses, const std::string& hypothesis_name, const References& references,
                       const std::vector<std::string>& reference_names);

}  // namespace mtf
