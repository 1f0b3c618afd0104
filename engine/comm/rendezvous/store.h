// A store of keys and values that the processes of a run share while they find each other, and when one
// fails.
//
//   store.set("address/2", address);
//   const std::optional<std::string> address = store.get("address/2", timeout);   // waits until it is set
//   if (store.add("arrived", 1) == size) ...                                      // counts all processes
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mtf {

using Milliseconds = std::chrono::milliseconds;

/// Thread safe. Every call throws Error (kPeerLost) if the server cannot be reached any more.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Returns the value as soon as it is set, or nothing if it is not set within `timeout`.
  virtual std::optional<std::string> get(const std::string& key, Milliseconds timeout) = 0;
  /// Adds to the number that the key holds (0 if it is not set) and returns the sum.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
};

}  // namespace mtf
