// Keys and values that the processes of a run share while they find each other, and when one of them fails.
//
//   store.set("address/2", address);
//   const std::string address = store.get("address/2", timeout);   // waits for it
//   if (store.add("arrived", 1) == size) ...                       // counts over all processes
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mtf {

using Milliseconds = std::chrono::milliseconds;

/// Thread safe: several threads of a process may use one. Every call throws Error (kPeerLost) when the server
/// cannot be reached any more.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value, as soon as it is set; nothing: not within `timeout`.
  virtual std::optional<std::string> get(const std::string& key, Milliseconds timeout) = 0;
  /// Adds to the number that the key holds (0 where it has none) and returns the sum.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
};

}  // namespace mtf
