// Plans the decoding of a batch: the number of texts, and the sizes of the programs as the texts grow.
//
//   const DecodePlanner planner(environment, options);
//   texts = texts.first(planner.fitting(texts.front().length()));
//   const DecodePlan first = planner.first(texts);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/config/infer_options.h"
#include "trainer/decode/programs.h"
#include "trainer/decode/text_rules.h"

namespace mtf {

/// The input of the decoding of one text.
struct GivenText {
  std::vector<int32_t> inputs;  ///< tokens of the encoder, with end-of-sequence token; empty without encoder
  std::vector<int32_t> prefix;  ///< tokens with which the written text begins
  /// The first `prompt` tokens of `prefix`, to which a prefix language model attends in both directions.
  int64_t prompt = 0;
  int64_t limit = 1;      ///< maximum number of tokens after the prefix, including the end-of-sequence token
  uint64_t number = 0;    ///< number of the text in the input, which makes the samples of equal texts differ
  bool is_blank = false;  ///< the encoder has nothing to read, and no prefix begins the text: it is empty

  size_t length() const { return inputs.size() + prefix.size(); }
};

class DecodePlanner {
 public:
  /// Both arguments must outlive the planner.
  DecodePlanner(const DecodeEnvironment& environment, const DecodeOptions& options);

  /// Returns how many texts are decoded at a time, of which the longest one has so many tokens: batch_size, or fewer.
  size_t fitting(size_t longest) const;
  /// Returns the maximum number of tokens after the prefix. The model does not read the last one.
  int64_t limit(const GivenText& given) const;
  /// Returns the plan of the programs that read the prefixes and write the first tokens.
  DecodePlan first(std::span<const GivenText> texts) const;
  /// Returns the length of caches, in tokens, that can hold `tokens` tokens. Short caches double in
  /// length, since each new length costs a program and a copy of what is filled; attention reads no more than that.
  int64_t memory(int64_t tokens) const;
  /// Sets the length of the caches, and with it what the programs answer.
  void set_memory(DecodePlan& plan, int64_t memory) const;
  const TextRules& rules() const { return rules_; }
  /// The size of the target vocabulary.
  int64_t vocabulary() const { return vocabulary_; }
  std::optional<int64_t> longest() const { return environment_.decoder.longest_text(); }

 private:
  const DecodeEnvironment& environment_;
  const DecodeOptions& options_;
  int64_t vocabulary_;
  TextRules rules_;
};

}  // namespace mtf
