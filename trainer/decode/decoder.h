// Decodes a batch of texts with the model. The result of a text does not depend on the others of its batch.
//
//   DecodePrograms programs(session);
//   Decoder decoder(programs, weights, options, threads);
//   const std::vector<Written> written = decoder.decode(texts);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/decode/decode_plan.h"
#include "trainer/decode/decode_stage.h"
#include "trainer/decode/search.h"

namespace mtf {

/// The hypotheses of one text: those of beam search with the best first, or samples by their number.
using Written = std::vector<Hypothesis>;

/// The limits on the stages that a Decoder keeps for further texts: their number, and the bytes that they do not share.
constexpr int64_t kKeptStageBytes = 16'000'000;
/// Those on a GPU have recordings, which are not counted.
inline size_t kept_stages(const Session& session) { return session.backend->is_host() ? 64 : 24; }

class Decoder {
 public:
  /// `programs` and `weights` must outlive the decoder; the weights may change between calls of decode().
  Decoder(DecodePrograms& programs, VariableStore& weights, const DecodeOptions& options, int threads);
  Decoder(const Decoder&) = delete;

  /// Decodes the texts. Each result is the one that the text would have alone, up to rounding (docs/decoding.md). Throws Error
  /// (kDiverged) when the model's probabilities are NaN.
  std::vector<Written> decode(std::span<const GivenText> texts);

 private:
  class Batch;
  /// Returns the stage of these sizes for a batch that is at the stage `before`, null for a new batch.
  DecodeStage& stage(const DecodePlan& plan, const DecodeStage* before);
  /// Removes the least recently used stages until another one of `bytes` bytes of its own has room. If the shared memory is less
  /// than it needs, removes all that have the present one, but the latest if that is in use.
  void make_room(int64_t bytes, const DecodeMemory::Need& need, size_t half, bool is_latest_used);

  DecodeOptions options_;
  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlanner planner_;
  DecodeMemory memory_;
  PhiloxKey key_;
  std::map<DecodePlan::Key, std::unique_ptr<DecodeStage>> stages_;
  std::vector<DecodePlan::Key> recent_;  ///< keys of stages_, the most recently used last
};

}  // namespace mtf
