// Random graphs of residual layers around norms, for tests of what is fused into norms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/support/operation_cases.h"

namespace mtf::testing {

struct NormLayers {
  DType dtype = DType::kFloat32;
  bool masked = true;        ///< the results of norms are multiplied by a mask
  int64_t microbatches = 1;  ///< more than 1: in a loop
  bool recomputed = false;   ///< each layer is computed again in the backward pass
};

struct RandomNorms {
  std::unique_ptr<Graph> graph;
  std::map<std::string, Values> feeds;
  std::string text;  ///< describes the shapes
};

/// Two layers h = h + tanh(norm(h) * mask) over `n`, at any place of h: [a, b, n]; layer norm or RMS norm. Outputs:
/// the last h, and the gradients of the input and of all parameters. Layouts may split a over up to 8 and n over up
/// to 2 positions.
RandomNorms random_norms(uint32_t seed, const NormLayers& layers);

}  // namespace mtf::testing
