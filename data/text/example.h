// Parses TensorFlow's tf.Example messages: features by name, each a list of texts or of integers.
//
//   if (const std::optional<Example> example = parse_example(record))
//     const std::vector<int64_t>& ids = example->at("targets").integers;
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace mtf {

struct ExampleFeature {
  enum class Kind { kNone, kTexts, kNumbers, kIntegers };
  Kind kind = Kind::kNone;
  std::vector<std::string_view> texts;  ///< views into the message
  std::vector<int64_t> integers;        ///< empty for kNumbers, whose floats are not stored
};

using Example = std::map<std::string_view, ExampleFeature>;

/// Parses a serialised message; nullopt if it is no tf.Example. The field numbers are those of TensorFlow's
/// example.proto and feature.proto (tensorflow/core/example).
std::optional<Example> parse_example(std::string_view message);

}  // namespace mtf
