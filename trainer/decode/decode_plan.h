// What decoding of a batch of texts begins with and grows to: how many texts, and the sizes of its programs.
//
//   const DecodePlanner planner(environment, options);
//   texts = texts.first(planner.fitting(texts));
//   const DecodePlan first = planner.first(texts);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/config/infer_options.h"
#include "trainer/decode/programs.h"

namespace mtf {

/// What is to be written.
struct GivenText {
  std::vector<int32_t> inputs;  ///< of the encoder, with the end of sequence; empty without encoder
  std::vector<int32_t> prefix;  ///< how the text begins
  int64_t prompt = 0;           ///< tokens of it that a prefix language model sees as a whole
  int64_t limit = 1;            ///< tokens behind the prefix at most, the end of sequence included
  uint64_t number = 0;          ///< of the text among all: makes samples differ

  size_t length() const { return inputs.size() + prefix.size(); }
};

class DecodePlanner {
 public:
  /// Both must outlive it.
  DecodePlanner(const DecodeEnvironment& environment, const DecodeOptions& options);

  /// So many of the first texts are worked on at a time: fewer where they are long.
  size_t fitting(std::span<const GivenText> texts) const;
  /// Tokens that can be written behind the prefix. The last of them is not read any more.
  int64_t limit(const GivenText& given) const;
  /// The programs of the first tokens.
  DecodePlan first(std::span<const GivenText> texts) const;
  /// Tokens that the caches must have room for when so many are read and one more is.
  int64_t memory(int64_t tokens) const { return length_bucket(tokens, longest()); }
  std::optional<int64_t> longest() const { return environment_.decoder.longest_text(); }

 private:
  const DecodeEnvironment& environment_;
  const DecodeOptions& options_;
  int64_t vocabulary_;  ///< ids of targets
};

}  // namespace mtf
