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
  std::string title = {};               ///< the first type, such as "type: adam"
  std::vector<std::string> types = {};  ///< each once; empty for a key of no sum type
};

/// A look-up of a key, or of a type of a sum type, by its path.
struct Search {
  std::vector<Found> found;     ///< keys of this path that say different things
  std::vector<Section> types;   ///< types that the last word of the path names
  std::vector<Section> owners;  ///< keep the sections that contain the keys alive
  std::optional<Error> error;   ///< for a path that nothing has
};

/// Returns "adam" of the titles "type: adam", "NAME: type: adam" and "adam:"; empty for a section of no type.
std::string type_in(std::string_view title) {
  if (title.ends_with(':')) title.remove_suffix(1);
  return std::string(title.substr(title.rfind(' ') + 1));
}

void add_once(const std::string& word, std::vector<std::string>& words) {
  if (!word.empty() && std::ranges::find(words, word) == words.end()) words.push_back(word);
}

void add_found(const Field& field, const std::string& title, Search& search) {
  auto same = std::ranges::find_if(search.found, [&](const Found& other) {
    return same_key(other.field, field) && default_of(other.field) == default_of(field);
  });
  if (same == search.found.end()) same = search.found.insert(same, {.field = field});
  if (same->types.empty()) same->title = title;
  add_once(type_in(title), same->types);
}

void add_type(const Section& section, Search& search) {
  const bool is_known = std::ranges::any_of(search.types, [&](const Section& other) {
    return other.title == section.title && same_keys(other.fields, section.fields);
  });
  if (!is_known) search.types.push_back(section);
}

/// `title` is that of the type around `sections`; may be empty.
void find(const std::vector<Section>& sections, std::string_view path, const std::string& title,
          Search& search) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view key = path.substr(0, dot);
  const bool is_last = dot == path.size();
  const std::string_view rest = path.substr(is_last ? dot : dot + 1);
  std::vector<std::string> names, types;
  for (const Section& section : sections) {
    const std::string& here = section.title.empty() ? title : section.title;
    const std::string type = type_in(section.title);
    add_once(type, types);
    if (type == key && is_last) add_type(section, search);
    if (type == key && !is_last) find({{"", section.fields, section.owner}}, rest, section.title, search);
    for (const Field& field : section.fields) {
      add_once(field.name, names);
      if (field.name != key) continue;
      if (is_last) {
        add_found(field, here, search);
        continue;
      }
      const std::vector<Section> below = field.type->sections(field.value);
      search.owners.insert(search.owners.end(), below.begin(), below.end());
      find(below, rest, here, search);
    }
  }
  types.insert(types.end(), names.begin(), names.end());
  if (std::ranges::find(types, key) == types.end() && !search.error)
    search.error.emplace(ErrorKind::kUsage, fmt::format("there is no key `{}`", key),
                         did_you_mean(key, types));
}

/// Returns "type: adam | lion".
std::string title_of(const Found& found) {
  const std::string& first = found.types.front();
  const size_t end = found.title.rfind(first) + first.size();
  return fmt::format("{}{}{}", found.title.substr(0, end - first.size()), fmt::join(found.types, " | "),
                     found.title.substr(end));
}

}  // namespace

std::string help(const std::vector<Section>& sections, std::string_view path) {
  Printer printer;
  if (path.empty()) {
    printer.print_sections(sections, nullptr, "", "");
  } else {
    const size_t dot = path.rfind('.');
    const std::string parent(path.substr(0, dot == path.npos ? 0 : dot));
    Search search;
    find(sections, path, "", search);
    if (search.found.empty() && search.types.empty()) {
      if (path.substr(dot + 1) == "type") return help(sections, parent);
      throw *search.error;
    }
    printer.print_sections(search.types, nullptr, "", parent);
    for (const Found& found : search.found) {
      if (!found.types.empty()) printer.print_line("# " + title_of(found));
      printer.print(found.field, "", parent);
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
