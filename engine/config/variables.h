// Resolving `$name`, `${expression}` and `$$` in texts.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "engine/config/node.h"

namespace mtf::config {

/// The variables of a configuration, their own references to each other resolved. `vars` is a map or null.
std::shared_ptr<const Variables> resolve_variables(const Node& vars, Diagnostics& diagnostics);

/// `node` with all references resolved from `variables`. Below the path `deferred` nodes only take the
/// variables along, for substitute().
Node resolve(const Node& node, const std::shared_ptr<const Variables>& variables,
             const std::vector<std::string>& deferred, Diagnostics& diagnostics);

/// Names to which the text refers.
std::set<std::string> references(std::string_view text);

}  // namespace mtf::config
