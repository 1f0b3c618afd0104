// Maps each C++ type to its Type object. The templates only forward to base classes, which do the work
// without templates.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/config/types.h"
#include "engine/config/visitor.h"

namespace mtf::config::internal {

/// The type of a described struct.
class StructBase : public Type {
 public:
  std::string name() const override { return "map of options"; }
  bool accepts(const Node& node) const override;
  void parse(const Node& node, void* value, const Place& place) const override;
  Node dump(const void* value) const override;
  std::vector<Section> sections(const void* value) const override;

  virtual void visit(Visitor& visitor, void* value) const = 0;
  virtual std::shared_ptr<void> copy(const void* value) const = 0;  ///< nullptr: copies a default value
  virtual std::string_view shorthand() const = 0;  ///< name of the field that a scalar or list sets
};

template <class T>
class StructType final : public StructBase {
  void visit(Visitor& visitor, void* value) const override { describe(visitor, *static_cast<T*>(value)); }
  std::shared_ptr<void> copy(const void* value) const override {
    return value ? std::make_shared<T>(*static_cast<const T*>(value)) : std::make_shared<T>();
  }
  std::string_view shorthand() const override {
    if constexpr (requires { T::shorthand; }) return T::shorthand;
    return {};
  }
};

class EnumBase : public Type {
 public:
  explicit EnumBase(EnumNames names, CommonNames common_names)
      : names_(std::move(names)), common_names_(common_names) {}
  std::string name() const override;
  bool accepts(const Node& node) const override;
  void parse(const Node& node, void* value, const Place& place) const override;
  Node dump(const void* value) const override;
  /// Returns the words that are implemented, one for each value.
  std::vector<std::string> words() const;

  virtual int64_t get(const void* value) const = 0;
  virtual void set(void* value, int64_t number) const = 0;

 private:
  EnumNames names_;
  CommonNames common_names_;
};

template <class E>
CommonNames common_names_of() {
  if constexpr (requires { common_names(E{}); }) return common_names(E{});
  return {};
}

template <class E>
class EnumType final : public EnumBase {
 public:
  EnumType() : EnumBase(enum_names(E{}), common_names_of<E>()) {}
  int64_t get(const void* value) const override {
    return static_cast<int64_t>(*static_cast<const E*>(value));
  }
  void set(void* value, int64_t number) const override { *static_cast<E*>(value) = static_cast<E>(number); }
};

/// The type of a value in whose place a word (`null`, `auto`) may stand.
class OptionalBase : public Type {
 public:
  OptionalBase(const Type& element, std::string_view word) : element_(element), word_(word) {}
  std::string name() const override;
  bool accepts(const Node& node) const override;
  void parse(const Node& node, void* value, const Place& place) const override;
  Node dump(const void* value) const override;
  std::vector<Section> sections(const void* value) const override;

  virtual const void* get(const void* value) const = 0;  ///< nullptr: the word stands there
  virtual void* emplace(void* value) const = 0;
  virtual void reset(void* value) const = 0;

 private:
  const Type& element_;
  std::string_view word_;  ///< empty: null
};

template <class T>
class OptionalType final : public OptionalBase {
 public:
  OptionalType() : OptionalBase(type_of<T>(), {}) {}
  const void* get(const void* value) const override {
    const auto& optional = *static_cast<const std::optional<T>*>(value);
    return optional ? &*optional : nullptr;
  }
  void* emplace(void* value) const override {
    auto& optional = *static_cast<std::optional<T>*>(value);
    return optional ? &*optional : &optional.emplace();
  }
  void reset(void* value) const override { static_cast<std::optional<T>*>(value)->reset(); }
};

template <class T>
class AutoType final : public OptionalBase {
 public:
  AutoType() : OptionalBase(type_of<T>(), "auto") {}
  const void* get(const void* value) const override {
    const auto& optional = static_cast<const Auto<T>*>(value)->value;
    return optional ? &*optional : nullptr;
  }
  void* emplace(void* value) const override {
    auto& optional = static_cast<Auto<T>*>(value)->value;
    return optional ? &*optional : &optional.emplace();
  }
  void reset(void* value) const override { static_cast<Auto<T>*>(value)->value.reset(); }
};

class ListBase : public Type {
 public:
  explicit ListBase(const Type& element) : element_(element) {}
  std::string name() const override;
  bool accepts(const Node& node) const override { return node.is_list() || element_.accepts(node); }
  void parse(const Node& node, void* value, const Place& place) const override;
  Node dump(const void* value) const override;
  std::vector<Section> sections(const void*) const override { return element_.sections(nullptr); }

