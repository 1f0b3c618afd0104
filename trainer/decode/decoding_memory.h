// What writing texts takes of this process's memory, beside weights: the programs of a batch with their
// caches, from the first tokens to the last.
//
//   const DecodingMemory decoding(programs, config.infer);
//   decoding.bytes(texts)            // at most: when no text ends before its limit
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/decode/decode_plan.h"
#include "trainer/memory/memory_check.h"

namespace mtf {

class DecodingMemory {
 public:
  /// Both must outlive it.
  DecodingMemory(DecodePrograms& programs, const DecodeOptions& options);

  /// What a Decoder takes for `texts`, the longest of them together. Its programs are compiled.
  int64_t bytes(std::span<const GivenText> texts) const;
  /// With weights, for run.mode=infer.
  MemoryNeed need(std::span<const GivenText> texts) const;
  /// Throws Error (kMemory) when `texts` need more than the run may take; `key` names the batch size. Texts
  /// that are not larger than some before are not looked at again.
  void check(std::span<const GivenText> texts, const std::string& key);

 private:
  struct Sizes;
  Sizes sizes_of(std::span<const GivenText> texts) const;

  DecodePrograms& programs_;
  const DecodeOptions& options_;
  DecodePlanner planner_;
  std::vector<std::array<int64_t, 4>> checked_;  ///< sizes of batches that fit
};

/// What evaluations that write texts take; both must outlive the advice, which is on batch sizes.
DecodingNeed evaluation_decoding(const Session& session, std::span<const EvaluationSet> sets);

}  // namespace mtf
