// Serialises and parses TensorFlow's Event message, the content of TensorBoard's event files, as far as
// scalars need it.
//
//   const std::string bytes = event_bytes({.step = 100, .scalars = {{"train/loss", 0.5f}}});
//   const std::optional<Event> event = parse_event(bytes);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mtf {

struct Event {
  double wall_time = 0;  ///< seconds since 1970
  int64_t step = 0;
  std::string file_version = {};  ///< "brain.Event:2" in the first event of each file
  /// A running TensorBoard discards what it has from this step on.
  bool session_start = false;
  std::vector<std::pair<std::string, float>> scalars = {};  ///< pairs of tag and value
};

std::string event_bytes(const Event& event);
/// Parses a message; nullopt if it is no Event. Fields that the struct does not have are ignored.
std::optional<Event> parse_event(std::string_view message);

}  // namespace mtf
