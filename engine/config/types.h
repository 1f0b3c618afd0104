// Values with a notation of their own: intervals, durations, byte sizes, meshes, `auto`, named maps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/nearest.h"
#include "engine/core/mesh.h"
#include "engine/core/shape.h"

namespace mtf::config {

/// A length of time: `30s`, `10min`, `2h`.
struct Duration {
  double seconds = 0;
  friend bool operator==(const Duration&, const Duration&) = default;
};

/// How often something happens: steps (`500`; 0: never), time (`10min`) or epochs (`1epoch`).
struct Interval {
  enum class Unit { kSteps, kSeconds, kEpochs };
  double value = 0;
  Unit unit = Unit::kSteps;

  static Interval steps(int64_t n) { return {static_cast<double>(n), Unit::kSteps}; }
  static Interval seconds(double n) { return {n, Unit::kSeconds}; }
  static Interval epochs(double n) { return {n, Unit::kEpochs}; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A size of memory: a number of bytes, or with KB MB GB TB (powers of 1000) or KiB MiB GiB TiB (powers of
/// 1024).
struct Bytes {
  int64_t value = 0;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

/// Path of a file or directory; `~` at the front became the home directory.
struct Path {
  std::string text;
  Mark mark = {};  ///< where it was written
  bool empty() const { return text.empty(); }
  friend bool operator==(const Path& a, const Path& b) { return a.text == b.text; }
};
/// `~` and `~/x` with the home directory ($HOME; where it is empty, that of the user database).
std::string expand_home(std::string_view path);

/// A name of something that is defined elsewhere, and where it was written: for the message when there is no
/// such thing.
struct Name {
  std::string text;
  Mark mark;  ///< unknown where the name is a default

  Name() = default;
  Name(std::string text, Mark mark = {}) : text(std::move(text)), mark(std::move(mark)) {}
  Name(const char* text) : text(text) {}
  bool empty() const { return text.empty(); }
  friend bool operator==(const Name& a, const Name& b) { return a.text == b.text; }
};

/// Names and sizes of a mesh; a size may be open (`auto`) until the number of positions is known.
struct MeshSizes {
  struct Axis {
    std::string name;
    std::optional<int64_t> size;  ///< nothing: auto
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;

  /// The mesh when there are `positions` positions. Throws Error (kConfig) when the sizes given do not divide
  /// it.
  Mesh resolve(int64_t positions) const;
  bool has_auto() const;
  friend bool operator==(const MeshSizes&, const MeshSizes&) = default;
};

/// A value or the word `auto`.
template <class T>
struct Auto {
  std::optional<T> value;  ///< nothing: auto
  friend bool operator==(const Auto&, const Auto&) = default;
};

/// A map from names that the user chooses to values, in the order of writing. `name: null` removes an entry.
template <class T>
struct Named : std::vector<std::pair<std::string, T>> {
  using std::vector<std::pair<std::string, T>>::vector;
  const T* find(std::string_view name) const {
    for (const auto& [key, value] : *this) {
      if (key == name) return &value;
    }
    return nullptr;
  }
};

/// The words of an enum, found by `EnumNames enum_names(E)` next to the enum:
///   inline config::EnumNames enum_names(Mode) { return {{"train", Mode::kTrain}, {"trace", Mode::kTrace}}; }
struct EnumName {
  template <class E>
  EnumName(std::string_view name, E value, bool later = false)
      : name(name), value(static_cast<int64_t>(value)), later(later) {}
  std::string name;
  int64_t value;
  bool later;  ///< known, but the feature is not there yet
};
/// Where several names have one value, config.yaml has the first; the others mean the same.
using EnumNames = std::vector<EnumName>;
/// What other programs call the words of an enum or others that are near, for hints.
using CommonNames = std::span<const CommonName>;

}  // namespace mtf::config
