// A collective between processes whose operands are in the memory of a device, over a communicator that reads
// and writes the host's: they pass through host memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"

namespace mtf {

/// Host memory in the place of slices of a device.
class StagedSlices {
 public:
  explicit StagedSlices(Backend& backend) : backend_(backend) {}
  /// The host memory for `bytes` bytes at `device`, the same for the same place.
  std::byte* host(std::byte* device, int64_t bytes);
  void read();   ///< from the device
  void write();  ///< to it

 private:
  struct Entry {
    std::byte* device;
    std::vector<std::byte> host;
  };
  Backend& backend_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

/// `collective` works on the host memory of `inputs` and `results`.
std::unique_ptr<RemoteCollective> make_staged_collective(std::unique_ptr<RemoteCollective> collective,
                                                         StagedSlices inputs, StagedSlices results);

}  // namespace mtf
