#include "trainer/report/event.h"

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
constexpr protozero::pbf_tag_type tag = 1, simple_value = 2;
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

std::pair<std::string, float> parse_scalar(protozero::pbf_reader value) {
  std::pair<std::string, float> scalar;
  while (value.next()) {
    switch (value.tag_and_type()) {
      case tag_and_type(value_field::tag, pbf_wire_type::length_delimited):
        scalar.first = value.get_string();
        break;
      case tag_and_type(value_field::simple_value, pbf_wire_type::fixed32):
        scalar.second = value.get_float();
        break;
      default:
        value.skip();
    }
  }
  return scalar;
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
          event.scalars.push_back(parse_scalar(summary.get_message()));
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
  if (!event.scalars.empty()) {
    protozero::pbf_writer summary(message, event_field::summary);
    for (const auto& [tag, number] : event.scalars) write_scalar(summary, tag, number);
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