  virtual size_t size(const void* list) const = 0;
  virtual const void* get(const void* list, size_t index) const = 0;
  virtual void* append(void* list) const = 0;
  virtual void clear(void* list) const = 0;

 private:
  const Type& element_;
};

template <class T>
class ListType : public ListBase {
 public:
  ListType() : ListBase(type_of<T>()) {}
  size_t size(const void* list) const override { return static_cast<const std::vector<T>*>(list)->size(); }
  const void* get(const void* list, size_t index) const override {
    return &(*static_cast<const std::vector<T>*>(list))[index];
  }
  void* append(void* list) const override { return &static_cast<std::vector<T>*>(list)->emplace_back(); }
  void clear(void* list) const override { static_cast<std::vector<T>*>(list)->clear(); }
};

/// The type of a map whose keys are names that the user chooses.
class MapBase : public Type {
 public:
  explicit MapBase(const Type& element) : element_(element) {}
  std::string name() const override;
  bool accepts(const Node& node) const override;
  void parse(const Node& node, void* value, const Place& place) const override;
  Node dump(const void* value) const override;
  std::vector<Section> sections(const void*) const override { return element_.sections(nullptr); }

  virtual std::vector<std::pair<std::string, const void*>> items(const void* map) const = 0;
  virtual void* insert(void* map, const std::string& key) const = 0;
  virtual void clear(void* map) const = 0;

 private:
  const Type& element_;
};

template <class Map, class T>
class MapType final : public MapBase {
 public:
  MapType() : MapBase(type_of<T>()) {}
  std::vector<std::pair<std::string, const void*>> items(const void* map) const override {
    std::vector<std::pair<std::string, const void*>> result;
    for (const auto& [key, value] : *static_cast<const Map*>(map)) result.emplace_back(key, &value);
    return result;
  }
  void* insert(void* map, const std::string& key) const override {
    Map& values = *static_cast<Map*>(map);
    if constexpr (requires { values.emplace_back(key, T{}); }) {
      return &values.emplace_back(key, T{}).second;
    } else {
      return &values[key];
    }
  }
  void clear(void* map) const override { static_cast<Map*>(map)->clear(); }
};

/// A sum type. `type:` or a bare word selects one of the alternatives with a type_name; otherwise the kind of
/// the node does.
class VariantBase : public Type {
 public:
  struct Alternative {
    std::string_view type_name;
    const Type* type = nullptr;  ///< nullptr for monostate
    bool type_required = false;  ///< a map without `type` does not select this alternative by default
    CommonNames common_names = {};
  };
  explicit VariantBase(std::vector<Alternative> alternatives) : alternatives_(std::move(alternatives)) {}
  std::string name() const override;
  bool accepts(const Node& node) const override;
  void parse(const Node& node, void* value, const Place& place) const override;
  Node dump(const void* value) const override;
  std::vector<Section> sections(const void* value) const override;

  virtual size_t index(const void* value) const = 0;
  virtual const void* get(const void* value) const = 0;
  virtual void* emplace(void* value,
                        size_t index) const = 0;  ///< keeps the value if it already is this alternative

  const std::vector<Alternative>& alternatives() const { return alternatives_; }

 protected:
  // The notation of entries of a list: `NAME`, or `NAME: options` in place of `{type: NAME, ...}`.
  void parse_listed(const Node& node, void* value, const Place& place) const;
  Node dump_listed(const void* value) const;
  std::vector<Section> listed_sections(const void* value) const;

 private:
  const Alternative* named(std::string_view type_name) const;
  std::vector<std::string> type_names() const;
  std::string hint_for(const std::string& name) const;
  void parse_named(const std::string& name, const Mark& mark, const Node& options, void* value,
                   const Place& place) const;

  std::vector<Alternative> alternatives_;
};

template <class T>
VariantBase::Alternative alternative() {
  VariantBase::Alternative result;
  if constexpr (requires { T::type_name; }) result.type_name = T::type_name;
  if constexpr (requires { T::common_names; }) result.common_names = T::common_names;
  if constexpr (requires { T::type_required; }) result.type_required = true;
  if constexpr (!std::is_same_v<T, std::monostate>) result.type = &type_of<T>();
  return result;
}

/// A std::variant. The alternatives of an alternative that is a sum type itself are its own.
template <class... Ts>
class VariantType final : public VariantBase {
  using Value = std::variant<Ts...>;

