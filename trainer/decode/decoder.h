// Texts written by the model: many at a time, each as if it were alone.
//
//   DecodePrograms programs(session);
//   Decoder decoder(programs, weights, options);
//   const std::vector<Written> written = decoder.decode(texts);     // a batch
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/decode/decode_plan.h"
#include "trainer/decode/search.h"

namespace mtf {

/// The hypotheses of a text, the best first; of samples in the order of their numbers.
using Written = std::vector<Hypothesis>;

class Decoder {
 public:
  /// `programs` and `weights` must outlive it; the weights may change between calls.
  Decoder(DecodePrograms& programs, VariableStore& weights, const DecodeOptions& options);
  Decoder(const Decoder&) = delete;

  /// Texts that decode() is best given at a time.
  int64_t batch_size() const { return options_.batch_size; }
  /// Places of a row of the encoder, and of a text with its prefix; nothing: any number.
  std::optional<int64_t> longest_text() const { return planner_.longest(); }
  /// The results are those that each text alone gives, up to rounding. Throws Error (kDiverged) when the
  /// model's probabilities are NaN.
  std::vector<Written> decode(std::span<const GivenText> texts);

 private:
  class Batch;
  DecodeStage& stage(const DecodePlan& plan);
  /// Forgets stages, the longest unused first, until there is room for one of so many bytes.
  void make_room(int64_t bytes);

  DecodeOptions options_;
  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlanner planner_;
  PhiloxKey key_;
  std::map<DecodePlan::Key, std::unique_ptr<DecodeStage>> stages_;
  std::vector<DecodePlan::Key> recent_;  ///< keys of stages_, the latest use last
};

}  // namespace mtf
