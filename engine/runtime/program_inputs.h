// ProgramInputs is the memory of a program's inputs: one block, which begins with the number of the step. The
// block of a device is filled through host memory while the device works with the inputs before.
//
//   ProgramInputs inputs(backend, {.., ..});
//   copy(.., inputs.fill(0));        // values for the next run
//   inputs.set_step(17);
//   inputs.send();                   // then enqueue the run, whose kernels read inputs.address(0)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"

namespace mtf {

class ProgramInputs {
 public:
  /// `bytes` is the size of each input with all of its copies, in whole cache lines.
  ProgramInputs(Backend& backend, const std::vector<int64_t>& bytes);

  /// The memory of an input, which kernels read.
  std::byte* address(size_t input) const { return memory_->data() + offsets_[input + 1]; }
  /// The number of the step, in the same memory.
  const uint64_t* step() const { return reinterpret_cast<const uint64_t*>(memory_->data()); }
  /// Host memory for new values of an input. All of them must be set before send().
  std::byte* fill(size_t input) { return fill_part(input + 1); }
  void set_step(uint64_t step);
  /// Sends what was filled to the device; the other inputs keep their values.
  void send();

 private:
  /// The host memory of a part: 0 is the step, i + 1 is input i.
  std::byte* fill_part(size_t part);

  std::vector<int64_t> offsets_;  ///< by part, and the size of the block at the end
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<BlockTransfer> transfer_;  ///< null on the host
  std::byte* block_ = nullptr;    ///< the block that is being filled; null if nothing is filled yet
  std::vector<bool> filled_;      ///< by part
  std::vector<BlockPart> parts_;  ///< what send() sends
};

/// The size of the block of inputs of these sizes.
int64_t input_block_bytes(int64_t bytes_of_inputs);

}  // namespace mtf
