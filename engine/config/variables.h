// Resolves `$name`, `${expression}` and `$$` in texts.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/node.h"

namespace mtf::config {

/// Returns the variables of a configuration, with their references to each other resolved. `vars` is a map or
/// null.
std::shared_ptr<const Variables> resolve_variables(const Node& vars, Diagnostics& diagnostics);

/// Returns `node` with all references resolved by `variables`. At the path `deferred` and below, nodes only
/// keep the variables, for substitute().
Node resolve(const Node& node, const std::shared_ptr<const Variables>& variables,
             const std::vector<std::string>& deferred, Diagnostics& diagnostics);

/// Returns the names to which the text refers.
std::set<std::string> references(std::string_view text);

}  // namespace mtf::config
