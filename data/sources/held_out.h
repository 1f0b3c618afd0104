// The type of the sources that `data.split` makes.
#pragma once

#include <string_view>

namespace mtf {

/// `evaluate.datasets: {dev: {type: split}}` is the part `dev` of `data.split`.
inline constexpr std::string_view kHeldOut = "split";

}  // namespace mtf
