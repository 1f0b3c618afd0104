// An entry of a list of layers in a configuration: `name` or `{name: options}`.
#pragma once

#include <string>

#include "engine/base/error.h"
#include "engine/config/node.h"

namespace mtf {

struct LayerEntry {
  std::string name;
  Mark mark;             ///< place of the name
  config::Node options;  ///< null if there are none
};

/// Reads an entry; reports anything but `name` or a map with one key, and then returns an empty name.
LayerEntry layer_entry(const config::Node& node, Diagnostics& diagnostics);

}  // namespace mtf
