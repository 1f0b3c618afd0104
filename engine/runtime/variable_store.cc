#include "engine/runtime/variable_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/runtime/initialize.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/slicing.h"

namespace mtf {

struct VariableStore::Entry {
  Variable variable;
  Layout layout;
  Copies stored;  ///< for each of which there is a separate buffer
  HostedCopies copies;
  Shape local;
  int64_t slice_bytes = 0;
  std::shared_ptr<DeviceMemory> arena;  ///< shared with the other variables of its kind
  int64_t offset = 0;                   ///< of the first copy in the arena
  int64_t stride = 0;                   ///< bytes from one copy to the next

  int64_t bytes() const { return variable_aligned(slice_bytes * copies.size()); }
  std::byte* data(int64_t copy) const { return arena->data() + offset + copy * stride; }
  /// Throws if another program, which shares this memory, takes it for something else.
  void check_is(const ProgramVariable& v) const {
    MTF_CHECK(variable.shape.size() == v.variable.shape.size() && variable.dtype == v.variable.dtype,
              "`{}` is {} {} and shared as {} {}", variable.name, name_of(variable.dtype),
              variable.shape.to_string(), name_of(v.variable.dtype), v.variable.shape.to_string());
    MTF_CHECK(layout == v.layout, "`{}` is shared with another layout", variable.name);
  }
};

VariableStore::VariableStore(Backend& backend, const Mesh& mesh,
                             const std::vector<ProgramVariable>& variables,
                             const VariableStoreOptions& options)
    : backend_(&backend), mesh_(mesh, hosting_of(options.communicator)), communicator_(options.communicator) {
  // By kind, Variable::on_host, and for memory that is shared type: what others leave there must be of the same type, since it
  // may be multiplied by zero and the bits of another type may mean infinity.
  std::map<std::tuple<Variable::Kind, bool, std::optional<DType>>, std::vector<Entry*>> kinds;
  for (const ProgramVariable& v : variables) {
    const auto owner = std::ranges::find_if(
        options.shared, [&](const VariableStore* store) { return store->contains(v.variable.name); });
    if (owner != options.shared.end()) {
      const std::shared_ptr<Entry>& shared = (*owner)->entries_.at(v.variable.name);
      shared->check_is(v);
      entries_[v.variable.name] = shared;
      continue;
    }
    auto entry = std::make_shared<Entry>();
    entry->variable = v.variable;
    entry->layout = v.layout;
    entry->stored = mesh.stored(v.layout.copies(), options.replicate);
    entry->local = slice_shape(v.variable.shape, v.layout, mesh);
    entry->slice_bytes = aligned(bytes_of(entry->local, v.variable.dtype));
    entry->stride = entry->slice_bytes;
    entry->copies = mesh_.copies(entry->stored);
    const bool is_session = v.variable.kind == Variable::Kind::kSession;
    MTF_CHECK(!is_session || !v.variable.on_host, "`{}` cannot lie in the memory of the host",
              v.variable.name);
    if (is_session && options.within != nullptr) {
      const Entry& place = options.within->entry(v.variable.name);
      MTF_CHECK(entry->slice_bytes <= place.stride && entry->copies.size() == place.copies.size(),
                "`{}` is larger than where it shall lie", v.variable.name);
      entry->arena = place.arena;
      entry->offset = place.offset;
      entry->stride = place.stride;
    } else {
      const bool is_shared = is_session && options.session_memory;
      kinds[{v.variable.kind, v.variable.on_host, is_shared ? std::optional(v.variable.dtype) : std::nullopt}]
          .push_back(entry.get());
    }
    entries_[v.variable.name] = std::move(entry);
  }
  for (const auto& [key, entries] : kinds) {
    const auto [kind, on_host, shared_type] = key;
    int64_t bytes = 0;
    for (Entry* entry : entries) {
      entry->offset = bytes;
      bytes += entry->bytes();
    }
    const std::shared_ptr<DeviceMemory> arena = shared_type ? options.session_memory(*shared_type, bytes)
                                                : on_host   ? backend.allocate_on_host(bytes)
                                                            : backend.allocate(bytes);
    for (Entry* entry : entries) entry->arena = arena;
  }
}

VariableStore::~VariableStore() = default;

void VariableStore::share_as(const std::string& prefix, const VariableStore& other) {
  for (const auto& [name, entry] : other.entries_) entries_[prefix + name] = entry;
}

VariableStore::Entry& VariableStore::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw Error(ErrorKind::kConfig, fmt::format("there is no variable `{}`", name));
  return *found->second;
}

