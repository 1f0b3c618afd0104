// Serialises and parses TensorFlow's Event message, the content of TensorBoard's event files, as far as
// scalars and histograms need it.
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

/// How often numbers are in ranges: bucket i counts those above limits[i - 1], up to limits[i].
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits = {}, buckets = {};

  /// The histogram of numbers, which are finite, at least one: up to 30 ranges of the same width.
  static Histogram of(const std::vector<double>& numbers);
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

struct Event {
  double wall_time = 0;  ///< seconds since 1970
  int64_t step = 0;
  std::string file_version = {};  ///< "brain.Event:2" in the first event of each file
  /// A running TensorBoard discards what it has from this step on.
  bool session_start = false;
  std::vector<std::pair<std::string, float>> scalars = {};  ///< pairs of tag and value
  std::vector<std::pair<std::string, Histogram>> histograms = {};
};

std::string event_bytes(const Event& event);
/// Parses a message; nullopt if it is no Event. Fields that the struct does not have are ignored.
std::optional<Event> parse_event(std::string_view message);

}  // namespace mtf
