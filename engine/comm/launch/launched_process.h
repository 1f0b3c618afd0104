// Which process this is by the environment variables of a launcher.
#pragma once

#include "engine/comm/launch/launcher_environment.h"

namespace mtf {

/// The set of `variables` is complete, perhaps with options.processes. Throws Error (kConfig, kUsage) where
/// values do not fit together or nothing says at which address the processes meet.
Launch launched_process(const ClusterOptions& options, const LauncherEnvironment& environment,
                        const LauncherVariables& variables);

}  // namespace mtf
