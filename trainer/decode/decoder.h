// Texts written by the model: many at a time, each as if it were alone.
//
//   Decoder decoder(session, weights, options);
//   const std::vector<Written> written = decoder.decode(texts);     // a batch
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/decode/programs.h"
#include "trainer/decode/search.h"
#include "trainer/infer_options.h"

namespace mtf {

/// What is to be written.
struct GivenText {
  std::vector<int32_t> inputs;  ///< of the encoder, with the end of sequence; empty without encoder
  std::vector<int32_t> prefix;  ///< how the text begins
  int64_t limit = 1;            ///< tokens behind the prefix at most, the end of sequence included
  uint64_t number = 0;          ///< of the text among all: makes samples differ
};

/// The hypotheses of a text, the best first; of samples in the order of their numbers.
using Written = std::vector<Hypothesis>;

class Decoder {
 public:
  /// `session` and `weights` must outlive it; the weights may change between calls.
  Decoder(const Session& session, VariableStore& weights, const DecodeOptions& options);
  Decoder(const Decoder&) = delete;

  /// Texts that decode() is best given at a time.
  int64_t batch_size() const { return options_.batch_size; }
  /// Places of a row of the encoder, and of a text with its prefix; nothing: any number.
  std::optional<int64_t> longest_text() const { return environment_.decoder.longest_text(); }
  /// The results are those that each text alone gives, up to rounding. Throws Error (kDiverged) when the
  /// model's probabilities are NaN.
  std::vector<Written> decode(std::span<const GivenText> texts);

 private:
  class Batch;
  /// So many of the first texts are worked on at a time.
  size_t fitting(std::span<const GivenText> texts) const;
  DecodeStage& stage(const DecodePlan& plan);

  DecodeOptions options_;
  DecodeEnvironment environment_;
  int64_t vocabulary_;  ///< ids of targets
  PhiloxKey key_;
  using Key = decltype(std::declval<DecodePlan>().key());
  std::map<Key, std::unique_ptr<DecodeStage>> stages_;
  std::vector<Key> recent_;  ///< keys of stages_, the latest use last
};

}  // namespace mtf
