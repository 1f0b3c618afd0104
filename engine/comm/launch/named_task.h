// Which process this is as a task of named jobs: section `cluster` or TF_CONFIG.
#pragma once

#include <string>
#include <string_view>

#include "engine/comm/launch/launch.h"

namespace mtf {

/// Task `index` of job `type`. `reason`: where the jobs stand. `tensorflow`: by the rules of TF_CONFIG.
/// Throws Error (kConfig, kUsage) where there is no such task or none that computes.
Launch named_task(const ClusterOptions& options, const Jobs& jobs, const std::string& type, int64_t index,
                  std::string_view reason, bool tensorflow);

}  // namespace mtf
