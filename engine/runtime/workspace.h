// Workspace is what an executor needs only while it runs: threads, and memory for temporaries and the scratch of kernels.
// Executors that run one after the other can share one. What a run has computed is lost when another executor runs.
//
//   Workspace workspace(*backend, 2);
//   Executor first(..., {.workspace = &workspace}), second(..., {.workspace = &workspace});
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backend/backend.h"
#include "engine/runtime/thread_pool.h"

namespace mtf {

/// Memory for users that do not need it at the same time.
class SharedMemory {
 public:
  explicit SharedMemory(Backend& backend) : backend_(backend) {}

  /// Returns memory of at least `bytes` bytes: the same as before, if that is large enough; what others have written there is
  /// left. A user that needs more gets new memory, as do later ones, and earlier users keep theirs.
  std::shared_ptr<DeviceMemory> at_least(int64_t bytes);
  /// The size of the newest memory.
  int64_t bytes() const { return bytes_; }

 private:
  Backend& backend_;
  std::shared_ptr<DeviceMemory> memory_;
  int64_t bytes_ = 0;
};

struct Workspace {
  Workspace(Backend& backend, int threads)
      : pool(backend.is_host() ? threads : 1, [&backend] { backend.prepare_thread(); }),
        temporaries(backend),
        scratch(backend) {}

  ThreadPool pool;
  SharedMemory temporaries, scratch;
};

}  // namespace mtf
