// A dimension as an argument of an operation: by name, or the dimension itself. Only the name counts.
//
//   cumsum(x, length);  cumsum(x, "length");
#pragma once

#include <string>
#include <string_view>

#include "engine/core/shape.h"

namespace mtf {

struct DimensionName {
  std::string_view name;

  DimensionName(const Dimension& dimension) : name(dimension.name) {}
  DimensionName(const std::string& name) : name(name) {}
  DimensionName(std::string_view name) : name(name) {}
  DimensionName(const char* name) : name(name) {}
  operator std::string_view() const { return name; }
};

}  // namespace mtf
