#include "engine/runtime/workspace.h"

namespace mtf {

std::shared_ptr<DeviceMemory> SharedMemory::at_least(int64_t bytes) {
  if (memory_ == nullptr || bytes > bytes_) {
    memory_.reset();  // before the new memory is taken, in case that nobody else has it
    memory_ = backend_.allocate(bytes);
    bytes_ = bytes;
  }
  return memory_;
}

}  // namespace mtf
