// Detects the rank of this process from the environment variables of a launcher.
#pragma once

#include "engine/comm/launch/launcher_environment.h"

namespace mtf {

/// Returns the launch that `variables` describe, which are complete, perhaps together with options.processes.
/// Throws Error (kConfig, kUsage) if values contradict each other or if the address where the processes meet
/// is unknown.
Launch launched_process(const ClusterOptions& options, const LauncherEnvironment& environment,
                        const LauncherVariables& variables);

}  // namespace mtf
