#include "data/class_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"
#include "engine/base/printable.h"

namespace mtf {

ClassNames::ClassNames(std::vector<std::string> names, const std::string& place) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty())
      throw Error(ErrorKind::kData, fmt::format("{}: class {} has no name", place, i),
                  "a name for each class");
    if (!numbers_.emplace(names_[i], static_cast<int32_t>(i)).second)
      throw Error(ErrorKind::kData, fmt::format("{}: class `{}` is there twice", place, printable(names_[i])),
                  "each class once");
  }
}

int32_t ClassNames::number(const std::string& name, const std::string& place) const {
  if (names_.empty()) {
    if (const std::optional<int32_t> number = class_number(name)) return *number;
    throw Error(ErrorKind::kData, fmt::format("{}: `{}` is no whole number", place, printable(name)),
                "the number of a class, as in the training data; or `classes` (of images classes.txt), which "
                "names the classes in the order of these numbers");
  }
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  throw Error(ErrorKind::kData, fmt::format("{}: there is no class `{}`", place, printable(name)),
              did_you_mean(name, names_) +
                  "; `classes` of data.train (of its first source, if it has several) names all classes, of "
                  "images classes.txt");
}

ClassLabels::ClassLabels(std::vector<std::string> given, KnownClasses known)
    : names_(known && !known->empty() ? std::move(*known) : std::move(given), "the classes"),
      are_known_(known.has_value()) {}

void ClassLabels::add(const std::string& label, const std::function<std::string()>& place) {
  const auto [found, is_new] = indices_.try_emplace(label, static_cast<int32_t>(words_.size()));
  if (is_new) {
    firsts_.push_back(place());
    if (are_known_ || !names_.empty()) {
      names_.number(label, firsts_.back());
    } else if (!class_number(label)) {
      are_numbers_ = false;
    }
    words_.push_back(label);
  }
  labels_.push_back(found->second);
}

void ClassLabels::check_words() const {
  const auto is_class = [](const std::string& word) { return class_number(word).has_value(); };
  const auto is_number = [](const std::string& word) { return parse_number<double>(word).has_value(); };
  const auto classes = std::ranges::count_if(words_, is_class);
  const bool most_are_classes = 3 * classes >= 2 * std::ssize(words_);
  if (!most_are_classes || !std::ranges::all_of(words_, is_number)) return;
  const auto odd = std::ranges::find_if_not(words_, is_class);
  throw Error(
      ErrorKind::kData,
      fmt::format("{}: `{}` is not the number of a class, but other labels are",
                  firsts_[static_cast<size_t>(odd - words_.begin())], *odd),
      "whole numbers from 0, or words; `classes` (of images classes.txt in a folder) names such labels");
}

std::vector<std::string> ClassLabels::classes() const {
  if (are_known_ || !names_.empty() || are_numbers_) return names_.names();
  check_words();
  std::vector<std::string> sorted = words_;
  std::ranges::sort(sorted);
  return sorted;
}

std::vector<int32_t> ClassLabels::numbers_of_words() const {
  const ClassNames names(classes(), "the classes");
  std::vector<int32_t> numbers;
  for (size_t i = 0; i < words_.size(); ++i) numbers.push_back(names.number(words_[i], firsts_[i]));
  return numbers;
}

std::vector<int32_t> ClassLabels::numbers() const {
  const std::vector<int32_t> of_words = numbers_of_words();
  std::vector<int32_t> result;
  for (const int32_t index : labels_) result.push_back(of_words[static_cast<size_t>(index)]);
  return result;
}

ClassPlaces ClassLabels::places() const {
  const std::vector<int32_t> of_words = numbers_of_words();
  ClassPlaces places;
  for (size_t i = 0; i < of_words.size(); ++i) places.emplace(of_words[i], firsts_[i]);
  return places;
}

void check_below(const LabelRange& expected, const ClassPlaces& places,
                 const std::vector<std::string>& names) {
  if (expected.feature != kLabelsFeature) return;
  const int64_t classes = expected.classes;
  const auto wrong = places.lower_bound(classes);
  if (wrong == places.end()) return;
  const auto& [number, place] = *wrong;
  const std::string label =
      names.empty() ? fmt::format("label {}", number)
                    : fmt::format("`{}` is label {}", printable(names[static_cast<size_t>(number)]), number);
  throw Error(ErrorKind::kData, fmt::format("{}: {}, but there are {} classes", place, label, classes),
              fmt::format("labels from 0 to {}, or {} classes in the model", classes - 1,
                          places.rbegin()->first + 1));
}

