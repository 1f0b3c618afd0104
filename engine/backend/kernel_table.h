// KernelTable holds the kernels of one kind of device, by operation and dtype (Operation::kernel_dtype).
// Registration objects fill it before main() starts or while a shared object is loaded; later it is only
// read.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/graph/operation.h"

namespace mtf {

template <class Factory>
class KernelTable {
 public:
  /// `kind` names the kind of device in messages, such as "CPU".
  explicit KernelTable(std::string_view kind) : kind_(kind) {}

  void add(std::string_view operation, std::initializer_list<DType> dtypes, const Factory& factory) {
    for (DType dtype : dtypes) {
      const bool added = factories_.emplace(Key(operation, dtype), factory).second;
      MTF_CHECK(added, "two {} kernels for {} {}", kind_, operation, short_name(dtype));
    }
  }

  /// Throws Error (kConfig) naming operation and dtype, with `hint`, if there is no such kernel.
  const Factory& factory(const Operation& operation, const std::string& hint) const {
    const auto found = factories_.find(Key(operation.name(), operation.kernel_dtype()));
    if (found != factories_.end()) return found->second;
    throw Error(ErrorKind::kConfig, operation.provenance().scope.mark(),
                fmt::format("operation {} has no {} kernel for {}", operation.name(), kind_,
                            name_of(operation.kernel_dtype())),
                hint);
  }

  bool contains(std::string_view operation, DType dtype) const {
    return factories_.contains(Key(operation, dtype));
  }

  /// All (operation, dtype) pairs, sorted.
  std::vector<std::pair<std::string, DType>> keys() const {
    std::vector<Key> result;
    for (const auto& [key, factory] : factories_) result.push_back(key);
    return result;
  }

 private:
  using Key = std::pair<std::string, DType>;

  std::string_view kind_;
  std::map<Key, Factory> factories_;
};

}  // namespace mtf
