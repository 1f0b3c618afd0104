// The backend on which tests compute: the processor, or with MTF_TEST_DEVICES=cuda the GPU, or with
// MTF_TEST_DEVICES=emulator the emulated one. Without a GPU the program ends with exit code 77 (gpu_gate.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/backend/backend.h"

namespace mtf::testing {

/// The backend of a test. All tests of a program share one on a device, which holds libraries and pinned memory;
/// on the processor each call makes one. Processes that are threads of a test (on_processes) have one each, or
/// the step that one of them records would contain what the others enqueue meanwhile.
std::shared_ptr<Backend> test_backend(int process = 0);

/// Runs all tasks of a kernel of the backend on host memory.
void run_kernel(Backend& backend, const Kernel& kernel, const KernelContext& context,
                std::span<const Slice> inputs, std::span<const Slice> outputs, uint64_t step = 0,
                int64_t iteration = 0);

}  // namespace mtf::testing
