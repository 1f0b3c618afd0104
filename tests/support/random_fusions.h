// Random graphs of elementwise operations of all types, with operands of the result's shape and smaller ones.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/graph/graph.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

struct RandomFusions {
  std::unique_ptr<Graph> graph;
  std::map<std::string, Values> feeds;
};

/// About `operations` operations whose results have `shape`; those that no operation reads are outputs.
RandomFusions random_fusions(uint32_t seed, const Shape& shape, int operations);

}  // namespace mtf::testing
