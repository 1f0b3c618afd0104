// Types that contain other types: structs, enums, optional values, lists, maps, sum types.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/join_words.h"
#include "engine/base/nearest.h"
#include "engine/config/schema.h"

namespace mtf::config::internal {
namespace {

std::vector<std::string> in_backquotes(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) result.push_back("`" + word + "`");
  return result;
}

/// Describes the values of a type for messages: "a whole number", "`none` or `block`", "a map with
/// `per_replica`".
std::string in_words(const Type& type) {
  if (const auto* words = dynamic_cast<const EnumBase*>(&type))
    return join_words(in_backquotes(words->words()), " or ");
  if (const auto* options = dynamic_cast<const StructBase*>(&type)) {
    constexpr size_t kShown = 3;
    std::vector<std::string> names;
    const std::vector<Section> sections = options->sections(nullptr);
    for (const Field& field : sections.front().fields) {
      if (names.size() < kShown) names.push_back(field.name);
    }
    if (!names.empty()) return "a map with " + join_words(in_backquotes(names), " or ");
  }
  const std::string name = type.name();
  return (std::string_view("aeiou").find(name.front()) == std::string_view::npos ? "a " : "an ") + name;
}

/// Returns the field that the user probably meant by writing `node` in place of the whole map.
const Field* meant_field(const std::vector<Field>& fields, const Node& node) {
  for (const Field& field : fields) {
    if (field.required && field.type->accepts(node)) return &field;
  }
  for (const Field& field : fields) {
    if (dynamic_cast<const EnumBase*>(field.type) && field.type->accepts(node)) return &field;
  }
  return fields.empty() ? nullptr : &fields.front();
}

/// False for a map that has no key of the struct `type`.
bool shares_a_key(const Type& type, const Node& node) {
  if (!node.is_map() || !dynamic_cast<const StructBase*>(&type)) return true;
  const std::vector<Section> sections = type.sections(nullptr);
  return std::ranges::any_of(sections.front().fields,
                             [&](const Field& field) { return node.find(field.name) != nullptr; });
}

/// True if `node` is the name of an alternative of a sum type.
bool names_a_type(const Type& type, const Node& node) {
  return node.is_word() && dynamic_cast<const VariantBase*>(&type) && type.accepts(node);
}

}  // namespace

// Structs.

bool StructBase::accepts(const Node& node) const {
  if (node.is_map()) return true;
  if (shorthand().empty()) return false;
  const std::vector<Section> section = sections(nullptr);
  return std::any_of(section.front().fields.begin(), section.front().fields.end(), [&](const Field& field) {
    return field.name == shorthand() && field.type->accepts(node);
  });
}

void StructBase::parse(const Node& node, void* value, const Place& place) const {
  Visitor visitor;
  visit(visitor, value);
  if (node.is_map() || node.is_null()) return visitor.parse(node, place);
  if (!shorthand().empty()) {
    return visitor.parse(Node::map({{std::string(shorthand()), node.mark(), node}}, node.mark()), place);
  }
  const size_t colon = node.text().find(':');
  if (!node.quoted() && colon != std::string::npos && colon > 0 && colon + 1 < node.text().size()) {
    return place.wrong_type(node, "a map of options",
                            fmt::format("write a blank after the colon: `{}: {}`",
                                        node.text().substr(0, colon), node.text().substr(colon + 1)));
  }
  const bool has_dashes =
      node.is_list() && !node.elements().empty() && std::ranges::all_of(node.elements(), &Node::is_map);
  const Field* field = meant_field(visitor.fields(), node);
  if (has_dashes && field && !field->required)
    return place.wrong_type(node, "a map of options", "write its keys without `- `");
  place.wrong_type(
      node, "a map of options",
      field
          ? fmt::format("write for example `{{{}: {}}}`", field->name,
                        dynamic_cast<const EnumBase*>(field->type) && field->type->accepts(node) ? node.text()
                                                                                                 : "...")
          : "");
}

Node StructBase::dump(const void* value) const {
  const std::shared_ptr<void> instance = copy(value);
  Visitor visitor;
  visit(visitor, instance.get());
  return visitor.dump();
}

std::vector<Section> StructBase::sections(const void* value) const {
  const std::shared_ptr<void> instance = copy(value);
  Visitor visitor;
  visit(visitor, instance.get());
  return {{"", visitor.fields(), instance}};
}

