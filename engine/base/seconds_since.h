#pragma once

#include <chrono>

namespace mtf {

/// Returns the seconds of wall-clock time since `begin`.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace mtf
