// What a parameter server does with its variables: the arithmetic behind a ParameterService, which knows
// nothing of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mtf {

/// Tensors that a worker has pushed, in the order of ParameterStorage::pushed_parts.
using PushedTensors = std::vector<std::vector<std::byte>>;

/// One of them: a part of the sum that makes a gradient.
struct PushedPart {
  size_t gradient = 0;  ///< of this server, counted from 0
  size_t bytes = 0;
};

/// One call at a time, but for add().
class ParameterStorage {
 public:
  virtual ~ParameterStorage() = default;
  /// The memory of a variable; empty: it is not here.
  virtual std::span<std::byte> variable(uint32_t id) = 0;
  /// Number of gradients that this server updates its variables with.
  virtual size_t gradients() const = 0;
  /// What a worker pushes to this server in a step.
  virtual std::vector<PushedPart> pushed_parts(int worker) const = 0;
  /// Adds up a gradient from what these workers have pushed (synchronous: all of them, in order). Several
  /// threads may add different ones at the same time.
  virtual void add(size_t gradient, std::span<const PushedTensors* const> workers) = 0;
  /// Sums of squares of the gradients that add() has made, in their order: as many numbers as the chief
  /// expects.
  virtual std::vector<double> squares() = 0;

  struct Outcome {
    double grad_norm = 0;
    bool finite = true;
  };
  /// Updates the variables with the gradients that add() has made. `squares`: of all gradients of the run.
  virtual Outcome update(int64_t step, double rate_scale, double loss, std::span<const double> squares) = 0;
};

}  // namespace mtf
