// BLEU, chrF and TER of what the model writes for a data set's texts, against references as people wrote
// them.
//
//   TextMetrics metrics(session, weights);
//   metrics.evaluate(texts, {"bleu", "chrf"})      // decoded once
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/evaluation_texts.h"
#include "trainer/decode/decoder.h"
#include "trainer/decode/text_codec.h"
#include "trainer/report/metrics.h"

namespace mtf {

/// Texts 0 .. of each in the order of `lines`: those of equal length together, `decoder` at a time. Nothing
/// when `stop` came true before the end.
std::optional<std::vector<Written>> decode_all(Decoder& decoder, const std::vector<GivenText>& texts,
                                               const std::function<bool()>& stop = {});

class TextMetrics {
 public:
  /// Decodes by evaluate.infer with `weights`, which may change between calls. Throws Error (kConfig) when
  /// the model writes no texts.
  TextMetrics(const Session& session, VariableStore& weights);

  /// In the order of `names`. Nothing when `stop` came true before the end.
  std::optional<Metrics> evaluate(const EvaluationTexts& texts, const std::vector<std::string>& names,
                                  const std::function<bool()>& stop);

 private:
  TextCodec codec_;
  DecodePrograms programs_;
  Decoder decoder_;
};

}  // namespace mtf
