// Finds what names have in common that differ only in their numbers, such as those of repeated layers.
//
//   name_pattern({"block_000/kernel", "block_001/kernel"})   // "block_*/kernel"
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mtf {

/// Fewer lines than this are shown one by one.
inline constexpr size_t kFewestFolded = 3;

/// Splits a name into alternating texts and numbers, beginning with a text: "more/000/kernel" becomes
/// "more/", "000", "/kernel".
std::vector<std::string> split_numbers(const std::string& name);
/// Returns the name with "*" in place of each number. Names that differ only in numbers have the same.
std::string without_numbers(const std::string& name);
/// Returns the common pattern of names that differ only in their numbers: numbers that differ become "*".
std::string name_pattern(const std::vector<std::string>& names);

}  // namespace mtf
