// The synthetic task of the toy model: reproduce the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"
#include "engine/core/random.h"

namespace mtf {

/// Features `x` float32 [dimension] and `y` = `x`. Element i of example r is uniform(0, 1): key
/// XXH3_64("data/identity", seed), stream kData, step 0, element r * size + i. Nothing is stored.
class IdentitySource final : public Source {
 public:
  IdentitySource(int64_t examples, Dimension dimension, uint64_t seed);

  int64_t examples() const override { return examples_; }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  /// Options and seed, which are compared, say everything.
  std::string fingerprint() const override { return "made of random numbers"; }

 private:
  int64_t examples_;
  std::vector<Feature> features_;
  PhiloxKey key_;
};

}  // namespace mtf
