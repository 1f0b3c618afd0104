// Types with their own notation: shapes, meshes, layout rules, intervals, durations, byte sizes, paths.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "engine/config/schema.h"

namespace mtf::config {

std::string expand_home(std::string_view path) {
  if (!path.starts_with('~') || (path.size() > 1 && path[1] != '/')) return std::string(path);
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* user = getpwuid(geteuid());
    home = user != nullptr ? user->pw_dir : nullptr;
  }
  return home == nullptr || *home == '\0' ? std::string(path) : home + std::string(path.substr(1));
}

bool MeshSizes::has_auto() const {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return !axis.size; });
}

Mesh MeshSizes::resolve(int64_t positions) const {
  int64_t given = 1;
  for (const Axis& axis : axes) given *= axis.size.value_or(1);
  if (has_auto() && positions % given != 0) {
    throw Error(ErrorKind::kConfig,
                fmt::format("the sizes of the mesh ({}) do not divide {} positions", given, positions),
                "choose sizes whose product divides the number of positions");
  }
  std::vector<Dimension> dimensions;
  for (const Axis& axis : axes) dimensions.push_back({axis.name, axis.size.value_or(positions / given)});
  return Mesh(Shape(std::move(dimensions)));
}

namespace {

/// Returns a map; a text "a:2;b:4" is converted to one. Reports anything else and returns nothing. `example`
/// shows both notations.
std::optional<Node> as_pairs(const Node& node, const std::string& expected, const std::string& example,
                             const Place& place) {
  if (node.is_map()) return node;
  if (node.is_scalar() && node.text().find(':') != std::string::npos)
    return pairs_to_map(node, example, place.diagnostics);
  place.wrong_type(node, expected, "write for example " + example);
  return std::nullopt;
}

bool occurs_before(const Node& map, const Entry& entry) { return map.entry(entry.key) != &entry; }

/// Returns a size of at least 1; reports anything else and returns nothing.
std::optional<int64_t> size_of(const Entry& entry, const Place& place) {
  const Place below = place.at(entry.key);
  const auto size = entry.value.quoted() ? std::nullopt : to_integer(entry.value.text());
  if (!size) {
    below.wrong_type(entry.value, "a size (a whole number)");
  } else if (*size < 1) {
    place.diagnostics.error(entry.value.mark(),
                            fmt::format("{} must be at least 1, not {}", below.name(), *size));
    return std::nullopt;
  }
  return size;
}

void report_twice(const Entry& entry, const Place& place) {
  place.diagnostics.error(entry.mark, fmt::format("`{}` occurs twice in {}", entry.key, place.name()));
}

class ShapeType final : public Type {
 public:
  std::string name() const override { return "map from dimensions to sizes"; }
  bool accepts(const Node& node) const override { return node.is_map(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto pairs = as_pairs(node, "a map from dimensions to sizes", "{hidden: 1024}", place);
    if (!pairs) return;
    place.check_removals(*pairs, dump(value));
    std::vector<Dimension> dimensions;
    for (const Entry& entry : pairs->entries()) {
      if (entry.implied || entry.value.is_null()) continue;
      if (occurs_before(*pairs, entry)) {
        report_twice(entry, place);
      } else if (const auto size = size_of(entry, place)) {
        dimensions.push_back({entry.key, *size});
      }
    }
    int64_t elements = 1;
    for (const Dimension& d : dimensions) {
      if (__builtin_mul_overflow(elements, d.size, &elements))
        return place.diagnostics.error(node.mark(),
                                       fmt::format("{} has more than 2^63 elements", place.name()));
    }
    *static_cast<Shape*>(value) = Shape(std::move(dimensions));
  }

  Node dump(const void* value) const override {
    std::vector<Entry> entries;
    for (const Dimension& d : *static_cast<const Shape*>(value)) {
      entries.push_back({d.name, {}, Node::scalar(std::to_string(d.size))});
    }
    return Node::map(std::move(entries));
  }
};

class MeshType final : public Type {
 public:
  std::string name() const override {
    return "map from mesh dimensions to sizes (one may be auto), or \"rows:2;cols:4\"";
  }
  bool accepts(const Node& node) const override { return node.is_map() || node.is_scalar(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto pairs = as_pairs(node, "a map from mesh dimensions to sizes",
                                "{rows: 2, cols: 4} or \"rows:2;cols:4\"", place);
    if (!pairs) return;
    place.check_removals(*pairs, dump(value));
    MeshSizes mesh;
    for (const Entry& entry : pairs->entries()) {
      if (entry.value.is_null()) continue;
      if (occurs_before(*pairs, entry)) {
        report_twice(entry, place);
      } else if (entry.value.is_scalar() && entry.value.text() == "auto") {
        if (mesh.has_auto()) {
          place.diagnostics.error(entry.value.mark(), fmt::format("a second `auto` in {}", place.name()),
                                  "give all sizes but one");
        }
        mesh.axes.push_back({entry.key, std::nullopt});
      } else if (const auto size = size_of(entry, place)) {
        mesh.axes.push_back({entry.key, size});
      }
    }
    constexpr size_t kMostAxes = std::numeric_limits<AxisMask>::digits - 1;
    if (mesh.axes.size() > kMostAxes) {
      return place.diagnostics.error(node.mark(),
                                     fmt::format("{} has more than {} dimensions", place.name(), kMostAxes));
    }
    constexpr int64_t kMostPositions = 1'000'000;
    int64_t positions = 1;
    for (const MeshSizes::Axis& axis : mesh.axes) {
      if (__builtin_mul_overflow(positions, axis.size.value_or(1), &positions) ||
          positions > kMostPositions) {
        return place.diagnostics.error(
            node.mark(), fmt::format("{} has more than {} positions", place.name(), kMostPositions));
      }
    }
    *static_cast<MeshSizes*>(value) = std::move(mesh);
  }

  Node dump(const void* value) const override {
    std::vector<Entry> entries;
    for (const MeshSizes::Axis& axis : static_cast<const MeshSizes*>(value)->axes) {
      entries.push_back({axis.name, {}, Node::scalar(axis.size ? std::to_string(*axis.size) : "auto")});
    }
    return Node::map(std::move(entries));
  }
};

/// Returns the place of the key and the value of a rule together, if they are on one line.
Mark mark_of_rule(const Entry& entry) {
  const Mark& value = entry.value.mark();
  Mark mark = entry.mark;
  if (value.file == mark.file && value.line == mark.line && value.column > mark.column) {
    mark.length = value.column + value.length - mark.column;
  }
  return mark;
}

class LayoutType final : public Type {
 public:
  std::string name() const override {
    return "map from tensor dimensions to a mesh dimension or a list of them, or \"batch:rows;hidden:cols\"";
  }
  bool accepts(const Node& node) const override { return node.is_map() || node.is_scalar(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto pairs = as_pairs(node, "a map from tensor dimensions to mesh dimensions",
                                "{batch: rows, hidden: cols} or \"batch:rows;hidden:cols\"", place);
    if (!pairs) return;
    place.check_removals(*pairs, dump(value));
    std::vector<LayoutRule> rules;
    for (const Entry& entry : pairs->entries()) {
      if (entry.value.is_null()) continue;
      rules.push_back({entry.key, mesh_dimensions(entry, place.at(entry.key)), mark_of_rule(entry)});
    }
    *static_cast<LayoutRules*>(value) = LayoutRules(std::move(rules));
  }

  Node dump(const void* value) const override {
    std::vector<Entry> entries;
    for (const LayoutRule& rule : static_cast<const LayoutRules*>(value)->rules()) {
      std::vector<Node> names;
      for (const std::string& name : rule.mesh_dimensions) names.push_back(Node::scalar(name, {}, true));
      entries.push_back({rule.dimension, {}, names.size() == 1 ? names[0] : Node::list(names)});
    }
    return Node::map(std::move(entries));
  }

 private:
  static std::vector<std::string> mesh_dimensions(const Entry& entry, const Place& place) {
    std::vector<std::string> names;
    type_of<std::vector<std::string>>().parse(entry.value, &names, place);
    return names;
  }
};

/// A number with a unit: "10min" is 10 and "min".
struct Quantity {
  double number = 0;
  std::string unit;
};

std::optional<Quantity> quantity_of(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  const std::string& text = node.text();
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const size_t unit = std::min(text.find_first_not_of(' ', digits), text.size());
  const auto number = to_number(std::string_view(text).substr(0, digits));
  if (!number) return std::nullopt;
  return Quantity{*number, text.substr(unit)};
}

/// Returns a length of time in seconds, or nothing if the unit is not one of time.
std::optional<double> seconds_of(const Quantity& quantity) {
  const std::string& unit = quantity.unit;
  const double seconds = quantity.number * (unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0);
  if (!(seconds > 0) || !std::isfinite(seconds)) return std::nullopt;
  return seconds;
}

/// Returns a number of steps, with or without this unit, or nothing if the unit is another one.
std::optional<int64_t> steps_of(const Node& node, const Quantity& quantity) {
  const std::string_view text = node.text();
  const bool has_unit = quantity.unit == "steps" || quantity.unit == "step";
  if (has_unit) return to_integer(text.substr(0, text.find_first_of(" s")));
  return node.quoted() ? std::nullopt : to_integer(text);
}

/// Returns the shortest digits that read back as `number`, without an exponent, because a unit follows.
std::string digits_of(double number) {
  std::array<char, 512> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed).ptr;
  return {text.data(), end};
}

std::string duration_text(double seconds) {
  if (seconds >= 3600 && std::fmod(seconds, 3600) == 0) return digits_of(seconds / 3600) + "h";
  if (seconds >= 60 && std::fmod(seconds, 60) == 0) return digits_of(seconds / 60) + "min";
  return digits_of(seconds) + "s";
}

class DurationType final : public Type {
 public:
  std::string name() const override { return "time (30s, 10min, 2h)"; }
  bool accepts(const Node& node) const override { return quantity_of(node).has_value(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto quantity = quantity_of(node);
    const auto seconds = quantity ? seconds_of(*quantity) : std::nullopt;
    if (!seconds) return place.wrong_type(node, "a time", "write for example 30s, 10min or 2h");
    static_cast<Duration*>(value)->seconds = *seconds;
  }

  Node dump(const void* value) const override {
    return Node::scalar(duration_text(static_cast<const Duration*>(value)->seconds));
  }
};

class IntervalType final : public Type {
 public:
  std::string name() const override { return "interval (500 steps, 10min, 1epoch)"; }
  bool accepts(const Node& node) const override { return quantity_of(node).has_value(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    Interval& interval = *static_cast<Interval*>(value);
    const auto quantity = quantity_of(node);
    const auto seconds = quantity ? seconds_of(*quantity) : std::nullopt;
    const auto steps = quantity ? steps_of(node, *quantity) : std::nullopt;
    if (steps && *steps > kMostSteps) {
      place.diagnostics.error(node.mark(),
                              fmt::format("{} cannot be as large as {}", place.name(), node.text()));
    } else if (steps) {
      interval = Interval::steps(*steps);
    } else if (seconds) {
      interval = Interval::seconds(*seconds);
    } else if (quantity && quantity->number > 0 &&
               (quantity->unit == "epoch" || quantity->unit == "epochs")) {
      interval = Interval::epochs(quantity->number);
    } else {
      place.wrong_type(node, "an interval", "write for example 500 (steps), 30s, 10min, 2h or 1epoch");
    }
  }

  Node dump(const void* value) const override {
    const Interval& interval = *static_cast<const Interval*>(value);
    switch (interval.unit) {
      case Interval::Unit::kSteps:
        return Node::scalar(fmt::format("{}", static_cast<int64_t>(interval.value)));
      case Interval::Unit::kSeconds:
        return Node::scalar(duration_text(interval.value));
      case Interval::Unit::kEpochs:
        break;
    }
    return Node::scalar(digits_of(interval.value) + "epoch");
  }

 private:
  static constexpr int64_t kMostSteps = int64_t{1} << 53;  // up to which a double holds every integer exactly
};

class BytesType final : public Type {
 public:
  std::string name() const override { return "size of memory (16GB, 512MiB)"; }
  bool accepts(const Node& node) const override { return quantity_of(node).has_value(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto quantity = quantity_of(node);
    const auto unit = quantity ? factor_of(quantity->unit) : std::nullopt;
    const double bytes = unit ? quantity->number * *unit : 0;
    if (!unit || bytes != std::floor(bytes) || bytes > 9e18) {
      return place.wrong_type(node, "a size of memory",
                              "write for example 16GB, 512MiB or a number of bytes");
    }
    static_cast<Bytes*>(value)->value = static_cast<int64_t>(bytes);
  }

  Node dump(const void* value) const override {
    return Node::scalar(std::to_string(static_cast<const Bytes*>(value)->value));
  }

 private:
  static std::optional<double> factor_of(const std::string& unit) {
    static constexpr std::pair<const char*, double> kUnits[] = {
        {"", 1},      {"B", 1},       {"KB", 1e3},       {"MB", 1e6},          {"GB", 1e9},
        {"TB", 1e12}, {"KiB", 1024.}, {"MiB", 1048576.}, {"GiB", 1073741824.}, {"TiB", 1099511627776.}};
    for (const auto& [name, factor] : kUnits) {
      if (unit == name) return factor;
    }
    return std::nullopt;
  }
};

class PathType final : public Type {
 public:
  std::string name() const override { return "path"; }
  bool accepts(const Node& node) const override { return node.is_scalar(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    if (!node.is_scalar()) return place.wrong_type(node, "a path");
    *static_cast<Path*>(value) = {expand_home(node.text()), node.mark()};
  }

  Node dump(const void* value) const override {
    return Node::scalar(static_cast<const Path*>(value)->text, {}, true);
  }
};

class NameType final : public Type {
 public:
  std::string name() const override { return "name"; }
  bool accepts(const Node& node) const override { return node.is_scalar(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    if (!node.is_scalar()) return place.wrong_type(node, "a name");
    *static_cast<Name*>(value) = {node.text(), node.mark()};
  }

  Node dump(const void* value) const override {
    return Node::scalar(static_cast<const Name*>(value)->text, {}, true);
  }
};

}  // namespace

template <>
const Type& type_of<Name>() {
  static const NameType kType;
  return kType;
}

template <>
const Type& type_of<Shape>() {
  static const ShapeType kType;
  return kType;
}

template <>
const Type& type_of<MeshSizes>() {
  static const MeshType kType;
  return kType;
}

template <>
const Type& type_of<LayoutRules>() {
  static const LayoutType kType;
  return kType;
}

template <>
const Type& type_of<Duration>() {
  static const DurationType kType;
  return kType;
}

template <>
const Type& type_of<Interval>() {
  static const IntervalType kType;
  return kType;
}

template <>
const Type& type_of<Bytes>() {
  static const BytesType kType;
  return kType;
}

template <>
const Type& type_of<Path>() {
  static const PathType kType;
  return kType;
}

}  // namespace mtf::config
