// Detects the rank of this process as a task of named jobs, from section `cluster` or TF_CONFIG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/comm/launch/launch.h"

namespace mtf {

/// Returns the launch of task `index` of job `type`. `reason` says where the jobs are listed; `tensorflow`
/// selects the rules of TF_CONFIG. Throws Error (kConfig, kUsage) if there is no such task, or none that
/// computes.
Launch named_task(const ClusterOptions& options, const Jobs& jobs, const std::string& type, int64_t index,
                  std::string_view reason, bool tensorflow);

}  // namespace mtf