 public:
  VariantType() : VariantBase(flattened()) {}
  size_t index(const void* value) const override {
    const size_t outer = static_cast<const Value*>(value)->index();
    const VariantBase* const inner = nested()[outer];
    return first(outer) + (inner ? inner->index(held(value)) : 0);
  }
  const void* get(const void* value) const override {
    const VariantBase* const inner = nested()[static_cast<const Value*>(value)->index()];
    return inner ? inner->get(held(value)) : held(value);
  }
  void* emplace(void* value, size_t index) const override {
    size_t outer = 0;
    while (outer + 1 < sizeof...(Ts) && first(outer + 1) <= index) ++outer;
    Value& variant = *static_cast<Value*>(value);
    if (variant.index() != outer) {
      const auto set = [&]<size_t... I>(std::index_sequence<I...>) {
        ((I == outer ? (void)variant.template emplace<I>() : void()), ...);
      };
      set(std::index_sequence_for<Ts...>());
    }
    const VariantBase* const inner = nested()[outer];
    void* const alternative = const_cast<void*>(held(value));
    return inner ? inner->emplace(alternative, index - first(outer)) : alternative;
  }

 private:
  /// By alternative: its type as a sum type; nullptr for another.
  static const std::vector<const VariantBase*>& nested() {
    static const std::vector<const VariantBase*> types = {nested_type<Ts>()...};
    return types;
  }
  template <class T>
  static const VariantBase* nested_type() {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return nullptr;
    } else {
      return dynamic_cast<const VariantBase*>(&type_of<T>());
    }
  }
  static std::vector<Alternative> flattened() {
    const std::vector<Alternative> own = {alternative<Ts>()...};
    std::vector<Alternative> all;
    for (size_t i = 0; i < own.size(); ++i) {
      const VariantBase* const inner = nested()[i];
      if (inner)
        all.insert(all.end(), inner->alternatives().begin(), inner->alternatives().end());
      else
        all.push_back(own[i]);
    }
    return all;
  }
  /// The place of the first flattened alternative of the alternative `outer`.
  static size_t first(size_t outer) {
    size_t place = 0;
    for (size_t i = 0; i < outer; ++i) place += nested()[i] ? nested()[i]->alternatives().size() : 1;
    return place;
  }
  static const void* held(const void* value) {
    return std::visit([](const auto& x) -> const void* { return &x; }, *static_cast<const Value*>(value));
  }
};

template <class T>
struct TypeFor {
  using type = typename std::conditional_t<std::is_enum_v<T>, std::type_identity<EnumType<T>>,
                                           std::type_identity<StructType<T>>>::type;
};
template <class T>
struct TypeFor<std::optional<T>> {
  using type = OptionalType<T>;
};
template <class T>
struct TypeFor<Auto<T>> {
  using type = AutoType<T>;
};
template <class T>
struct TypeFor<std::vector<T>> {
  using type = ListType<T>;
};
template <class T>
struct TypeFor<Named<T>> {
  using type = MapType<Named<T>, T>;
};
template <class T>
struct TypeFor<std::map<std::string, T>> {
  using type = MapType<std::map<std::string, T>, T>;
};
template <class... Ts>
struct TypeFor<std::variant<Ts...>> {
  using type = VariantType<Ts...>;
};

}  // namespace mtf::config::internal

namespace mtf::config {

template <class T>
const Type& type_of() {
  static const typename internal::TypeFor<T>::type kType;
  return kType;
}

// Types without parameters are defined in basic_types.cc and special_types.cc.
template <>
const Type& type_of<bool>();
template <>
const Type& type_of<int>();
template <>
const Type& type_of<int64_t>();
template <>
const Type& type_of<float>();
template <>
const Type& type_of<double>();
template <>
const Type& type_of<std::string>();
template <>
const Type& type_of<DType>();
template <>
const Type& type_of<Node>();
template <>
const Type& type_of<Shape>();
template <>
const Type& type_of<LayoutRules>();
template <>
const Type& type_of<MeshSizes>();
template <>
const Type& type_of<Interval>();
template <>
const Type& type_of<Duration>();
template <>
const Type& type_of<Bytes>();
template <>
const Type& type_of<Path>();
template <>
const Type& type_of<Name>();

}  // namespace mtf::config
