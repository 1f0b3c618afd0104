// A parameter of an operation that names a dimension: a name or a Dimension, of which only the name is used.
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
