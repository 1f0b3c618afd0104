// help(): prints the keys of a struct as commented YAML, from the same description as parsing.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "engine/base/nearest.h"
#include "engine/config/load.h"
#include "engine/config/schema.h"

namespace mtf::config::internal {
namespace {

constexpr size_t kCommentColumn = 34;
constexpr size_t kWidth = 110;
/// What the title of a section begins with that describes the entries of a map.
const std::string kEntry = std::string(kChosenName) + ": ";

/// Returns "left   # right", with `right` wrapped.
std::string line(const std::string& left, const std::string& right) {
  std::string result = left;
  size_t column = left.size();
  if (right.empty()) return result + "\n";
  const auto pad = [&] {
    result += column < kCommentColumn ? std::string(kCommentColumn - column, ' ') : " ";
    result += "#";
    column = std::max(column + 1, kCommentColumn) + 1;
  };
  pad();
  for (size_t begin = 0; begin < right.size();) {
    const size_t end = std::min(right.find(' ', begin), right.size());
    if (column + 1 + (end - begin) > kWidth) {
      result += "\n";
      column = 0;
      pad();
    }
    result += " " + right.substr(begin, end - begin);
    column += 1 + (end - begin);
    begin = end + 1;
  }
  return result + "\n";
}

bool is_struct(const Field& field) { return dynamic_cast<const StructBase*>(field.type) != nullptr; }

std::string comment_of(const Field& field) {
  std::string comment = is_struct(field) ? "" : field.type->name();
  if (const std::string bounds = field.constraint.to_string(); !bounds.empty()) comment += ", " + bounds;
  if (!field.constraint.words.empty()) {
    comment.clear();
    for (const std::string& word : field.constraint.words) comment += (comment.empty() ? "" : " | ") + word;
  }
  if (field.required) comment += comment.empty() ? "required" : ", required";
  return comment.empty() ? field.meaning : comment + ": " + field.meaning;
}

/// Types of a sum type that were printed before: their names, where they were printed, and the keys that they
/// have only here.
struct Repeated {
  std::string names, where;
  std::vector<Field> more;
};

std::string default_of(const Field& field) { return to_flow_yaml(field.type->dump(field.value)); }

bool same_key(const Field& a, const Field& b) { return a.name == b.name && a.meaning == b.meaning; }

bool same_keys(const std::vector<Field>& a, const std::vector<Field>& b) {
  return std::ranges::equal(a, b, same_key);
}

bool contains(const std::vector<Field>& fields, const Field& field) {
  return std::ranges::any_of(fields, [&](const Field& other) { return same_key(other, field); });
}

std::vector<Field> without(const std::vector<Field>& fields, const std::vector<Field>& others) {
  std::vector<Field> result;
  std::ranges::copy_if(fields, std::back_inserter(result),
                       [&](const Field& field) { return !contains(others, field); });
  return result;
}

/// The keys that at least three types, and all of a sum type, have with the same default.
std::vector<Field> common_keys(const std::vector<Section>& sections) {
  std::vector<Field> common;
  if (sections.size() < 3) return common;
  for (const Field& field : sections[0].fields) {
    const std::string value = default_of(field);
    const bool in_all = std::ranges::all_of(sections, [&](const Section& section) {
      return !section.title.empty() && std::ranges::any_of(section.fields, [&](const Field& other) {
        return same_key(other, field) && default_of(other) == value;
      });
    });
    if (in_all) common.push_back(field);
  }
  return common;
}

/// Prints each type of a sum type once; further occurrences print its name and the keys that it has only
/// there. Keys that all types of a sum type have stand after the last of them.
class Printer {
 public:
  void print(const Field& field, const std::string& indentation, const std::string& around = {}) {
    const std::string path = around.empty() ? field.name : fmt::format("{}.{}", around, field.name);
    if (is_struct(field)) {
      text_ += line(indentation + field.name + ":", comment_of(field));
      for (const Section& section : field.type->sections(field.value))
        print_fields(section.fields, field.type, indentation + "  ", path);
      return;
    }
    const std::string value = default_of(field);
    std::vector<Section> sections = field.type->sections(field.value);
    const bool shown =
        sections.empty() || indentation.size() + field.name.size() + value.size() <= kCommentColumn;
    text_ +=
        line(fmt::format("{}{}:{}", indentation, field.name, shown ? " " + value : ""), comment_of(field));
    if (dynamic_cast<const MapBase*>(field.type) != nullptr) {
      for (Section& section : sections) section.title = kEntry + section.title;
    }
    const std::string below = indentation + (indentation.find('#') == std::string::npos ? "  # " : "    ");
    print_sections(sections, field.type, below, path);
  }

