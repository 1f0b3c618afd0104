#include "engine/config/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/nearest.h"
#include "engine/config/load.h"

namespace mtf::config {

std::string Constraint::to_string() const {
  if (low && high && above_low) return fmt::format("greater than {} and at most {}", *low, *high);
  if (low && high) return fmt::format("from {} to {}", *low, *high);
  if (low) return fmt::format("{} {}", above_low ? "greater than" : "at least", *low);
  if (high) return fmt::format("at most {}", *high);
  return {};
}

bool Constraint::allows(double value) const {
  if (low && (above_low ? value <= *low : value < *low)) return false;
  return !high || value <= *high;
}

void Bounds::apply(Field& field) const {
  if (low) {
    field.constraint.low = low;
    field.constraint.above_low = above_low;
  }
  if (high) field.constraint.high = high;
}

Place Place::at(std::string_view key) const {
  return {diagnostics, path.empty() ? std::string(key) : fmt::format("{}.{}", path, key), {}, language};
}

std::string Place::name() const { return path.empty() ? "this value" : fmt::format("`{}`", path); }

void Place::wrong_type(const Node& node, std::string_view expected, std::string hint) const {
  diagnostics.error(node.mark(), fmt::format("{} must be {}, not {}", name(), expected, node.describe()),
                    std::move(hint));
}

void Place::check_removals(const Node& map, const Node& defaults) const {
  for (const Entry& entry : map.entries()) {
    if (!entry.value.removes_nothing() || defaults.entry(entry.key)) continue;
    std::vector<std::string> names;
    for (const Entry& other : map.entries()) {
      if (!other.implied && !other.value.is_null()) names.push_back(other.key);
    }
    diagnostics.error(entry.mark, fmt::format("{} has no entry `{}` to remove", name(), entry.key),
                      did_you_mean(entry.key, names));
  }
}

void Report::error(std::string_view path, std::string message, std::string hint) const {
  place_.diagnostics.error(node_.mark_of(path), std::move(message), std::move(hint));
}

Node Visitor::with_default(const Node& list, const Field& field, const Place& place) const {
  if (!list.extends_default()) return list;
  const Node before = field.type->dump(field.value);
  if (before.is_map()) {
    place.diagnostics.error(list.mark(), fmt::format("{} is a map; `+=` appends to a list", place.name()),
                            fmt::format("write `{}.NAME=...`", place.path));
    return Node::unknown(list.mark());
  }
  std::vector<Node> elements;
  if (before.is_scalar()) elements.push_back(before.at(list.mark()));
  for (const Node& element : before.elements()) elements.push_back(element.at(list.mark()));
  elements.insert(elements.end(), list.elements().begin(), list.elements().end());
  return Node::list(std::move(elements), list.mark());
}

void Visitor::parse_entry(const Entry& entry, const Place& place) const {
  const auto field =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name == entry.key; });
  if (field == fields_.end()) {
    if (!entry.implied) report_unknown(entry, place);
    return;
  }
  Place below = place.at(field->name);
  if (entry.value.is_null()) {
    if (!field->off.empty() && entry.value.is_complete()) {
      place.diagnostics.warning(entry.value.mark(),
                                fmt::format("{}: null is the default, {}; {} is off", below.name(),
                                            to_flow_yaml(field->type->dump(field->value)), field->off));
    }
    return;
  }
  below.constraint = field->constraint;
  const Node value = with_default(entry.value, *field, below);
  if (!value.is_null()) field->type->parse(value, field->value, below);
}

void Visitor::report_unknown(const Entry& entry, const Place& place) const {
  const Place here = place.at(entry.key);
  std::string hint;
  if (const size_t dot = entry.key.find('.'); dot != std::string::npos) {
    hint = fmt::format("paths with dots are for arguments; in a file write `{}: {{{}: ...}}`",
                       entry.key.substr(0, dot), entry.key.substr(dot + 1));
  } else if (place.diagnostics.errors().size() < Error::kMostPrinted) {
    std::vector<std::string> names;
    for (const Field& known : fields_) names.push_back(known.name);
    const std::vector<KnownKey> language = place.language ? place.language() : std::vector<KnownKey>{};
    hint = hint_for_unknown_key(here.path, names, language, entry.value.entry("type") != nullptr);
  }
  place.diagnostics.error(entry.mark, fmt::format("unknown key {}", here.name()), std::move(hint));
}

std::vector<std::string> Visitor::unknown_keys(const Node& node) const {
  std::vector<std::string> unknown;
  for (const Entry& entry : node.entries()) {
    const bool known = std::ranges::find(fields_, entry.key, &Field::name) != fields_.end();
    if (!known && !entry.implied) unknown.push_back(entry.key);
  }
  return unknown;
}

