#include "data/class_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
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

std::optional<int32_t> ClassNames::find(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

int32_t ClassNames::number(const std::string& name, const std::string& place) const {
  if (const std::optional<int32_t> found = find(name)) return *found;
  throw Error(ErrorKind::kData, fmt::format("{}: there is no class `{}`", place, printable(name)),
              did_you_mean(name, names_));
}

ClassLabels::ClassLabels(std::vector<std::string> given, std::optional<std::vector<std::string>> known)
    : given_(std::move(given)), known_(std::move(known)) {}

void ClassLabels::add(const std::string& label,
                      const std::function<void(const std::string&, const std::string&)>& fail) {
  const auto [found, is_new] = places_.try_emplace(label, static_cast<int32_t>(words_.size()));
  if (is_new) {
    check(label, fail);
    words_.push_back(label);
  }
  labels_.push_back(found->second);
}

void ClassLabels::check(const std::string& label,
                        const std::function<void(const std::string&, const std::string&)>& fail) {
  const std::vector<std::string>& classes = known_ && !known_->empty() ? *known_ : given_;
  if (!classes.empty() && std::ranges::find(classes, label) == classes.end())
    fail(fmt::format("there is no class `{}`", printable(label)), did_you_mean(label, classes));
  if (class_number(label)) return;
  if (known_ && classes.empty())
    fail(fmt::format("`{}` is no whole number", printable(label)),
         "the number of a class, as in the training data");
  are_numbers_ = false;
}

std::vector<std::string> ClassLabels::classes() const {
  if (known_ && !known_->empty()) return *known_;
  if (known_ || !given_.empty() || are_numbers_) return given_;
  std::vector<std::string> sorted = words_;
  std::ranges::sort(sorted);
  return sorted;
}

std::vector<int32_t> ClassLabels::numbers() const {
  const std::vector<std::string> names = classes();
  std::vector<int32_t> of_words;
  for (const std::string& word : words_)
    of_words.push_back(names.empty() ? *class_number(word)
                                     : static_cast<int32_t>(std::ranges::find(names, word) - names.begin()));
  std::vector<int32_t> result;
  for (const int32_t place : labels_) result.push_back(of_words[static_cast<size_t>(place)]);
  return result;
}

std::optional<int32_t> class_number(std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
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
  return prepared_value<std::vector<std::string>>(preparation, "classes")
      .value_or(std::vector<std::string>());
}

std::optional<bool> prepared_flag(const std::string& preparation, const std::string& key) {
  return prepared_value<bool>(preparation, key);
}

std::vector<std::string> names_of_classes(const Source& source, const std::string& preparation) {
  std::vector<std::string> names = prepared_classes(preparation);
  return names.empty() ? source.class_names() : names;
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
