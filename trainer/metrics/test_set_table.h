// The test sets that sacreBLEU knows.
#pragma once

#include <span>
#include <string_view>

namespace mtf {

struct TestSet {
  std::string_view name;
  std::string_view description;
  std::string_view fields;  ///< of each sentence, between blanks; empty where only the files tell them
  std::string_view pairs;   ///< languages, "en-de de-en"
};

/// Sorted by name.
std::span<const TestSet> test_sets();

}  // namespace mtf
