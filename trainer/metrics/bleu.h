// BLEU (Papineni et al., 2002), the same as sacreBLEU 2.6 computes.
//
//   const BleuScore bleu = corpus_bleu(hypotheses, {references}, {.tokenizer = BleuTokenizer::kIntl});
//   bleu.score                                // 0 to 100
//   bleu_signature({}, 1).to_string()         // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:..."
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/metrics/bleu_tokenizer.h"
#include "trainer/metrics/metric.h"

namespace mtf {

/// What replaces the precision of an order of which no n-gram matches (Chen and Cherry, 2014).
enum class BleuSmoothing {
  kExp,    ///< 1/2, 1/4, ... of a match for the first such order, the second, ...; as mteval-v13a
  kFloor,  ///< smooth_value matches
  kAddK,   ///< smooth_value is added to matches and n-grams of all orders but the first
  kNone,   ///< 0: so is the score
};

/// "exp", "floor", "add-k", "none".
std::string_view name_of(BleuSmoothing smoothing);
std::optional<BleuSmoothing> smoothing_named(std::string_view name);
std::vector<std::string> smoothing_names();

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::k13a;
  std::string tokenizer_model =
      {};  ///< a .model file for tokenizers that need one; empty: where sacreBLEU keeps it
  BleuSmoothing smoothing = BleuSmoothing::kExp;
  std::optional<double> smooth_value = {};  ///< nothing: 0.1 for kFloor, 1 for kAddK
  bool lowercase = false;
  bool effective_order = false;  ///< orders longer than the text do not count; for single sentences
  size_t max_order = 4;          ///< of n-grams
};

struct BleuScore {
  double score = 0;
  std::vector<double> precisions;  ///< 0 to 100, by the order of n-grams
  double brevity_penalty = 1;
  std::vector<int64_t> matches;  ///< before smoothing
  std::vector<int64_t> totals;
  int64_t hypothesis_length = 0;  ///< in tokens
  int64_t reference_length = 0;   ///< of the references closest in length

  /// "62.3/50.1/40.0/30.9 (BP = 0.956 ratio = 0.957 hyp_len = 2818 ref_len = 2944)".
  std::string details() const;
};

/// references[r][i] is reference r of hypotheses[i]. Throws Error (kUsage) when their numbers differ.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, const References& references,
                      const BleuOptions& options = {});
/// Of one sentence and its references. `options.effective_order` is usually wanted.
BleuScore sentence_bleu(const std::string& hypothesis, std::span<const std::string> references,
                        const BleuOptions& options);

/// A tokenizer with a model also throws what read_pieces() does.
MetricSignature bleu_signature(const BleuOptions& options, size_t references);
std::unique_ptr<TextMetric> make_bleu(const BleuOptions& options);

/// Lines that end in " .": many of them mean that the text was tokenised before, which lowers the score.
int64_t tokenized_lines(std::span<const std::string> lines);

}  // namespace mtf
