// The two sides of an example, inputs and targets, and a pair of values, one for each side.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mtf {

/// The sides are features: the model reads the inputs and writes the targets.
enum class Side { kInputs, kTargets };
inline constexpr std::array kSides = {Side::kInputs, Side::kTargets};

inline constexpr std::string_view name_of(Side side) { return side == Side::kInputs ? "inputs" : "targets"; }

/// One value for each side.
template <class T>
struct BySide {
  T inputs = {};
  T targets = {};

  T& operator[](Side side) { return side == Side::kInputs ? inputs : targets; }
  const T& operator[](Side side) const { return side == Side::kInputs ? inputs : targets; }
  friend bool operator==(const BySide&, const BySide&) = default;
};

}  // namespace mtf
