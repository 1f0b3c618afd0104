// Layers that stand in a model many times (repeat, num_layers) make operations for each copy.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/graph/graph.h"

namespace mtf {

/// The most operations that a model with repeated layers may have in its forward pass: with gradients and
/// updates, about 2 GB and ten seconds to build. A layer of a Transformer has 20 to 60.
inline constexpr int64_t kMostOperations = 100'000;
/// The most elements that their tensors may have together: bytes of all that is kept for them are still
/// counted in 64 bits.
inline constexpr double kMostElements = 1e16;
/// No model needs more copies of one layer.
inline constexpr double kMostCopies = 100'000;

/// Refuses a model that would become too large as soon as its first copy tells how large each is: made before
/// the first copy, asked after it.
class CopyLimit {
 public:
  explicit CopyLimit(Graph& graph) : graph_(graph), before_(operations()) {}

  /// Throws Error (kConfig) that names `key`, which asks for `copies`.
  void check(std::string_view key, int64_t copies, const Mark& mark = {}) const;

 private:
  int64_t operations() const { return static_cast<int64_t>(graph_.current_block().size()); }

  Graph& graph_;
  const int64_t before_;
};

}  // namespace mtf
