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

/// Types of a sum type that were printed elsewhere: their names, the path where they were printed, and the
/// keys that they have only here.
struct Repeated {
  std::string names, path;
  std::vector<Field> more;
};

bool same_keys(const std::vector<Field>& a, const std::vector<Field>& b) {
  return std::ranges::equal(
      a, b, [](const Field& x, const Field& y) { return x.name == y.name && x.meaning == y.meaning; });
}

/// Prints each type of a sum type once; further occurrences print its name and the keys that it has only
/// there.
class Printer {
 public:
  void print(const Field& field, const std::string& indentation, const std::string& around = {}) {
    const std::string path = around.empty() ? field.name : fmt::format("{}.{}", around, field.name);
    if (is_struct(field)) {
      text_ += line(indentation + field.name + ":", comment_of(field));
      for (const Section& section : field.type->sections(field.value))
        print_fields(section, field.type, indentation + "  ", path);
      return;
    }
    const std::string value = to_flow_yaml(field.type->dump(field.value));
    const std::vector<Section> sections = field.type->sections(field.value);
    const bool shown =
        sections.empty() || indentation.size() + field.name.size() + value.size() <= kCommentColumn;
    text_ +=
        line(fmt::format("{}{}:{}", indentation, field.name, shown ? " " + value : ""), comment_of(field));
    const std::string below = indentation + (indentation.find('#') == std::string::npos ? "  # " : "    ");
    print_sections(sections, field.type, below, path);
  }

  /// `path` is the path of the key that has these sections; empty at the top.
  void print_sections(const std::vector<Section>& sections, const Type* type, const std::string& indentation,
                      const std::string& path) {
    std::optional<Repeated> repeated;
    for (const Section& section : sections) {
      const std::optional<Repeated> again = find_repeated(section);
      const bool goes_on =
          repeated && again && repeated->path == again->path && same_keys(repeated->more, again->more);
      if (goes_on) {
        repeated->names += " | " + again->names.substr(again->names.find(' ') + 1);  // without "type:"
        continue;
      }
      if (repeated) print_repeated(*repeated, indentation, path);
      repeated = again;
      if (again) continue;
      const bool titled = !section.title.empty();
      if (titled) text_ += fmt::format("{}{}\n", indentation, section.title);
      if (titled) printed_.push_back({section, path});
      print_fields(section, type, indentation + (titled ? "  " : ""), path);
    }
    if (repeated) print_repeated(*repeated, indentation, path);
  }

  std::string take() { return std::move(text_); }

 private:
  struct Printed {
    Section section;
    std::string path;
  };

  void print_fields(const Section& section, const Type* type, const std::string& indentation,
                    const std::string& path) {
    if (std::count(open_.begin(), open_.end(), type) > 0) return;  // the type contains itself
    open_.push_back(type);
    for (const Field& field : section.fields) print(field, indentation, path);
    open_.pop_back();
  }

  /// Returns where the type of the section was printed; types are the same if their keys have the same names
  /// and meanings.
  std::optional<Repeated> find_repeated(const Section& section) const {
    const auto has = [](const std::vector<Field>& fields, const Field& field) {
      return std::ranges::any_of(fields, [&](const Field& other) {
        return other.name == field.name && other.meaning == field.meaning;
      });
    };
    for (const Printed& printed : printed_) {
      const std::vector<Field>& known = printed.section.fields;
      if (section.title.empty() || printed.section.title != section.title) continue;
      if (!std::ranges::all_of(known, [&](const Field& field) { return has(section.fields, field); }))
        continue;
      Repeated repeated{section.title, printed.path, {}};
      std::ranges::copy_if(section.fields, std::back_inserter(repeated.more),
                           [&](const Field& field) { return !has(known, field); });
      return repeated;
    }
    return std::nullopt;
  }

  void print_repeated(const Repeated& repeated, const std::string& indentation, const std::string& path) {
    const std::string where = repeated.path == path ? "as above" : fmt::format("as in `{}`", repeated.path);
    text_ +=
        fmt::format("{}{}, {}{}\n", indentation, repeated.names, where, repeated.more.empty() ? "" : ", and");
    for (const Field& field : repeated.more) print(field, indentation + "  ", path);
  }

  std::string text_;
  std::vector<Printed> printed_;
  std::vector<const Type*> open_;
};

/// Returns the field at `path` below `sections`; `owners` keeps the sections that contain it alive.
Field find(const std::vector<Section>& sections, std::string_view path, std::vector<Section>& owners) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view key = path.substr(0, dot);
  std::vector<std::string> names;
  for (const Section& section : sections) {
    for (const Field& field : section.fields) {
      if (field.name == key) {
        if (dot == path.size()) return field;
        std::vector<Section> below = field.type->sections(field.value);
        owners.insert(owners.end(), below.begin(), below.end());
        return find(below, path.substr(dot + 1), owners);
      }
      names.push_back(field.name);
    }
  }
  throw Error(ErrorKind::kUsage, fmt::format("there is no key `{}`", key), did_you_mean(key, names));
}

}  // namespace

std::string help(const std::vector<Section>& sections, std::string_view path) {
  Printer printer;
  if (path.empty()) {
    printer.print_sections(sections, nullptr, "", "");
  } else {
    std::vector<Section> owners;
    printer.print(find(sections, path, owners), "");
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
