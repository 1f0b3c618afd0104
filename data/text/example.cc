#include "data/text/example.h"

#include <protozero/pbf_reader.hpp>
#include <utility>

namespace mtf {
namespace {

using protozero::pbf_wire_type;
using protozero::tag_and_type;

std::string_view view(const protozero::data_view& bytes) { return {bytes.data(), bytes.size()}; }

std::vector<std::string_view> parse_texts(protozero::pbf_reader list) {
  std::vector<std::string_view> texts;
  while (list.next(1, pbf_wire_type::length_delimited)) texts.push_back(view(list.get_view()));
  return texts;
}

/// Parses a repeated integer field, packed (the usual form) or with one field per integer.
std::vector<int64_t> parse_integers(protozero::pbf_reader list) {
  std::vector<int64_t> integers;
  while (list.next()) {
    switch (list.tag_and_type()) {
      case tag_and_type(1, pbf_wire_type::length_delimited): {
        const auto packed = list.get_packed_int64();
        integers.insert(integers.end(), packed.begin(), packed.end());
        break;
      }
      case tag_and_type(1, pbf_wire_type::varint):
        integers.push_back(list.get_int64());
        break;
      default:
        list.skip();
    }
  }
  return integers;
}

ExampleFeature parse_feature(protozero::pbf_reader message) {
  ExampleFeature feature;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(1, pbf_wire_type::length_delimited):
        feature = {ExampleFeature::Kind::kTexts, parse_texts(message.get_message()), {}};
        break;
      case tag_and_type(2, pbf_wire_type::length_delimited):
        feature = {ExampleFeature::Kind::kNumbers, {}, {}};
        message.skip();
        break;
      case tag_and_type(3, pbf_wire_type::length_delimited):
        feature = {ExampleFeature::Kind::kIntegers, {}, parse_integers(message.get_message())};
        break;
      default:
        message.skip();
    }
  }
  return feature;
}

/// Parses one entry of a map, which is encoded as a list of (key, value) messages; of equal keys the last
/// wins.
void parse_entry(protozero::pbf_reader entry, Example& example) {
  std::string_view name;
  ExampleFeature feature;
  while (entry.next()) {
    switch (entry.tag_and_type()) {
      case tag_and_type(1, pbf_wire_type::length_delimited):
        name = view(entry.get_view());
        break;
      case tag_and_type(2, pbf_wire_type::length_delimited):
        feature = parse_feature(entry.get_message());
        break;
      default:
        entry.skip();
    }
  }
  example[name] = std::move(feature);
}

}  // namespace

std::optional<Example> parse_example(std::string_view message) {
  Example example;
  try {
    protozero::pbf_reader reader(message.data(), message.size());
    while (reader.next(1, pbf_wire_type::length_delimited)) {
      protozero::pbf_reader features = reader.get_message();
      while (features.next(1, pbf_wire_type::length_delimited)) parse_entry(features.get_message(), example);
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return example;
}

}  // namespace mtf
