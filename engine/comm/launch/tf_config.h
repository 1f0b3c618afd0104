// Parses the environment variable TF_CONFIG: a JSON text that names the tasks of a cluster, and the task of
// this process.
//
//   {"cluster": {"chief": ["a:2222"], "worker": ["b:2222"], "ps": ["c:2222"]},
//    "task": {"type": "worker", "index": 0}}
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/comm/launch/cluster_options.h"

namespace mtf {

struct TfConfig {
  Jobs jobs;         ///< in the order in which they are written
  std::string type;  ///< "worker", "chief", "ps", "evaluator"
  int64_t index = 0;
};

/// Parses the text. Returns nothing if `cluster` and `task` are empty or missing: the program then runs
/// alone. Throws Error (kUsage) if the text is not JSON, has only one of the two, or has another form.
std::optional<TfConfig> parse_tf_config(const std::string& text);

}  // namespace mtf
