// The test sets that sacreBLEU knows.
#pragma once

#include <span>
#include <string_view>

namespace mtf {

struct TestSet {
  std::string_view name;
  std::string_view description;
  /// The fields of each sentence, separated by blanks; empty if they are known only from the files.
  std::string_view fields;
  std::string_view pairs;  ///< language pairs: "en-de de-en"
};

/// Returns the test sets, sorted by name.
std::span<const TestSet> test_sets();

}  // namespace mtf
