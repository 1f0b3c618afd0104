// help(): the keys of a struct as commented YAML, from the same description as parsing.
#include <fmt/format.h>

#include <algorithm>

#include "engine/config/load.h"
#include "engine/config/schema.h"
#include "engine/core/nearest.h"

namespace mtf::config::internal {
namespace {

constexpr size_t kCommentColumn = 34;
constexpr size_t kWidth = 110;

/// "left   # right", the right wrapped.
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
  if (!field.type) return field.meaning + " (comes with a later version)";
  std::string comment = is_struct(field) ? "" : field.type->name();
  if (const std::string bounds = field.constraint.to_string(); !bounds.empty()) comment += ", " + bounds;
  if (!field.constraint.words.empty()) {
    comment.clear();
    for (const std::string& word : field.constraint.words) comment += (comment.empty() ? "" : " | ") + word;
  }
  if (field.required) comment += ", required";
  return comment.empty() ? field.meaning : comment + ": " + field.meaning;
}

class Printer {
 public:
  void print(const Field& field, const std::string& indentation) {
    if (!field.type) {
      text_ += line(indentation + "# " + field.name + ":", comment_of(field));
      return;
    }
    if (is_struct(field)) {
      text_ += line(indentation + field.name + ":", comment_of(field));
      for (const Section& section : field.type->sections(field.value))
        print_fields(section, field.type, indentation + "  ");
      return;
    }
    const std::string value = to_flow_yaml(field.type->dump(field.value));
    const std::vector<Section> sections = field.type->sections(field.value);
    const bool shown =
        sections.empty() || indentation.size() + field.name.size() + value.size() <= kCommentColumn;
    text_ +=
        line(fmt::format("{}{}:{}", indentation, field.name, shown ? " " + value : ""), comment_of(field));
    const std::string below = indentation + (indentation.find('#') == std::string::npos ? "  # " : "    ");
    for (const Section& section : sections) {
      const bool titled = !section.title.empty();
      if (titled) text_ += below + section.title + "\n";
      print_fields(section, field.type, below + (titled ? "  " : ""));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void print_fields(const Section& section, const Type* type, const std::string& indentation) {
    if (std::count(open_.begin(), open_.end(), type) > 0) return;  // a type that holds itself
    open_.push_back(type);
    for (const Field& field : section.fields) print(field, indentation);
    open_.pop_back();
  }

  std::string text_;
  std::vector<const Type*> open_;
};

/// The field at `path` below `sections`; the sections that hold it stay alive in `owners`.
Field find(const std::vector<Section>& sections, std::string_view path, std::vector<Section>& owners) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view key = path.substr(0, dot);
  std::vector<std::string> names;
  for (const Section& section : sections) {
    for (const Field& field : section.fields) {
      if (field.name == key) {
        if (dot == path.size()) return field;
        std::vector<Section> below = field.type ? field.type->sections(field.value) : std::vector<Section>{};
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
    for (const Section& section : sections) {
      for (const Field& field : section.fields) printer.print(field, "");
    }
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
