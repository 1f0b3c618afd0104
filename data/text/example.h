// TensorFlow's tf.Example: features by name, each a list of texts or of integers.
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
  std::vector<std::string_view> texts;  ///< views of the message
  std::vector<int64_t> integers;        ///< of kNumbers nothing is kept
};

using Example = std::map<std::string_view, ExampleFeature>;

/// Nothing when `message` is no tf.Example. The numbers of its fields are those of
/// tensorflow/core/example/example.proto and feature.proto.
std::optional<Example> parse_example(std::string_view message);

}  // namespace mtf
