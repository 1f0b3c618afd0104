// The two texts of an example, and values that go with each of them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mtf {

/// Names of features: what is read, and what is to be written.
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
