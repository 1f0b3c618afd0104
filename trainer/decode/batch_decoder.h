// BatchDecoder decodes any number of texts, in batches of similar lengths. Threads work on batches of their own where there
// are texts enough, and together on one where there are not.
//
//   BatchDecoder decoder(programs, weights, options);
//   const std::vector<Written> written = *decoder.decode(texts);
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/decode/decoder.h"

namespace mtf {

/// How texts are decoded: `decoders` batches at a time, each of at most `batch_size` texts and with `threads` threads.
struct DecodeShares {
  int decoders = 1, threads = 1;
  int64_t batch_size = 1;
  /// Texts enter a batch as others end: where a step takes about as long for fewer texts, on a GPU, and where texts are split
  /// between positions, of which a batch that becomes smaller moves some from process to process. Elsewhere that saves less than
  /// reading a few texts at a time costs.
  bool refills = false;
  /// The options of one of the decoders.
  DecodeOptions options_of(DecodeOptions all) const {
    all.batch_size = std::max<int64_t>(1, all.batch_size / decoders);
    return all;
  }
};

/// Returns the shares of `texts` texts: in all at most options.batch_size texts at a time.
DecodeShares decode_shares(const Session& session, const DecodeOptions& options, int64_t texts);

class BatchDecoder {
 public:
  /// `programs` and `weights` must outlive the decoder; the weights may change between calls of decode().
  BatchDecoder(DecodePrograms& programs, VariableStore& weights, const DecodeOptions& options)
      : programs_(programs), weights_(weights), options_(options) {}

  /// Returns what is written for each text, in the order of `texts`: no tokens for blank ones. Nullopt if `stop` returned true
  /// before the end. Throws Error (kDiverged) when the model's probabilities are NaN.
  std::optional<std::vector<Written>> decode(const std::vector<GivenText>& texts,
                                             const std::function<bool()>& stop = {});

 private:
  class Batches;
  /// A decoder; all but the first one have programs of their own.
  struct Worker {
    std::unique_ptr<DecodePrograms> programs;
    std::unique_ptr<Decoder> decoder;
  };
  void make_workers(const DecodeShares& shares);

  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodeOptions options_;
  std::vector<Worker> workers_;  ///< as many as the latest call of decode() has needed
};

}  // namespace mtf
