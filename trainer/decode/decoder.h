// Decodes texts with the model in batches. The result of a text does not depend on the others of its batch.
//
//   DecodePrograms programs(session);
//   Decoder decoder(programs, weights, options);
//   const std::vector<Written> written = decoder.decode(texts);
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

/// The hypotheses of one text: those of beam search with the best first, or samples by their number.
using Written = std::vector<Hypothesis>;

class Decoder {
 public:
  /// `programs` and `weights` must outlive the decoder; the weights may change between calls of decode().
  Decoder(DecodePrograms& programs, VariableStore& weights, const DecodeOptions& options);
  Decoder(const Decoder&) = delete;

  /// The number of texts with which decode() is best called.
  int64_t batch_size() const { return options_.batch_size; }
  /// The model's maximum number of positions, for the encoder's input and for a text with its prefix; nullopt
  /// if there is no maximum.
  std::optional<int64_t> longest_text() const { return planner_.longest(); }
  /// Decodes the texts. Each result is the one that the text would have alone, up to rounding. Throws Error
  /// (kDiverged) when the model's probabilities are NaN.
  std::vector<Written> decode(std::span<const GivenText> texts);

 private:
  class Batch;
  DecodeStage& stage(const DecodePlan& plan);
  /// Removes the least recently used stages until there is room for a stage of `bytes` bytes.
  void make_room(int64_t bytes);

  DecodeOptions options_;
  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlanner planner_;
  PhiloxKey key_;
  std::map<DecodePlan::Key, std::unique_ptr<DecodeStage>> stages_;
  std::vector<DecodePlan::Key> recent_;  ///< keys of stages_, the most recently used last
};

}  // namespace mtf
