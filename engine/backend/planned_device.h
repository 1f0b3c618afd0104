// The backend of a GPU that is not here, for run.mode=explain: programs are made for it, but not run.
#pragma once

#include <memory>
#include <string>

#include "engine/backend/backend.h"

namespace mtf {

/// Makes a backend that prepares kernels without scratch memory and has no memory_state(). `name`: of the GPU; `reason`: why
/// it is planned for, for its note. All calls that need the device fail a check.
std::unique_ptr<Backend> make_planned_device(const std::string& name, const std::string& reason);

}  // namespace mtf
