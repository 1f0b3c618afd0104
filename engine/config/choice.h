// A value whose `type` chooses one of the classes that registered themselves for it: an optimizer, a source of data,
// a model. A class is known by its own source file alone, as layers are.
//
//   // shape.h
//   struct ShapeOptions {
//     static constexpr std::string_view default_type = "circle";   // of a map without `type`; may be left out
//     virtual ~ShapeOptions() = default;
//     virtual double area() const = 0;
//   };
//   using AnyShape = config::Choice<ShapeOptions>;                 // a field type, as std::variant is
//
//   // circle.cc
//   struct Circle final : ShapeOptions {
//     static constexpr std::string_view type_name = "circle";
//     double radius = 1;
//     double area() const override { return 3.14159 * radius * radius; }
//   };
//   void describe(config::Visitor& visit, Circle& options) { visit("radius", options.radius, "...", positive); }
//   const config::Registration<ShapeOptions, Circle> circle;
//
//   any_shape->area();
//
// Libraries that hold such files are linked whole (WHOLE_ARCHIVE).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/config/schema.h"

namespace mtf::config {

/// One class that registered itself for `Base`.
template <class Base>
struct Kind {
  internal::VariantBase::Alternative alternative;
  std::unique_ptr<Base> (*make)();
  std::unique_ptr<Base> (*copy)(const Base& options);
  /// The object as the class that registered itself, for its Type.
  void* (*options)(Base& base);

  const internal::StructBase& type() const {
    return static_cast<const internal::StructBase&>(*alternative.type);
  }
};

/// All classes that registered themselves for `Base`, by `type`.
template <class Base>
std::map<std::string_view, Kind<Base>>& kinds() {
  static std::map<std::string_view, Kind<Base>> registered;
  return registered;
}

/// A file-scope object that makes `Options` known as `type: Options::type_name`.
template <class Base, class Options>
class Registration {
 public:
  Registration() {
    const Kind<Base> kind{internal::alternative<Options>(),
                          []() -> std::unique_ptr<Base> { return std::make_unique<Options>(); },
                          [](const Base& options) -> std::unique_ptr<Base> {
                            return std::make_unique<Options>(static_cast<const Options&>(options));
                          },
                          [](Base& base) -> void* { return &static_cast<Options&>(base); }};
    const bool is_new = kinds<Base>().emplace(Options::type_name, kind).second;
    MTF_CHECK(is_new, "type {} is registered twice", Options::type_name);
  }
};

/// Holds an object of one of the registered classes, as a value: copies are deep.
template <class Base>
class Choice {
 public:
  /// Base::default_type with its defaults; empty where there is none.
  Choice() {
    if constexpr (requires { Base::default_type; }) *this = Choice(Base::default_type);
  }
  /// The class of this `type`, which must be registered, with its defaults.
  explicit Choice(std::string_view type) : kind_(&kind_of(type)), options_(kind_->make()) {}
  template <class Options>
  requires std::is_base_of_v<Base, Options> Choice(const Options& options)
      : kind_(&kind_of(Options::type_name)), options_(std::make_unique<Options>(options)) {}
  Choice(const Choice& other)
      : kind_(other.kind_), options_(other.kind_ ? other.kind_->copy(*other.options_) : nullptr) {}
  Choice(Choice&&) noexcept = default;
  Choice& operator=(Choice other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(options_, other.options_);
    return *this;
  }

  bool empty() const { return kind_ == nullptr; }
  /// Empty for an empty choice.
  std::string_view type() const { return kind_ ? kind_->alternative.type_name : std::string_view(); }
  const Base& operator*() const { return *options_; }
  Base& operator*() { return *options_; }
  const Base* operator->() const { return options_.get(); }
  Base* operator->() { return options_.get(); }
  /// The options as those of one class; nullptr where they are of another.
  template <class Options>
  const Options* get_if() const {
    return dynamic_cast<const Options*>(options_.get());
  }
  template <class Options>
  Options* get_if() {
    return dynamic_cast<Options*>(options_.get());
  }

