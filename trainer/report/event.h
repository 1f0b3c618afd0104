// TensorFlow's Event message, as far as scalars need it: what TensorBoard reads from event files.
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
  bool session_start = false;     ///< a TensorBoard that is looking on forgets what it has from this step on
  std::vector<std::pair<std::string, float>> scalars = {};  ///< tag and value
};

std::string event_bytes(const Event& event);
/// Nothing when `message` is no Event. What is not kept in Event is passed over.
std::optional<Event> parse_event(std::string_view message);

}  // namespace mtf