std::optional<int32_t> class_number(std::string_view text) {
  const auto number = parse_number<int32_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

namespace {

template <class T>
std::optional<T> prepared_value(const std::string& preparation, const std::string& key) {
  if (preparation.empty()) return std::nullopt;
  try {
    const nlohmann::json json = parse_json(preparation, [](const std::string&) {});
    if (!json.contains(key)) return std::nullopt;
    return json.at(key).get<T>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kData, fmt::format("data.json of the run is damaged: {}", message_of(error)),
                "the file that the run has written");
  }
}

}  // namespace

std::vector<std::string> prepared_classes(const std::string& preparation) {
  return kept_classes(preparation).value_or(std::vector<std::string>());
}

KnownClasses known_classes(const std::optional<std::string>& preparation) {
  return preparation ? KnownClasses(prepared_classes(*preparation)) : std::nullopt;
}

KnownClasses kept_classes(const std::string& preparation) {
  return prepared_value<std::vector<std::string>>(preparation, "classes");
}

std::optional<bool> prepared_flag(const std::string& preparation, const std::string& key) {
  return prepared_value<bool>(preparation, key);
}

std::vector<std::string> names_of_classes(const Source& source, const std::string& preparation) {
  std::vector<std::string> names = prepared_classes(preparation);
  return names.empty() ? source.class_names() : names;
}

namespace {

/// The names of classes to compare with those of `other`. Numbers are names where the others are the same ones.
std::vector<std::string> names_beside(const NamedClasses& classes, const NamedClasses& other) {
  if (!classes.names.empty()) return classes.names;
  std::vector<std::string> numbers;
  for (size_t i = 0; i < other.names.size(); ++i) numbers.push_back(std::to_string(i));
  return std::ranges::is_permutation(numbers, other.names) ? numbers : std::vector<std::string>();
}

}  // namespace

std::string class_difference(const NamedClasses& here, const NamedClasses& there) {
  const std::vector<std::string> own_names = names_beside(here, there),
                                 other_names = names_beside(there, here);
  if (own_names.empty() || other_names.empty()) return {};
  const auto [own, other] = std::ranges::mismatch(own_names, other_names);
  if (own == own_names.end() && other == other_names.end()) return {};
  const auto name_in = [](const std::vector<std::string>& names, auto name) {
    return name == names.end() ? std::string("missing") : fmt::format("`{}`", printable(*name));
  };
  return fmt::format("class {} of {} is {}, and of {} it is {}", own - own_names.begin(), here.of,
                     name_in(own_names, own), there.of, name_in(other_names, other));
}

bool number_differently(const NamedClasses& here, const NamedClasses& there) {
  const std::vector<std::string> own_names = names_beside(here, there),
                                 other_names = names_beside(there, here);
  for (auto own = own_names.begin(); own != own_names.end(); ++own) {
    const auto other = std::ranges::find(other_names, *own);
    if (other != other_names.end() && other - other_names.begin() != own - own_names.begin()) return true;
  }
  return false;
}

void throw_unprepared(const Mark& mark, std::string_view what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("{} of the training data are not known: no data.json of such a source belongs to "
                          "the weights",
                          what),
              fmt::format("a checkpoint in the directory of its run, or a .safetensors file that mtf-convert "
                          "makes of it{}{}",
                          hint.empty() ? "" : "; or ", hint));
}

void check_class_names(const std::vector<std::string>& names, std::string_view key,
                       const config::Report& report) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    const auto number = name - names.begin();
    if (name->empty())
      report.error(key, fmt::format("`{}`: class {} has no name", key, number), "a name for each class");
    const auto before = std::find(names.begin(), name, *name);
    if (before != name && !name->empty())
      report.error(key,
                   fmt::format("`{}`: classes {} and {} are both called `{}`", key, before - names.begin(),
                               number, printable(*name)),
                   "another name for each class");
  }
}

std::string preparation_of(const std::vector<std::string>& class_names) {
  if (class_names.empty()) return {};
  return nlohmann::json{{"classes", class_names}}.dump(1) + "\n";
}

}  // namespace mtf