 private:
  static const Kind<Base>& kind_of(std::string_view type) {
    const auto found = kinds<Base>().find(type);
    MTF_CHECK(found != kinds<Base>().end(), "type {} is not registered", type);
    return found->second;
  }

  const Kind<Base>* kind_ = nullptr;
  std::unique_ptr<Base> options_;
};

/// A choice whose map has further keys, which belong to the place where it stands: a source of data and its weight
/// among others. They are described by
///   void describe(config::Visitor& visit, Extra& extra, const Base& chosen);
template <class Base, class Extra>
struct Extended {
  Choice<Base> choice;
  Extra extra = {};
};

/// A text, such as the name of a file, or a choice, which is written as a map: `input: -` or `input: {type: tsv, ..}`.
template <class Base>
struct TextOr {
  TextOr() = default;
  TextOr(const char* initial) : text(initial) {}

  std::string text;
  std::optional<Choice<Base>> choice = {};  ///< set where a map is given; `text` is then of no meaning
};

/// A choice that is an entry of a list and written as layers are: `NAME`, `NAME: VALUE` or `NAME: {options}`.
template <class Base>
struct Listed {
  Choice<Base> choice;
  Mark mark = {};  ///< its place in the configuration
};

namespace internal {

template <class Base>
std::vector<VariantBase::Alternative> alternatives_of() {
  std::vector<VariantBase::Alternative> result;
  for (const auto& [type, kind] : kinds<Base>()) result.push_back(kind.alternative);
  return result;
}

/// The place of the choice's type among all; their number for an empty one.
template <class Base>
size_t index_of(const Choice<Base>& choice) {
  size_t index = 0;
  for (const auto& [type, kind] : kinds<Base>()) {
    if (type == choice.type()) break;
    ++index;
  }
  return index;
}

/// Makes the choice one of the type at `index`, unless it is already.
template <class Base>
const Kind<Base>& choose(Choice<Base>& choice, size_t index) {
  auto kind = kinds<Base>().begin();
  std::advance(kind, index);
  if (choice.type() != kind->first) choice = Choice<Base>(kind->first);
  return kind->second;
}

template <class Base>
class ChoiceType final : public VariantBase {
 public:
  ChoiceType() : VariantBase(alternatives_of<Base>()) {}
  size_t index(const void* value) const override {
    return index_of(*static_cast<const Choice<Base>*>(value));
  }
  const void* get(const void* value) const override {
    const auto& choice = *static_cast<const Choice<Base>*>(value);
    return kinds<Base>().at(choice.type()).options(const_cast<Base&>(*choice));
  }
  void* emplace(void* value, size_t index) const override {
    auto& choice = *static_cast<Choice<Base>*>(value);
    return choose(choice, index).options(*choice);
  }
};

/// The keys of one class, and those of the place.
template <class Base, class Extra>
class ExtendedStruct final : public StructBase {
  using Value = Extended<Base, Extra>;

 public:
  explicit ExtendedStruct(const Kind<Base>& kind) : kind_(kind) {}
  void visit(Visitor& visitor, void* value) const override {
    auto& extended = *static_cast<Value*>(value);
    kind_.type().visit(visitor, kind_.options(*extended.choice));
    describe(visitor, extended.extra, std::as_const(*extended.choice));
  }
  std::shared_ptr<void> copy(const void* value) const override {
    return value ? std::make_shared<Value>(*static_cast<const Value*>(value))
                 : std::make_shared<Value>(Choice<Base>(kind_.alternative.type_name));
  }
  std::string_view shorthand() const override { return kind_.type().shorthand(); }

 private:
  const Kind<Base>& kind_;
};

template <class Base, class Extra>
class ExtendedType final : public VariantBase {
  using Value = Extended<Base, Extra>;

