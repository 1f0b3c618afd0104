#include "trainer/report/event.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace mtf {
namespace {

using protozero::pbf_wire_type;
using protozero::tag_and_type;

// Field numbers of TensorFlow's tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
namespace event_field {
constexpr protozero::pbf_tag_type wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary_field {
constexpr protozero::pbf_tag_type value = 1;
}
namespace value_field {
constexpr protozero::pbf_tag_type tag = 1, simple_value = 2, histogram = 5;
}
namespace histogram_field {
constexpr protozero::pbf_tag_type min = 1, max = 2, count = 3, sum = 4, sum_of_squares = 5, limits = 6,
                                  buckets = 7;
}
namespace session_log_field {
constexpr protozero::pbf_tag_type status = 1;
}
constexpr int32_t kSessionStart = 1;

void write_scalar(protozero::pbf_writer& summary, const std::string& tag, float number) {
  protozero::pbf_writer value(summary, summary_field::value);
  value.add_string(value_field::tag, tag);
  value.add_float(value_field::simple_value, number);
}

void write_histogram(protozero::pbf_writer& summary, const std::string& tag, const Histogram& histogram) {
  protozero::pbf_writer value(summary, summary_field::value);
  value.add_string(value_field::tag, tag);
  protozero::pbf_writer message(value, value_field::histogram);
  message.add_double(histogram_field::min, histogram.min);
  message.add_double(histogram_field::max, histogram.max);
  message.add_double(histogram_field::count, histogram.count);
  message.add_double(histogram_field::sum, histogram.sum);
  message.add_double(histogram_field::sum_of_squares, histogram.sum_of_squares);
  message.add_packed_double(histogram_field::limits, histogram.limits.begin(), histogram.limits.end());
  message.add_packed_double(histogram_field::buckets, histogram.buckets.begin(), histogram.buckets.end());
}

Histogram parse_histogram(protozero::pbf_reader message) {
  Histogram histogram;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(histogram_field::min, pbf_wire_type::fixed64):
        histogram.min = message.get_double();
        break;
      case tag_and_type(histogram_field::max, pbf_wire_type::fixed64):
        histogram.max = message.get_double();
        break;
      case tag_and_type(histogram_field::count, pbf_wire_type::fixed64):
        histogram.count = message.get_double();
        break;
      case tag_and_type(histogram_field::sum, pbf_wire_type::fixed64):
        histogram.sum = message.get_double();
        break;
      case tag_and_type(histogram_field::sum_of_squares, pbf_wire_type::fixed64):
        histogram.sum_of_squares = message.get_double();
        break;
      case tag_and_type(histogram_field::limits, pbf_wire_type::length_delimited):
        for (const double limit : message.get_packed_double()) histogram.limits.push_back(limit);
        break;
      case tag_and_type(histogram_field::buckets, pbf_wire_type::length_delimited):
        for (const double bucket : message.get_packed_double()) histogram.buckets.push_back(bucket);
        break;
      default:
        message.skip();
    }
  }
  return histogram;
}

/// Adds a value of a summary to the event.
void parse_value(protozero::pbf_reader value, Event& event) {
  std::string tag;
  float number = 0;
  std::optional<Histogram> histogram;
  while (value.next()) {
    switch (value.tag_and_type()) {
      case tag_and_type(value_field::tag, pbf_wire_type::length_delimited):
        tag = value.get_string();
        break;
      case tag_and_type(value_field::simple_value, pbf_wire_type::fixed32):
        number = value.get_float();
        break;
      case tag_and_type(value_field::histogram, pbf_wire_type::length_delimited):
        histogram = parse_histogram(value.get_message());
        break;
      default:
        value.skip();
    }
  }
  if (histogram) {
    event.histograms.emplace_back(std::move(tag), std::move(*histogram));
  } else {
    event.scalars.emplace_back(std::move(tag), number);
  }
}

Event parse(protozero::pbf_reader message) {
  Event event;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(event_field::wall_time, pbf_wire_type::fixed64):
        event.wall_time = message.get_double();
        break;
      case tag_and_type(event_field::step, pbf_wire_type::varint):
        event.step = message.get_int64();
        break;
      case tag_and_type(event_field::file_version, pbf_wire_type::length_delimited):
        event.file_version = message.get_string();
        break;
      case tag_and_type(event_field::summary, pbf_wire_type::length_delimited): {
        protozero::pbf_reader summary = message.get_message();
        while (summary.next(summary_field::value, pbf_wire_type::length_delimited))
          parse_value(summary.get_message(), event);
        break;
      }
      case tag_and_type(event_field::session_log, pbf_wire_type::length_delimited): {
        protozero::pbf_reader log = message.get_message();
        while (log.next(session_log_field::status, pbf_wire_type::varint))
          event.session_start = log.get_enum() == kSessionStart;
        break;
      }
      default:
        message.skip();
    }
  }
  return event;
}

}  // namespace

Histogram Histogram::of(const std::vector<double>& numbers) {
  constexpr int64_t kMost = 30;
  const auto [low, high] = std::ranges::minmax(numbers);
  const int64_t ranges = low == high ? 1 : std::min<int64_t>(kMost, std::ssize(numbers));
  Histogram histogram{.min = low, .max = high, .count = static_cast<double>(numbers.size())};
  const double width = (high - low) / static_cast<double>(ranges);
  for (int64_t i = 1; i <= ranges; ++i)
    histogram.limits.push_back(i == ranges ? high : low + width * static_cast<double>(i));
  histogram.buckets.resize(histogram.limits.size());
  for (const double number : numbers) {
    histogram.sum += number;
    histogram.sum_of_squares += number * number;
    const auto limit = std::ranges::lower_bound(histogram.limits, number);
    ++histogram.buckets[static_cast<size_t>(limit - histogram.limits.begin())];
  }
  return histogram;
}

std::string event_bytes(const Event& event) {
  std::string bytes;
  protozero::pbf_writer message(bytes);
  message.add_double(event_field::wall_time, event.wall_time);
  message.add_int64(event_field::step, event.step);
  if (!event.file_version.empty()) message.add_string(event_field::file_version, event.file_version);
  if (event.session_start) {
    protozero::pbf_writer log(message, event_field::session_log);
    log.add_enum(session_log_field::status, kSessionStart);
  }
  if (!event.scalars.empty() || !event.histograms.empty()) {
    protozero::pbf_writer summary(message, event_field::summary);
    for (const auto& [tag, number] : event.scalars) write_scalar(summary, tag, number);
    for (const auto& [tag, histogram] : event.histograms) write_histogram(summary, tag, histogram);
  }
  return bytes;
}

std::optional<Event> parse_event(std::string_view message) {
  try {
    return parse(protozero::pbf_reader(message.data(), message.size()));
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

}  // namespace mtf