void Visitor::check_presence(const Node& node, const Place& place) const {
  if (node.incomplete()) return;
  const std::vector<std::string> unknown = unknown_keys(node);
  for (const Field& field : fields_) {
    const Entry* given = node.entry(field.name);
    if (given && (!given->value.is_null() || given->value.incomplete())) continue;
    const Place below = place.at(field.name);
    if (field.required && nearest(field.name, unknown)) continue;  // a misspelt key has already been reported
    if (field.required) {
      place.diagnostics.error(given && given->mark.known() ? given->mark : node.mark(),
                              fmt::format("{} is missing", below.name()), field.meaning);
    } else if (dynamic_cast<const internal::StructBase*>(field.type)) {
      field.type->parse(Node::null(node.mark()), field.value, below);
    }
  }
  for (const Group& group : groups_) {
    std::string names, given;
    int count = 0;
    for (const std::string& key : group.keys) {
      names += fmt::format("{}`{}`", names.empty() ? "" : ", ", key);
      const Entry* entry = node.entry(key);
      if (!entry || entry->value.is_null()) continue;
      if (++count == 2) {
        place.diagnostics.error(entry->mark, fmt::format("`{}` cannot stand beside `{}`", key, given),
                                fmt::format("give one of {}", names));
      }
      given = key;
    }
    if (count == 0 && group.exactly && unknown.empty()) {
      place.diagnostics.error(node.mark(), fmt::format("{} needs {}{}", place.name(),
                                                       group.keys.size() > 1 ? "one of " : "", names));
    }
  }
}

void Visitor::parse(const Node& node, const Place& place) const {
  const size_t errors = place.diagnostics.errors().size();
  for (const Entry& entry : node.entries()) parse_entry(entry, place);
  check_presence(node, place);
  if (place.diagnostics.errors().size() > errors || node.incomplete()) return;
  const Report report(node, place);
  for (const auto& check : checks_) check(report);
}

Node Visitor::dump() const {
  std::vector<Entry> entries;
  for (const Field& field : fields_) {
    entries.push_back({field.name, {}, field.type->dump(field.value)});
  }
  return Node::map(std::move(entries));
}

namespace internal {
namespace {

/// A value that is nullptr was not given.
void add_change(const std::string& path, const Node* before, const Node* after, Resume resume,
                std::vector<Change>& result) {
  const auto text = [](const Node* value) { return value ? to_flow_yaml(*value) : "not given"; };
  result.push_back(
      {path, text(before), text(after), resume == Resume::kInherit ? Resume::kReported : resume});
}

/// True for lists of the same length in which no scalar, and no element's kind, differs.
bool differ_within(const std::vector<Node>& before, const std::vector<Node>& after) {
  if (before.size() != after.size()) return false;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i] && (before[i].is_scalar() || before[i].kind() != after[i].kind())) return false;
  }
  return true;
}

/// Adds the differences between two trees: by key if both are maps of the same type, by index if both are
/// lists of such maps.
void compare_trees(const std::string& path, const Node& before, const Node& after, const Field& field,
                   Resume resume, std::vector<Change>& result) {
  if (before == after) return;
  if (before.is_list() && after.is_list() && differ_within(before.elements(), after.elements())) {
    for (size_t i = 0; i < before.elements().size(); ++i) {
      compare_trees(fmt::format("{}.{}", path, i), before.elements()[i], after.elements()[i], field, resume,
                    result);
    }
    return;
  }
  if (!before.is_map() || !after.is_map()) return add_change(path, &before, &after, resume, result);
  const Node* type_before = before.find("type");
  const Node* type_after = after.find("type");
  if ((type_before || type_after) && !(type_before && type_after && *type_before == *type_after)) {
    const Resume of_type = field.resume_type == Resume::kInherit ? resume : field.resume_type;
    return add_change(path + ".type", type_before, type_after, of_type, result);
  }
  for (const Entry& entry : before.entries()) {
    const std::string below = path + "." + entry.key;
    if (const Entry* other = after.entry(entry.key)) {
      compare_trees(below, entry.value, other->value, field, resume, result);
    } else if (!entry.value.is_null()) {
      add_change(below, &entry.value, nullptr, resume, result);
    }
  }
  for (const Entry& entry : after.entries()) {
    if (!before.entry(entry.key) && !entry.value.is_null())
      add_change(path + "." + entry.key, nullptr, &entry.value, resume, result);
  }
}

void compare(const std::vector<Field>& before, const std::vector<Field>& after, const std::string& path,
             Resume around, std::vector<Change>& result) {
  for (size_t i = 0; i < before.size(); ++i) {
    const Field& a = before[i];
    const Field& b = after[i];
    if (!a.type) continue;
    const std::string below = path.empty() ? a.name : path + "." + a.name;
    const Resume resume = a.resume == Resume::kInherit ? around : a.resume;
    if (dynamic_cast<const StructBase*>(a.type)) {
      const std::vector<Section> x = a.type->sections(a.value), y = b.type->sections(b.value);
      compare(x.front().fields, y.front().fields, below, resume, result);
    } else {
      compare_trees(below, a.type->dump(a.value), b.type->dump(b.value), a, resume, result);
    }
  }
}

}  // namespace

std::vector<Change> changes(const Visitor& before, const Visitor& after) {
  std::vector<Change> result;
  compare(before.fields(), after.fields(), {}, Resume::kInherit, result);
  return result;
}

}  // namespace internal
}  // namespace mtf::config
