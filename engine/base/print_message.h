// Prints messages for the user, such as progress and warnings.
//
//   print_message("warning: {} is slow\n", name);
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace mtf {

/// Prints to standard error. Unlike fmt::print it ignores errors: a run goes on when the disk is full, or when nobody
/// reads its messages any more.
template <typename... Arguments>
void print_message(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  std::fputs(fmt::format(format, std::forward<Arguments>(arguments)...).c_str(), stderr);
}

}  // namespace mtf
