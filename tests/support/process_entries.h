// Counts what this process has open, for tests that nothing is left behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>

namespace mtf {

inline constexpr const char *kOpenDescriptors = "/proc/self/fd", *kRunningThreads = "/proc/self/task";

inline int64_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

/// The same, once it is `expected` or 5 s have passed: the kernel lists a thread for a moment after it was joined.
inline int64_t settled_entries(const char* directory, int64_t expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (entries_of(directory) != expected && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return entries_of(directory);
}

}  // namespace mtf
