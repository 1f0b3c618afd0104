// Computes BLEU, chrF and TER of the texts that the model generates for a data set, against untokenised
// references.
//
//   TextMetrics metrics(session, weights);
//   metrics.evaluate(texts, {"bleu", "chrf"})      // all from one decoding
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/evaluation_texts.h"
#include "trainer/decode/batch_decoder.h"
#include "trainer/decode/text_codec.h"
#include "trainer/report/metrics.h"

namespace mtf {

/// An example of a data set with the text that the model has written for it.
struct DecodedSample {
  int64_t example = 0;  ///< its number in the data set
  std::string input, target, prediction;
};

struct TextEvaluation {
  Metrics metrics;
  std::vector<DecodedSample> samples;  ///< the first examples
  std::vector<std::string> texts;      ///< [examples]
};

class TextMetrics {
 public:
  /// Decodes with the options evaluate.infer and with `weights`, which may change between calls. Throws Error
  /// (kConfig) when the model does not generate texts.
  TextMetrics(const Session& session, VariableStore& weights);

  /// Returns the metrics in the order of `names`, and some of the texts; nullopt if `stop` returned true before the end.
  std::optional<TextEvaluation> evaluate(const EvaluationTexts& texts, const std::vector<std::string>& names,
                                         const std::function<bool()>& stop);

 private:
  TextCodec codec_;
  DecodePrograms programs_;
  BatchDecoder decoder_;
};

}  // namespace mtf
