// SharedList is a list that copies share until one of them changes it, for lists of which a program holds many equal ones.
// Threads may copy and read it as they would a std::vector, but not change a list of which another one drops a copy.
//
//   SharedList<Dimension> a(dimensions), b = a;   // no copy of the dimensions
//   b.change().pop_back();                        // a stays as it is
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace mtf {

template <class T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::vector<T> items)
      : items_(items.empty() ? nullptr : std::make_shared<std::vector<T>>(std::move(items))) {}
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}

  const std::vector<T>& items() const {
    static const std::vector<T> none;
    return items_ ? *items_ : none;
  }
  auto begin() const { return items().begin(); }
  auto end() const { return items().end(); }
  size_t size() const { return items_ ? items_->size() : 0; }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const { return (*items_)[i]; }

  /// Equal for lists that share their items; null for an empty one.
  const void* identity() const { return items_.get(); }

  /// Returns the items for changes, which no copy of this list sees. Valid until this list is copied.
  std::vector<T>& change() {
    if (items_.use_count() != 1) items_ = std::make_shared<std::vector<T>>(items());
    return *items_;
  }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.items_ == b.items_ || a.items() == b.items();
  }
  friend auto operator<=>(const SharedList& a, const SharedList& b) { return a.items() <=> b.items(); }

 private:
  std::shared_ptr<std::vector<T>> items_;  ///< null: none
};

}  // namespace mtf
