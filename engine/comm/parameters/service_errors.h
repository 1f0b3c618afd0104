// How a parameter service words and throws its errors.
#pragma once

#include <chrono>
#include <string>

#include "engine/base/error.h"

namespace mtf {

/// A worker asks for what it may not: its connection ends.
[[noreturn]] inline void refuse_request(const std::string& what) { throw Error(ErrorKind::kData, what); }

inline double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace mtf
