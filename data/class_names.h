// The names of the classes that a source numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mtf {

class ClassNames {
 public:
  ClassNames() = default;
  /// Class i is names[i]. Throws Error (kData), which begins with `place`, when a name occurs twice or is empty.
  ClassNames(std::vector<std::string> names, const std::string& place);

  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return names_.empty(); }
  std::optional<int32_t> find(const std::string& name) const;
  /// Returns the number of a class. Throws Error (kData), which begins with `place` and says which names there are.
  int32_t number(const std::string& name, const std::string& place) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> numbers_;
};

/// Returns a whole number from 0 to 2^31 - 1; nothing if the text is something else.
std::optional<int32_t> class_number(std::string_view text);

/// `preparation` of training data (Source::preparation()): the list of names that it has under `key`; nothing if it has
/// none. Throws Error (kData) when the text is damaged.
std::optional<std::vector<std::string>> prepared_names(const std::string& preparation,
                                                       const std::string& key);
/// The preparation that holds names of classes alone; empty without names.
std::string preparation_of(const std::vector<std::string>& class_names);

}  // namespace mtf
