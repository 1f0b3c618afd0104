// Segmentations of texts that are drawn by chance, for training: subword regularisation.
//
//   const std::unique_ptr<SubwordSampler> sampler = vocabulary->sampler({SegmentationKind::kUnigram, 0.1});
//   Draws draws(random_key("data.sampling/", seed), example, epoch);
//   const std::vector<int32_t> ids = sampler->encode("Ein Haus .", draws);
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/draws.h"

namespace mtf {

/// How a vocabulary finds the pieces of a text. kUnigram: a segmentation has a probability P, the product of those of its
/// pieces. kMerges: pieces grow out of characters by merges of neighbours.
enum class SegmentationKind { kUnigram, kMerges };

/// A distribution of the segmentations of a text.
struct SubwordSampling {
  SegmentationKind kind = SegmentationKind::kUnigram;
  /// kUnigram: the exponent alpha > 0; a segmentation is drawn with a probability in proportion to P^alpha, among all of
  /// them (Kudo: Subword regularization, 2018). kMerges: the probability p of 0 to 1 with which each possible merge is left
  /// out when the next one is chosen (Provilkov et al.: BPE-dropout, 2020, algorithm 1).
  double rate = 0;

  friend bool operator==(const SubwordSampling&, const SubwordSampling&) = default;
};

/// Draws segmentations. Immutable: several threads may use one, each with draws of its own. The vocabulary must outlive it.
class SubwordSampler {
 public:
  virtual ~SubwordSampler() = default;
  /// Returns ids whose decode() is that of the vocabulary's encode(text).
  virtual std::vector<int32_t> encode(std::string_view text, Draws& draws) const = 0;
};

}  // namespace mtf
