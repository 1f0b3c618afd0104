// Metrics that commands compute from files of predictions and references.
//
//   const auto rouge = run_command_metric({"rouge", "rouge.py {predictions} {references}"}, texts, "dev",
//                                         [] { return StopSignals::received() == 0; });
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/sources/options.h"
#include "trainer/evaluation/prediction_metrics.h"

namespace mtf {

/// Writes the texts into files of a temporary directory, a line for each, and runs the command with their paths in place
/// of {predictions} and {references} (several, if there are several references for each). Returns the number in the last
/// line that it prints. Throws Error (kData), which names the data set, when it fails or prints no number.
///
/// While the command runs, `goes_on` is called every tenth of a second. When it returns false or throws, the command is
/// ended by SIGTERM, and after five seconds by SIGKILL; false gives nullopt. Where StopSignals are handled the command
/// has a process group of its own, so that signals of a terminal do not reach it, and the whole group is ended.
std::optional<double> run_command_metric(const CommandMetric& metric, const PredictedTexts& texts,
                                         const std::string& dataset, const std::function<bool()>& goes_on);

/// Returns the texts as lines. White space that would end a line or a column becomes a blank.
std::string lines_of(const std::vector<std::string>& texts);

}  // namespace mtf