// Enums.

std::vector<std::string> EnumBase::words() const {
  std::vector<std::string> result;
  for (const EnumName& word : names_) {
    const bool again =
        std::any_of(names_.data(), &word, [&](const EnumName& before) { return before.value == word.value; });
    if (!again) result.push_back(word.name);
  }
  return result;
}

std::string EnumBase::name() const {
  std::string result;
  for (const std::string& word : words()) result += (result.empty() ? "" : " | ") + word;
  return result;
}

bool EnumBase::accepts(const Node& node) const {
  return node.is_scalar() && std::any_of(names_.begin(), names_.end(),
                                         [&](const EnumName& word) { return word.name == node.text(); });
}

void EnumBase::parse(const Node& node, void* value, const Place& place) const {
  if (!node.is_scalar()) return place.wrong_type(node, in_words(*this));
  for (const EnumName& word : names_) {
    if (word.name == node.text()) return set(value, word.value);
  }
  place.diagnostics.error(node.mark(), fmt::format("unknown value `{}` of {}", node.text(), place.name()),
                          did_you_mean(node.text(), words(), common_names_));
}

Node EnumBase::dump(const void* value) const {
  const int64_t number = get(value);
  for (const EnumName& word : names_) {
    if (word.value == number) return Node::scalar(word.name, {}, true);
  }
  return Node();
}

// Optional values, lists, maps.

std::string OptionalBase::name() const {
  return word_.empty() ? element_.name() : fmt::format("{}, or {}", element_.name(), word_);
}

bool OptionalBase::accepts(const Node& node) const {
  return (!word_.empty() && node.is_scalar() && node.text() == word_) || element_.accepts(node);
}

void OptionalBase::parse(const Node& node, void* value, const Place& place) const {
  if (!word_.empty() && node.is_scalar() && node.text() == word_) return reset(value);
  if (!word_.empty() && !element_.accepts(node) && node.is_word())
    return place.wrong_type(node, fmt::format("{} or `{}`", in_words(element_), word_));
  element_.parse(node, emplace(value), place);
}

Node OptionalBase::dump(const void* value) const {
  if (const void* inside = get(value)) return element_.dump(inside);
  return word_.empty() ? Node() : Node::scalar(std::string(word_), {}, true);
}

std::vector<Section> OptionalBase::sections(const void* value) const {
  return element_.sections(value ? get(value) : nullptr);
}

std::string ListBase::name() const {
  const std::string element = element_.name();
  const bool words =
      std::ranges::all_of(element, [](unsigned char c) { return std::isalpha(c) || c == ' '; });
  return fmt::format("list of {}{}", element, words ? "s" : "");
}

void ListBase::parse(const Node& node, void* value, const Place& place) const {
  if (!node.is_list()) {
    if (!element_.accepts(node) && !node.is_scalar()) return place.wrong_type(node, "a " + name());
    clear(value);
    return element_.parse(node, append(value), place);
  }
  clear(value);
  for (size_t i = 0; i < node.elements().size(); ++i) {
    const Node& element = node.elements()[i];
    Place below = place.at(std::to_string(i));
    below.constraint = place.constraint;
    if (element.is_null() && element.incomplete()) continue;
    if (element.is_null()) {
      below.wrong_type(element, in_words(element_));
    } else {
      element_.parse(element, append(value), below);
    }
  }
}

Node ListBase::dump(const void* value) const {
  std::vector<Node> elements;
  for (size_t i = 0; i < size(value); ++i) elements.push_back(element_.dump(get(value, i)));
  return Node::list(std::move(elements));
}

std::string MapBase::name() const {
  const std::string element = element_.name();
  return fmt::format("map from names to {}", element.empty() ? "values" : element);
}

bool MapBase::accepts(const Node& node) const {
  return node.is_map() && std::ranges::all_of(node.entries(), [&](const Entry& entry) {
           return entry.implied || entry.value.is_null() || element_.accepts(entry.value);
         });
}

