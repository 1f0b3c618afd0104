// BLEU (Papineni et al., 2002), with the same results as sacreBLEU 2.6.
//
//   const BleuScore bleu = corpus_bleu(hypotheses, {references}, {.tokenizer = BleuTokenizer::kIntl});
//   bleu.score                                // 0 to 100
//   signature_of(*make_bleu({}), 1).to_string()   // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:..."
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/metrics/bleu_tokenizer.h"
#include "trainer/metrics/metric.h"

namespace mtf {

/// The smoothing of the precision of n-gram orders without a match (Chen and Cherry, 2014).
enum class BleuSmoothing {
  kExp,    ///< 1/2, 1/4, ... matches for the first, second, ... such order, as in mteval-v13a
  kFloor,  ///< smooth_value matches
  kAddK,   ///< smooth_value is added to the matches and n-grams of all orders except the first
  kNone,   ///< the precision, and therefore the score, is 0
};

/// Returns "exp", "floor", "add-k" or "none".
std::string_view name_of(BleuSmoothing smoothing);
std::optional<BleuSmoothing> smoothing_named(std::string_view name);
std::vector<std::string> smoothing_names();

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::k13a;
  /// The .model file of a tokenizer that needs one; empty: the file that sacreBLEU has downloaded.
  std::string tokenizer_model = {};
  BleuSmoothing smoothing = BleuSmoothing::kExp;
  std::optional<double> smooth_value = {};  ///< nullopt: 0.1 for kFloor, 1 for kAddK
  bool lowercase = false;
  bool effective_order = false;  ///< ignores orders longer than the text; for single sentences
  size_t max_order = 4;          ///< largest order of n-grams
};

struct BleuScore {
  double score = 0;
  std::vector<double> precisions;  ///< 0 to 100, by n-gram order
  double brevity_penalty = 1;
  std::vector<int64_t> matches;  ///< by n-gram order, before smoothing
  std::vector<int64_t> totals;
  int64_t hypothesis_length = 0;  ///< in tokens
  int64_t reference_length = 0;   ///< sum of the lengths of the references closest in length

  /// Returns "62.3/50.1/40.0/30.9 (BP = 0.956 ratio = 0.957 hyp_len = 2818 ref_len = 2944)".
  std::string details() const;
};

/// references[r][i] is reference r of hypotheses[i]. Throws Error (kUsage) when their numbers differ.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, const References& references,
                      const BleuOptions& options = {});

/// If the tokenizer has a model, it may throw the errors of read_pieces().
std::unique_ptr<TextMetric> make_bleu(const BleuOptions& options);

/// Returns the number of lines that end in " .". Many of them indicate that the text is tokenised already,
/// which changes the score.
int64_t tokenized_lines(std::span<const std::string> lines);

}  // namespace mtf
