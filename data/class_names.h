// The names of the classes that a source numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/source.h"
#include "engine/config/visitor.h"

namespace mtf {

/// The classes of the training data: their names, none where they are numbers. Nothing: they are not known, as while the
/// training data themselves are read.
using KnownClasses = std::optional<std::vector<std::string>>;

/// The names of classes; none where these are numbers.
class ClassNames {
 public:
  ClassNames() = default;
  /// Class i is names[i]. Throws Error (kData), which begins with `place`, when a name occurs twice or is empty.
  ClassNames(std::vector<std::string> names, const std::string& place);

  /// Returns the number of a class. Throws Error (kData), which begins with `place` and says which names there are, or that
  /// `name` is no number where the classes are numbers.
  int32_t number(const std::string& name, const std::string& place) const;
  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return names_.empty(); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> numbers_;
};

/// Where the first example of each class stands, such as "FILE:LINE", by the number of the class.
using ClassPlaces = std::map<int64_t, std::string>;

/// The labels of examples, words or numbers, which become the numbers of classes when all are read.
class ClassLabels {
 public:
  /// `given`: the names of the classes as the options have them; may be empty.
  explicit ClassLabels(std::vector<std::string> given = {}, KnownClasses known = std::nullopt);

  /// Adds the label of the next example. Throws Error (kData), which begins with `place`, when the label is no class, or no
  /// number where the classes are numbers. `place` is called for labels that are new.
  void add(const std::string& label, const std::function<std::string()>& place);

  /// The names of the classes in their order: those known or given, or the words sorted; empty where all are numbers. Throws
  /// Error (kData) for words that all are numbers, two thirds or more of them of classes, but not all, as 0, 1 and -1.
  std::vector<std::string> classes() const;
  /// The class of each label.
  std::vector<int32_t> numbers() const;
  ClassPlaces places() const;
  /// True if the classes are words of these examples, neither known nor given.
  bool are_found() const { return names_.empty() && !classes().empty(); }

 private:
  void check_words() const;
  /// The class of each of the different labels.
  std::vector<int32_t> numbers_of_words() const;

  ClassNames names_;  ///< those known or given
  bool are_known_;
  std::vector<std::string> words_;                    ///< different labels in the order in which they came
  std::vector<std::string> firsts_;                   ///< where the first example with each of them stands
  std::unordered_map<std::string, int32_t> indices_;  ///< in words_
  std::vector<int32_t> labels_;                       ///< indices in words_
  bool are_numbers_ = true;
};

/// Source::check_labels() of labels under kLabelsFeature. The Error (kData) begins with the place of the first wrong example.
/// `names` are those of the classes; empty where these are numbers.
void check_below(const LabelRange& expected, const ClassPlaces& places,
                 const std::vector<std::string>& names);

/// Returns a whole number from 0 to 2^31 - 1; nothing if the text is something else.
std::optional<int32_t> class_number(std::string_view text);

/// `preparation` of training data (Source::preparation()): the names of the classes; empty if it has none. Throws Error
/// (kData) when the text is damaged.
std::vector<std::string> prepared_classes(const std::string& preparation);
/// The classes of the training data by their preparation; nothing where that is not known.
KnownClasses known_classes(const std::optional<std::string>& preparation);
/// The classes by what a run keeps (data.json); nothing where it does not tell, as where the file is missing.
KnownClasses kept_classes(const std::string& preparation);
/// What a run keeps of training data whose classes are numbers.
inline constexpr std::string_view kNumberedClasses = "{\n \"classes\": []\n}\n";
/// The value, true or false, that it has under `key`; nothing if it has none.
std::optional<bool> prepared_flag(const std::string& preparation, const std::string& key);
/// The names of the classes of a model that was trained on data with this preparation or, where it has none, those of the
/// source.
std::vector<std::string> names_of_classes(const Source& source, const std::string& preparation);

/// Names of classes, and of what they are, for messages.
struct NamedClasses {
  std::string of;
  /// Empty: the classes are numbers, which count as names where the other names are 0, 1, .. in any order.
  std::vector<std::string> names;
};
/// Returns "class 0 of data.train is `b`, and of runs/a it is `a`" for the first class with different names; empty where there
/// is none, or only one has names.
std::string class_difference(const NamedClasses& here, const NamedClasses& there);
/// True if a name that both have is that of different classes.
bool number_differently(const NamedClasses& here, const NamedClasses& there);

/// Throws Error (kConfig, at `mark`): `what` of the training data are needed to evaluate examples, and not known. `hint`: what
/// else would do; may be empty.
[[noreturn]] void throw_unprepared(const Mark& mark, std::string_view what, const std::string& hint = {});

/// Reports names of classes that occur twice or are empty, of the option `key`.
void check_class_names(const std::vector<std::string>& names, std::string_view key,
                       const config::Report& report);

/// The preparation that holds names of classes alone, which must be UTF-8; empty without names.
std::string preparation_of(const std::vector<std::string>& class_names);

}  // namespace mtf
