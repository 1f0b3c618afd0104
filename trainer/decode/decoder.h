// Decodes texts with the model, a batch at a time: where texts of the batch have ended, others enter it. The result of a text
// does not depend on the others.
//
//   DecodePrograms programs(session);
//   Decoder decoder(programs, weights, options, threads);
//   const std::vector<Written> written = *decoder.decode(texts, 64);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
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

  /// Decodes the texts in their order, at most `batch_size` at a time; it is fastest if texts of like length are neighbours, the
  /// longest ones first. Each result is the one that the text would have alone, up to rounding (docs/decoding.md). Nothing is
  /// returned if `stop` returned true, which is asked before texts are read. Throws Error (kDiverged) when the model's
  /// probabilities are NaN.
  std::optional<std::vector<Written>> decode(std::span<const GivenText> texts, size_t batch_size,
                                             const std::function<bool()>& stop = {});

 private:
  class Batch;
  /// Stages are known by their sizes, and those that texts enter by, by the half of the memory where their caches lie.
  using StageKey = std::pair<DecodePlan::Key, int>;
  static StageKey key_of(const DecodePlan& plan, StageUse use, const CachePlace& place) {
    return {plan.key(), use == StageUse::kEnters ? static_cast<int>(place.half) : -1};
  }
  /// The threads that draw from all tokens.
  ThreadPool& drawers();
  /// Returns the stage of these sizes for a batch that is at the stage `before`, null for a new batch.
  DecodeStage& stage(const DecodePlan& plan, const DecodeStage* before);
  /// Returns the stage by which texts enter a batch that is, and stays, at the stage `running`.
  DecodeStage& entering_stage(const DecodePlan& plan, const DecodeStage& running);
  /// `keeps`: the most recently used stage is in use.
  DecodeStage& stage(const DecodePlan& plan, StageUse use, const CachePlace& place, bool reads, bool keeps);
  /// Removes the least recently used stages until another one of `bytes` bytes of its own has room. If the shared memory is less
  /// than it needs, removes all that have the present one, but the latest if that is in use.
  void make_room(int64_t bytes, const DecodeMemory::Need& need, size_t half, bool is_latest_used);

  DecodeOptions options_;
  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlanner planner_;
  DecodeMemory memory_;
  std::unique_ptr<ThreadPool> drawers_;  ///< on a GPU, whose work needs one thread
  PhiloxKey key_;
  std::map<StageKey, std::unique_ptr<DecodeStage>> stages_;
  std::vector<StageKey> recent_;  ///< keys of stages_, the most recently used last
};

}  // namespace mtf