 public:
  ExtendedType() : VariantBase(extended_alternatives()) {}
  size_t index(const void* value) const override {
    return index_of(static_cast<const Value*>(value)->choice);
  }
  const void* get(const void* value) const override { return value; }
  void* emplace(void* value, size_t index) const override {
    choose(static_cast<Value*>(value)->choice, index);
    return value;
  }

 private:
  static std::vector<Alternative> extended_alternatives() {
    static const auto* const structs = [] {
      auto* all = new std::vector<ExtendedStruct<Base, Extra>>();
      for (const auto& [type, kind] : kinds<Base>()) all->emplace_back(kind);
      return all;
    }();
    std::vector<Alternative> result = alternatives_of<Base>();
    for (size_t i = 0; i < result.size(); ++i) result[i].type = &(*structs)[i];
    return result;
  }
};

template <class Base>
class TextOrType final : public Type {
  using Value = TextOr<Base>;

 public:
  std::string name() const override { return text().name() + " | " + choice().name(); }
  bool accepts(const Node& node) const override { return text().accepts(node) || choice().accepts(node); }
  void parse(const Node& node, void* value, const Place& place) const override {
    auto& held = *static_cast<Value*>(value);
    if (!node.is_map()) {
      held.choice.reset();
      return text().parse(node, &held.text, place);
    }
    if (!held.choice) held.choice.emplace();
    choice().parse(node, &*held.choice, place);
  }
  Node dump(const void* value) const override {
    const auto& held = *static_cast<const Value*>(value);
    return held.choice ? choice().dump(&*held.choice) : text().dump(&held.text);
  }
  std::vector<Section> sections(const void* value) const override {
    const auto* const held = static_cast<const Value*>(value);
    return choice().sections(held != nullptr && held->choice ? &*held->choice : nullptr);
  }

 private:
  static const Type& text() { return type_of<std::string>(); }
  static const Type& choice() { return type_of<Choice<Base>>(); }
};

template <class Base>
class ListedType final : public VariantBase {
  using Value = Listed<Base>;

 public:
  ListedType() : VariantBase(alternatives_of<Base>()) {}
  size_t index(const void* value) const override {
    return index_of(static_cast<const Value*>(value)->choice);
  }
  const void* get(const void* value) const override {
    const auto& choice = static_cast<const Value*>(value)->choice;
    return kinds<Base>().at(choice.type()).options(const_cast<Base&>(*choice));
  }
  void* emplace(void* value, size_t index) const override {
    auto& choice = static_cast<Value*>(value)->choice;
    return choose(choice, index).options(*choice);
  }
  void parse(const Node& node, void* value, const Place& place) const override {
    static_cast<Value*>(value)->mark = node.mark();
    parse_listed(node, value, place);
  }
  Node dump(const void* value) const override { return dump_listed(value); }
  std::vector<Section> sections(const void* value) const override { return listed_sections(value); }
};

/// Entries that stay empty, as those of an unknown type, are left out: they were reported.
template <class Base>
class ListOfListedType final : public ListType<Listed<Base>> {
 public:
  void parse(const Node& node, void* value, const Place& place) const override {
    ListBase::parse(node, value, place);
    std::erase_if(*static_cast<std::vector<Listed<Base>>*>(value),
                  [](const Listed<Base>& entry) { return entry.choice.empty(); });
  }
};

template <class Base>
struct TypeFor<Choice<Base>> {
  using type = ChoiceType<Base>;
};
template <class Base, class Extra>
struct TypeFor<Extended<Base, Extra>> {
  using type = ExtendedType<Base, Extra>;
};
template <class Base>
struct TypeFor<TextOr<Base>> {
  using type = TextOrType<Base>;
};
template <class Base>
struct TypeFor<Listed<Base>> {
  using type = ListedType<Base>;
};
template <class Base>
struct TypeFor<std::vector<Listed<Base>>> {
  using type = ListOfListedType<Base>;
};

}  // namespace internal
}  // namespace mtf::config
