// The sharding rule of operations that need all entries of one dimension at once (scans, top-k): the
// partitioner gathers the dimension before them and splits it again after them.
#pragma once

#include <string_view>

#include "engine/graph/operation.h"

namespace mtf {

/// Returns the rule with `dimension` not split in any operand.
inline ShardingRule with_whole_dimension(ShardingRule rule, const Operation& operation,
                                         std::string_view dimension) {
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    if (const auto axis = operation.input(static_cast<int>(i)).shape().find(dimension)) {
      rule.inputs[i].split.change()[*axis].clear();
    }
  }
  for (size_t i = 0; i < rule.outputs.size(); ++i) {
    if (const auto axis = operation.outputs()[i].shape.find(dimension))
      rule.outputs[i].split.change()[*axis].clear();
  }
  return rule;
}

}  // namespace mtf
