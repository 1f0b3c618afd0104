// Estimates the memory that decoding takes in this process besides the weights: the programs of a batch and
// their caches, from the first token to the last.
//
//   const DecodingMemory decoding(programs, config.infer);
//   decoding.bytes(texts)            // an upper bound: no text ends before its limit
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/decode/batch_decoder.h"
#include "trainer/memory/memory_check.h"

namespace mtf {

/// Those that are not blank: the others are not decoded.
std::vector<GivenText> decoded_texts(std::vector<GivenText> texts);

class DecodingMemory {
 public:
  /// Both arguments must outlive the object.
  DecodingMemory(DecodePrograms& programs, const DecodeOptions& options);

  /// Returns the bytes that a BatchDecoder needs for `texts`, if all that it decodes at a time are as long as the longest ones. It
  /// compiles the programs.
  DecodingBytes bytes(std::span<const GivenText> texts) const;
  /// Returns the memory of run.mode=infer, including the weights.
  RunMemory need(std::span<const GivenText> texts) const;
  /// Throws Error (kMemory) when `texts` need more memory than the run may use; `section` is that of the options ("infer").
  /// Batches that are not larger than one that passed are not checked again.
  void check(std::span<const GivenText> texts, std::string_view section);

 private:
  struct Sizes;
  DecodeShares shares(std::span<const GivenText> texts) const {
    return decode_shares(programs_.environment().session, options_, std::ssize(texts));
  }
  Sizes sizes_of(std::span<const GivenText> texts, const DecodeShares& shares) const;

  DecodePrograms& programs_;
  const DecodeOptions& options_;
  /// The number of decoders, the sizes of a batch (texts, inputs, prefix and caches), and whether texts enter it.
  using Checked = std::array<int64_t, 6>;
  std::vector<Checked> checked_;  ///< what has passed the check
};

/// Returns the memory of evaluations that decode texts, with a function that advises on sizes of batch and beam. Both
/// arguments must outlive that function.
DecodingNeed evaluation_decoding(const Session& session, std::span<const EvaluationSet> sets);

}  // namespace mtf
