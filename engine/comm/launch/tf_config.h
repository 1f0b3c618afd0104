// The environment variable TF_CONFIG: a JSON text that names the tasks of a cluster, and which of them this
// is.
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
  Jobs jobs;         ///< in the order of writing
  std::string type;  ///< "worker", "chief", "ps", "evaluator"
  int64_t index = 0;
};

/// Nothing where `cluster` and `task` are empty or not there: a program that runs alone. Throws Error
/// (kUsage) where it is no JSON, has only one of them, or one that is not of this form.
std::optional<TfConfig> parse_tf_config(const std::string& text);

}  // namespace mtf
