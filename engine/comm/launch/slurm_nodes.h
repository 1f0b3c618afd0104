// Parses the short forms in which Slurm's environment variables name nodes and count tasks.
//
//   first_node("rack[2-3]n[01-16,20],login");   // "rack2n01"
//   tasks_on_node("4(x2),1", 2);                // 1
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtf {

/// Returns the first host of SLURM_JOB_NODELIST, or nothing if the text is not a list of nodes.
std::optional<std::string> first_node(std::string_view list);

/// Returns the number of tasks on node `node` by SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE, or
/// nothing if the text does not say it.
std::optional<int64_t> tasks_on_node(std::string_view counts, int64_t node);

}  // namespace mtf