void MapBase::parse(const Node& node, void* value, const Place& place) const {
  if (!node.is_map()) return place.wrong_type(node, "a " + name());
  place.check_removals(node, dump(value));
  clear(value);
  if (const Entry* type = node.entry("type"); type && !type->implied && names_a_type(element_, type->value)) {
    return place.diagnostics.error(
        type->mark, fmt::format("{} has names as keys, and a map with `type` below each", place.name()),
        fmt::format("write for example `{{my_name: {{type: {}, ...}}}}`", type->value.text()));
  }
  for (const Entry& entry : node.entries()) {
    if (entry.implied || entry.value.is_null()) continue;
    Place below = place.at(entry.key);
    below.constraint = place.constraint;
    element_.parse(entry.value, insert(value, entry.key), below);
  }
}

Node MapBase::dump(const void* value) const {
  std::vector<Entry> entries;
  for (const auto& [key, element] : items(value)) entries.push_back({key, {}, element_.dump(element)});
  return Node::map(std::move(entries));
}

// Sum types.

const VariantBase::Alternative* VariantBase::named(std::string_view type_name) const {
  for (const Alternative& alternative : alternatives_) {
    if (!type_name.empty() && alternative.type_name == type_name) return &alternative;
  }
  return nullptr;
}

std::vector<std::string> VariantBase::type_names() const {
  std::vector<std::string> names;
  for (const Alternative& alternative : alternatives_) {
    if (alternative.type && !alternative.type_name.empty()) names.emplace_back(alternative.type_name);
  }
  return names;
}

std::string VariantBase::hint_for(const std::string& name) const {
  std::vector<CommonName> common_names;
  for (const Alternative& alternative : alternatives_)
    common_names.insert(common_names.end(), alternative.common_names.begin(), alternative.common_names.end());
  return did_you_mean(name, type_names(), common_names);
}

std::string VariantBase::name() const {
  std::string result;
  for (const Alternative& alternative : alternatives_) {
    if (!alternative.type) continue;
    const std::string name =
        alternative.type_name.empty() ? alternative.type->name() : std::string(alternative.type_name);
    result += (result.empty() ? "" : " | ") + name;
  }
  return result;
}

bool VariantBase::accepts(const Node& node) const {
  if (node.is_word() && named(node.text())) return true;
  return std::any_of(alternatives_.begin(), alternatives_.end(), [&](const Alternative& alternative) {
    return alternative.type && alternative.type->accepts(node);
  });
}

void VariantBase::parse_named(const std::string& name, const Mark& mark, const Node& options, void* value,
                              const Place& place) const {
  const Alternative* alternative = named(name);
  if (!alternative) {
    return place.diagnostics.error(mark, fmt::format("unknown type `{}` of {}", name, place.name()),
                                   hint_for(name));
  }
  alternative->type->parse(options, emplace(value, alternative - alternatives_.data()), place);
}

void VariantBase::parse(const Node& node, void* value, const Place& place) const {
  const Entry* type = node.entry("type");
  if (type && !type->value.is_null() && !(type->implied && !named(type->value.text()))) {
    if (!type->value.is_scalar()) return place.at("type").wrong_type(type->value, "a word");
    return parse_named(type->value.text(), type->value.mark(), node.without("type"), value, place);
  }
  if (node.is_scalar() && named(node.text())) {
    return parse_named(node.text(), node.mark(), Node::null(node.mark()), value, place);
  }
  const size_t current = index(value);
  const bool type_required = std::ranges::any_of(alternatives_, &Alternative::type_required);
  const bool has_names =
      node.is_map() && !node.entries().empty() &&
      std::ranges::any_of(alternatives_, [&](const Alternative& alternative) {
        return dynamic_cast<const MapBase*>(alternative.type) && alternative.type->accepts(node);
      });
  if (node.is_map() && !type_required && current < alternatives_.size() && alternatives_[current].type &&
      !alternatives_[current].type_name.empty() &&
      (!has_names || shares_a_key(*alternatives_[current].type, node))) {
    return alternatives_[current].type->parse(node, emplace(value, current), place);
  }
  for (const bool with_type_name : {false, true}) {
    for (size_t i = 0; i < alternatives_.size(); ++i) {
      const Alternative& alternative = alternatives_[i];
      if (!alternative.type || alternative.type_name.empty() == with_type_name) continue;
      if ((with_type_name && node.is_map()) || !alternative.type->accepts(node)) continue;
      if (type_required && !shares_a_key(*alternative.type, node)) continue;
      return alternative.type->parse(node, emplace(value, i), place);
    }
  }
  const auto names = std::ranges::find_if(alternatives_, [](const Alternative& alternative) {
    return alternative.type_name.empty() && dynamic_cast<const MapBase*>(alternative.type) != nullptr;
  });
  if (node.is_map() && type_names().empty() && names != alternatives_.end()) {
    names->type->parse(node, emplace(value, static_cast<size_t>(names - alternatives_.begin())), place);
  } else if (node.is_map()) {
    place.diagnostics.error(node.mark(), fmt::format("{} needs a `type`", place.name()),
                            did_you_mean("", type_names()));
  } else if (node.is_word() && !node.quoted() && !to_bool(node.text()) && !type_names().empty()) {
    place.diagnostics.error(node.mark(), fmt::format("unknown type `{}` of {}", node.text(), place.name()),
                            hint_for(node.text()));
  } else {
    std::vector<std::string> known;
    for (const Alternative& alternative : alternatives_) {
      if (!alternative.type) continue;
      known.push_back(alternative.type_name.empty() ? in_words(*alternative.type)
                                                    : fmt::format("`{}`", alternative.type_name));
    }
    place.wrong_type(node, join_words(known, " or "));
  }
}

