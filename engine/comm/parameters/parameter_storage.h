// The interface between a ParameterService, which knows nothing of models, and the arithmetic on its
// variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mtf {

/// The tensors that a worker has pushed, in the order of ParameterStorage::pushed_parts().
using PushedTensors = std::vector<std::vector<std::byte>>;

/// A pushed tensor: one of the terms that are summed to a gradient.
struct PushedPart {
  size_t gradient = 0;  ///< index among the gradients of this server
  size_t bytes = 0;
};

/// Only one function may be called at a time, except add().
class ParameterStorage {
 public:
  virtual ~ParameterStorage() = default;
  /// Returns the memory of a variable; empty if it is not on this server.
  virtual std::span<std::byte> variable(uint32_t id) = 0;
  /// Says at which step of the run a variable began with its initial value; the chief says it with each value that it sets.
  virtual void set_begin(uint32_t id, int64_t step) = 0;
  /// Returns the number of gradients with which this server updates its variables.
  virtual size_t gradients() const = 0;
  /// Returns the tensors that a worker pushes to this server in a step.
  virtual std::vector<PushedPart> pushed_parts(int worker) const = 0;
  /// Sums a gradient from the tensors of these workers (synchronous: all workers, in order). Several threads
  /// may add different gradients at the same time.
  virtual void add(size_t gradient, std::span<const PushedTensors* const> workers) = 0;
  /// Returns the sums of squares of the gradients that add() has computed, in their order: as many numbers as
  /// the chief expects.
  virtual std::vector<double> squares() = 0;

  struct Outcome {
    double grad_norm = 0;
    bool finite = true;
  };
  /// Updates the variables with the gradients that add() has computed. `squares` are those of all gradients
  /// of the run.
  virtual Outcome update(int64_t step, double rate_scale, double loss, std::span<const double> squares) = 0;
};

}  // namespace mtf