const std::byte* VariableStore::StoredSlice::on_host(std::vector<std::byte>& buffer) const {
  return backend->on_host(data, bytes, buffer);
}

void VariableStore::StoredSlice::fill(const std::function<void(std::byte*)>& write) const {
  if (backend->is_host()) return write(data);
  std::vector<std::byte> values(static_cast<size_t>(bytes));
  write(values.data());
  backend->write(data, values.data(), bytes);
}

void VariableStore::initialize(uint64_t seed) {
  await_copies();
  for (const auto& [name, entry] : entries_) {
    if (entry->variable.kind == Variable::Kind::kConstant) continue;
    for (const StoredSlice& slice : slices(name)) {
      slice.fill(
          [&](std::byte* to) { fill_initial_values(entry->variable, seed, slice.shape, slice.begin, to); });
    }
  }
}

std::vector<std::string> VariableStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const Variable& VariableStore::variable(const std::string& name) const { return entry(name).variable; }

void VariableStore::set(const std::string& name, const HostTensor& value) {
  await_copies();
  const Entry& e = entry(name);
  bool fits = value.dtype == e.variable.dtype && value.shape.rank() == e.variable.shape.rank();
  for (int i = 0; fits && i < value.shape.rank(); ++i) fits = value.shape[i].size == e.variable.shape[i].size;
  if (!fits) {
    throw Error(ErrorKind::kConfig,
                fmt::format("`{}` is {} {} and cannot be set to {} {}", name, name_of(e.variable.dtype),
                            e.variable.shape.to_string(), name_of(value.dtype), value.shape.to_string()));
  }
  for (const StoredSlice& slice : slices(name)) {
    slice.fill([&](std::byte* to) {
      copy_to_slice(e.variable.shape, slice.shape, slice.begin, size_of(e.variable.dtype), value.bytes.data(),
                    to);
    });
  }
}

HostTensor VariableStore::get(const std::string& name) const {
  const Entry& e = entry(name);
  const int64_t bytes = bytes_of(e.local, e.variable.dtype);
  std::vector<std::byte> buffer;
  return gather_slices(
      e.variable.shape, e.variable.dtype, e.layout, mesh_,
      [&](int64_t position) { return backend_->on_host(e.data(*e.copies.find(position)), bytes, buffer); },
      communicator_, name);
}

std::vector<VariableStore::StoredSlice> VariableStore::slices(const std::string& name) const {
  const Entry& e = entry(name);
  std::vector<StoredSlice> slices;
  for (int64_t copy = 0; copy < e.copies.size(); ++copy) {
    const int64_t position = e.copies.position(copy);
    slices.push_back({slice_begin(e.variable.shape, e.layout, mesh_.mesh(), position), e.local,
                      bytes_of(e.local, e.variable.dtype), e.data(copy),
                      mesh_.holds_first(position, e.layout.copies()), backend_});
  }
  return slices;
}

void VariableStore::begin(std::shared_ptr<HostCopy> copy) {
  await_copies();
  copy_ = std::move(copy);
  copy_->begin();
}

bool VariableStore::lie_alike(const std::string& a, const std::string& b) const {
  return entry(a).layout == entry(b).layout && entry(a).stored == entry(b).stored;
}

std::byte* VariableStore::slice(const std::string& name, int64_t position) const {
  const Entry& e = entry(name);
  const std::optional<int64_t> copy = e.copies.find(position);
  MTF_CHECK(copy, "position {} has no slice of `{}`", position, name);
  return e.data(*copy);
}

}  // namespace mtf