  /// `path` is the path of the key that has these sections; empty at the top.
  void print_sections(const std::vector<Section>& sections, const Type* type, const std::string& indentation,
                      const std::string& path) {
    std::vector<Section> own, of_entries;
    for (const Section& section : sections) {
      const bool is_entry = section.title.starts_with(kEntry);
      (is_entry ? of_entries : own).push_back(section);
      if (is_entry) of_entries.back().title = section.title.substr(kEntry.size());
    }
    print_types(own, type, indentation, path);
    if (of_entries.empty()) return;
    print_line(fmt::format("{}{}:", indentation, kChosenName));
    print_types(of_entries, type, indentation + "  ", path);
  }

  void print_line(const std::string& text) { text_ += text + "\n"; }
  std::string take() { return std::move(text_); }

 private:
  struct Printed {
    Section section;
    std::string path;
    bool in_full = true;  ///< false: by a reference to a type that has most of its keys
  };

  void print_types(const std::vector<Section>& sections, const Type* type, const std::string& indentation,
                   const std::string& path) {
    std::vector<std::optional<Repeated>> again;
    for (const Section& section : sections) again.push_back(find_repeated(section, path));
    const bool alike = std::ranges::all_of(
        again, [&](const auto& other) { return other && goes_on(*again.front(), *other); });
    const std::vector<Field> common = alike ? std::vector<Field>() : common_keys(sections);
    std::optional<Repeated> repeated;
    for (const Section& section : sections) {
      std::optional<Repeated> here = find_repeated(section, path);
      if (here) here->more = without(here->more, common);
      if (repeated && here && goes_on(*repeated, *here)) {
        repeated->names += " | " + here->names.substr(here->names.find(' ') + 1);  // without "type:"
        continue;
      }
      if (repeated) print_repeated(*repeated, type, indentation, path);
      repeated = here;
      if (here) continue;
      const Section* const part = part_of(section, common, path);
      const bool titled = !section.title.empty();
      if (titled) print_line(indentation + section.title);
      std::vector<Field> fields = without(section.fields, common);
      if (part) {
        fields = without(fields, part->fields);
        print_line(
            fmt::format("{}  all keys of `{}`{}", indentation, part->title, fields.empty() ? "" : ", and"));
      }
      if (titled) printed_.push_back({section, path, part == nullptr});
      print_fields(fields, type, indentation + (titled ? "  " : ""), path);
    }
    if (repeated) print_repeated(*repeated, type, indentation, path);
    if (common.empty()) return;
    text_ += indentation + "every type also has\n";
    print_fields(common, type, indentation + "  ", path);
  }

  void print_fields(const std::vector<Field>& fields, const Type* type, const std::string& indentation,
                    const std::string& path) {
    if (std::count(open_.begin(), open_.end(), type) > 0) return;  // the type contains itself
    open_.push_back(type);
    for (const Field& field : fields) print(field, indentation, path);
    open_.pop_back();
  }

  static bool goes_on(const Repeated& before, const Repeated& next) {
    return before.where == next.where && same_keys(before.more, next.more);
  }

  /// Returns where the type of the section was printed; types are the same if their keys have the same names
  /// and meanings.
  std::optional<Repeated> find_repeated(const Section& section, const std::string& path) const {
    for (const Printed& printed : printed_) {
      const std::vector<Field>& known = printed.section.fields;
      if (section.title.empty() || printed.section.title != section.title) continue;
      if (!without(known, section.fields).empty()) continue;
      const std::string where = printed.path == path ? "as above" : fmt::format("as in `{}`", printed.path);
      return Repeated{section.title, where, without(section.fields, known)};
    }
    return std::nullopt;
  }

