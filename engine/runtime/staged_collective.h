// Runs a collective between processes on operands in device memory over a communicator that only accesses
// host memory: the operands are staged in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"

namespace mtf {

/// Host buffers that stand in for slices in device memory.
class StagedSlices {
 public:
  explicit StagedSlices(Backend& backend) : backend_(backend) {}
  /// The host buffer for the `bytes` bytes at `device`. Equal addresses get the same buffer.
  std::byte* host(std::byte* device, int64_t bytes);
  void read();   ///< copies all slices from the device
  void write();  ///< copies all slices to the device

 private:
  struct Entry {
    std::byte* device;
    std::vector<std::byte> host;
  };
  Backend& backend_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

/// Wraps `collective`, which works on the host buffers of `inputs` and `results`.
std::unique_ptr<RemoteCollective> make_staged_collective(std::unique_ptr<RemoteCollective> collective,
                                                         StagedSlices inputs, StagedSlices results);

}  // namespace mtf
