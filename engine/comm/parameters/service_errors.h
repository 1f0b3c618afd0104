// Helpers for the errors of a parameter service.
#pragma once

#include <chrono>
#include <string>

#include "engine/base/error.h"

namespace mtf {

/// Rejects an invalid request of a worker; its connection then ends.
[[noreturn]] inline void refuse_request(const std::string& what) { throw Error(ErrorKind::kData, what); }

inline double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace mtf