  /// Returns the first type of the same sum type that was printed with its keys, if this one has all of them, too,
  /// with the same defaults; or nullptr.
  const Section* part_of(const Section& section, const std::vector<Field>& common,
                         const std::string& path) const {
    constexpr size_t kFewest = 4;  // below, a reference is no shorter than the keys
    if (section.title.empty()) return nullptr;
    for (const Printed& printed : printed_) {
      const std::vector<Field> part = without(printed.section.fields, common);
      if (printed.path != path || !printed.in_full || part.size() < kFewest) continue;
      const bool has_all = std::ranges::all_of(part, [&](const Field& field) {
        return std::ranges::any_of(section.fields, [&](const Field& other) {
          return same_key(other, field) && default_of(other) == default_of(field);
        });
      });
      if (has_all) return &printed.section;
    }
    return nullptr;
  }

  void print_repeated(const Repeated& repeated, const Type* type, const std::string& indentation,
                      const std::string& path) {
    const std::string text =
        fmt::format("{}, {}{}", repeated.names, repeated.where, repeated.more.empty() ? "" : ", and");
    std::string row = indentation;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      if (row.size() + (end - begin) > kWidth) {
        text_ += row.substr(0, row.size() - 1) + "\n";
        row = indentation + "  ";
      }
      row += text.substr(begin, end - begin) + (end < text.size() ? " " : "");
      begin = end + 1;
    }
    text_ += row + "\n";
    print_fields(repeated.more, type, indentation + "  ", path);
  }

  std::string text_;
  std::vector<Printed> printed_;
  std::vector<const Type*> open_;
};

/// A key, and the types of a sum type that have it.
struct Found {
  Field field;
  std::string title;
};

/// A look-up of a key by its path.
struct Search {
  std::vector<Found> found;     ///< keys of this path that say different things
  std::vector<Section> owners;  ///< keep the sections that contain them alive
  std::optional<Error> error;   ///< for a path that no type has
};

/// `title` is that of the type around `sections`; may be empty.
void find(const std::vector<Section>& sections, std::string_view path, const std::string& title,
          Search& search) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view key = path.substr(0, dot);
  std::vector<std::string> names;
  for (const Section& section : sections) {
    const std::string& here = section.title.empty() ? title : section.title;
    for (const Field& field : section.fields) {
      names.push_back(field.name);
      if (field.name != key) continue;
      if (dot < path.size()) {
        const std::vector<Section> below = field.type->sections(field.value);
        search.owners.insert(search.owners.end(), below.begin(), below.end());
        find(below, path.substr(dot + 1), here, search);
        continue;
      }
      const auto same = std::ranges::find_if(search.found, [&](const Found& other) {
        return same_key(other.field, field) && default_of(other.field) == default_of(field);
      });
      if (same == search.found.end())
        search.found.push_back({field, here});
      else if (!here.empty() && same->title != here)
        same->title += " | " + here.substr(here.rfind(' ') + 1);
    }
  }
  if (std::ranges::find(names, key) == names.end() && !search.error)
    search.error.emplace(ErrorKind::kUsage, fmt::format("there is no key `{}`", key),
                         did_you_mean(key, names));
}

}  // namespace

std::string help(const std::vector<Section>& sections, std::string_view path) {
  Printer printer;
  if (path.empty()) {
    printer.print_sections(sections, nullptr, "", "");
  } else {
    Search search;
    find(sections, path, "", search);
    if (search.found.empty()) {
      const std::string_view parent = path.substr(0, std::min(path.rfind('.'), path.size()));
      if (path == "type") return help(sections, "");
      if (path.ends_with(".type")) return help(sections, parent);
      throw *search.error;
    }
    const std::string around(path.substr(0, std::min(path.rfind('.'), path.size())));
    for (const Found& found : search.found) {
      if (!found.title.empty()) printer.print_line("# " + found.title);
      printer.print(found.field, "", path.find('.') == path.npos ? "" : around);
    }
  }
  return printer.take();
}

std::vector<std::string> keys(const std::vector<Section>& sections) {
  std::vector<std::string> names;
  for (const Section& section : sections) {
    for (const Field& field : section.fields) names.push_back(field.name);
  }
  return names;
}

}  // namespace mtf::config::internal
