// The key `sampling` of a source of texts: their tokens are drawn anew in each epoch of training.
//
//   const BySide<std::optional<SubwordSampling>> sides = sampling_of(*options.sampling, sides_in_rows(options));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/sides.h"
#include "data/vocabulary/subword_sampling.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/config/schema.h"
#include "engine/core/random.h"

namespace mtf {

/// One number for all features, or one for each of those that have it.
using RateBySide = std::variant<double, config::Named<double>>;

struct SamplingOptions {
  std::optional<RateBySide> alpha;
  std::optional<RateBySide> dropout;
};

void describe(config::Visitor& visit, SamplingOptions& options);

/// What is drawn on each of `sides`.
BySide<std::optional<SubwordSampling>> sampling_of(const SamplingOptions& options,
                                                   const std::vector<Side>& sides);

/// What draws the tokens of an epoch: those of text i on all sides are a pure function of `key`, i and `epoch`.
struct EpochSampling {
  BySide<std::optional<SubwordSampling>> sampling;
  BySide<std::shared_ptr<const SubwordSampler>> samplers;  ///< nullptr where nothing is drawn
  PhiloxKey key;
  int64_t epoch = 0;

  /// A text that differs where the tokens do.
  std::string to_string() const;
};

/// What a vocabulary offers and `wanted` is not.
struct SamplingRefusal {
  std::string message, hint;
};
/// `offered`: how the vocabulary finds its pieces; nothing: in another way.
SamplingRefusal refusal_of(Side side, SegmentationKind wanted, std::optional<SegmentationKind> offered);

}  // namespace mtf
