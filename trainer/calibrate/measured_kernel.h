// Times an operation's kernel on operands of its own: the processor time of the calling thread, or on a GPU, where executions
// are recorded as those of a step are, the time until it is done. As in a training step, operands have left the nearest caches
// since they were written: one execution after the other takes the next of several sets of operands.
//
//   MeasuredKernel kernel(einsum({x, w}, {batch, hidden}).operation(), backend, 8 << 20);
//   kernel.seconds(5);      // of one execution with all tasks
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/graph/operation.h"
#include "engine/spmd/work.h"

namespace mtf {

/// Returns the least time in seconds that `run` takes on `backend`, of `rounds` rounds of about 20 ms.
double least_seconds(Backend& backend, int rounds, const std::function<void()>& run);

class MeasuredKernel {
 public:
  /// Operands have small positive numbers; integers are 1. Their sets take at least `bytes_between` together. With `in_place`
  /// results take the memory of operands where the operation allows that.
  MeasuredKernel(const Operation& operation, Backend& backend, double bytes_between, bool in_place = false);

  /// Returns the least time of an execution, of `rounds` rounds of about 20 ms.
  double seconds(int rounds);
  /// Executes all tasks once.
  void run();
  /// Bytes of all operands and results.
  double bytes() const { return bytes_; }
  /// What an execution does, but its bytes.
  const Work& work() const { return work_; }

 private:
  struct Operands {
    std::vector<Slice> inputs, outputs;
  };
  /// Memory of its own with these bytes.
  Slice slice(const std::vector<std::byte>& data);

  Backend& backend_;
  int64_t begin_[16] = {};
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<Operands> sets_;
  size_t next_ = 0;  ///< the set of the next execution
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Recording> recording_;  ///< executions on all sets; null on the host
  std::unique_ptr<DeviceMemory> scratch_, step_;
  double bytes_ = 0;
  Work work_;
};

}  // namespace mtf