Node VariantBase::dump(const void* value) const {
  const size_t current = index(value);
  if (current >= alternatives_.size() || !alternatives_[current].type) return Node();
  const Alternative& alternative = alternatives_[current];
  const Node inside = alternative.type->dump(get(value));
  if (alternative.type_name.empty()) return inside;
  std::vector<Entry> entries = {{"type", {}, Node::scalar(std::string(alternative.type_name), {}, true)}};
  entries.insert(entries.end(), inside.entries().begin(), inside.entries().end());
  return Node::map(std::move(entries));
}

std::vector<Section> VariantBase::sections(const void* value) const {
  std::vector<Section> result;
  for (size_t i = 0; i < alternatives_.size(); ++i) {
    const Alternative& alternative = alternatives_[i];
    if (!alternative.type) continue;
    const bool of_entries = dynamic_cast<const MapBase*>(alternative.type) != nullptr;
    for (Section& section : alternative.type->sections(value && index(value) == i ? get(value) : nullptr)) {
      if (!alternative.type_name.empty()) section.title = fmt::format("type: {}", alternative.type_name);
      if (of_entries) section.title = fmt::format("{}: {}", kChosenName, section.title);
      result.push_back(std::move(section));
    }
  }
  return result;
}

void VariantBase::parse_listed(const Node& node, void* value, const Place& place) const {
  const std::string example = type_names().empty() ? "NAME" : type_names().front();
  const auto parse_options = [&](const std::string& name, const Mark& mark, const Node& options) {
    parse_named(name, mark, options, value, named(name) ? place.at(name) : place);
  };
  if (node.is_word()) return parse_options(node.text(), node.mark(), Node::null(node.mark()));
  if (!node.is_map())
    return place.wrong_type(node, fmt::format("a name with its options, such as `{}`", example));
  if (const Node* type = node.find("type"); type && named(type->text())) {
    return place.diagnostics.error(
        node.entry("type")->mark, fmt::format("{} has a `type`", place.name()),
        fmt::format("its options stand below its name: `{}: {{...}}`", type->text()));
  }
  if (node.entries().size() == 1) {
    const Entry& entry = node.entries().front();
    return parse_options(entry.key, entry.mark, entry.value.is_null() ? Node::null(entry.mark) : entry.value);
  }
  place.diagnostics.error(node.mark(), fmt::format("{} has {} keys", place.name(), node.entries().size()),
                          fmt::format("one name, and its options below it: `{}: {{...}}`", example));
}

Node VariantBase::dump_listed(const void* value) const {
  const size_t current = index(value);
  if (current >= alternatives_.size()) return Node();
  const Alternative& alternative = alternatives_[current];
  return Node::map({{std::string(alternative.type_name), {}, alternative.type->dump(get(value))}});
}

std::vector<Section> VariantBase::listed_sections(const void* value) const {
  std::vector<Section> result = VariantBase::sections(value);
  for (size_t i = 0; i < result.size(); ++i) result[i].title = fmt::format("{}:", alternatives_[i].type_name);
  return result;
}

}  // namespace mtf::config::internal
