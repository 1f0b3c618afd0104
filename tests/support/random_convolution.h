// Random convolutions and their gradients, for tests on all devices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/ops/convolution.h"
#include "tests/support/operation_cases.h"
#include "tests/support/random_windows.h"

namespace mtf::testing {

/// Entries, filter and the windows along up to three dimensions `rows`, `cols` and `depth`, whose places in the filter are
/// `k0`, `k1` and `k2`; other dimensions are `batch`, `images`, `group`, `in` and `out`.
struct RandomConvolution {
  Shape entries, filter, groups;  ///< in a transposed convolution `entries` has the windows
  std::vector<Window> windows;
  bool transposed = false;

  std::string to_string() const;
};

/// All sizes but those of the filter are multiples of `parts`, or 1.
RandomConvolution random_convolution(std::mt19937& random, int64_t parts);

/// As above, but for the method of engine/backend/cpu/contractions/winograd.h: filters of 3 x 3 and many channels.
RandomConvolution random_convolution_in_tiles(std::mt19937& random, int64_t parts);

/// Windows of window x window over two small images. Over one channel neighbouring windows are neighbours in memory; rows of few
/// channels are shorter than a vector.
RandomConvolution convolution_of_few_channels(int64_t channels, int64_t window);

/// A mesh whose dimensions all have the size `parts`.
struct EvenMesh {
  std::string text;  ///< as for layouts()
  int64_t parts;
};
EvenMesh random_mesh(std::mt19937& random);

/// What a layout splits: each dimension of the mesh splits one of the convolution, as long as there are some that are not
/// those of the filter's windows.
struct RandomSplit {
  std::vector<std::string> dimensions;
  std::string rules;  ///< as for layouts(); empty: nothing can be split
};
RandomSplit random_split(std::mt19937& random, const RandomConvolution& g, const EvenMesh& mesh);

struct BuiltConvolution {
  Graph graph;
  std::map<std::string, Values> feeds;
};

/// A graph with inputs x, f and dy and outputs y, the result, and dx and df, its gradients for the cotangent dy.
std::unique_ptr<BuiltConvolution> build_convolution(const RandomConvolution& g, uint32_t seed,
                                                    DType dtype = DType::kFloat32);

}  // namespace mtf::testing
