// How the work of programs is given to a GPU, as the environment says, and what finds a kernel that has failed.
//
//   MTF_CUDA_GRAPHS=0   steps are enqueued, not recorded as CUDA graphs
//   MTF_CUDA_CHECK=1    the runtime waits after each instruction, and names the one that has failed
#pragma once

#include <string>
#include <vector>

#include "engine/backend/backend.h"

namespace mtf::cuda {

/// Throws Error (kUsage) if a variable is neither 0 nor 1.
Submission submission_of_environment();

/// A line of the log for a submission that is not the usual one, else nothing.
std::vector<BackendNote> notes_of(Submission submission);

/// Advice for the error of a kernel that ran some time ago: the command that finds its operation.
std::string failed_kernel_hint();

}  // namespace mtf::cuda
