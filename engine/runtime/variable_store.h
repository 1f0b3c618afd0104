// VariableStore holds the values of variables on the positions of this process, one buffer for each distinct
// slice. The variables of a kind (weights, slots, ...) are parts of one allocation, or of two if
// some of them lie in the host's memory (Variable::on_host); those of kind kSession may lie in memory that others use, too. The programs of a run
// (training step, evaluation) share the store and must agree on the layouts at rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/host_tensor.h"
#include "engine/spmd/program.h"

namespace mtf {

class VariableStore;

struct VariableStoreOptions {
  bool replicate = false;  ///< every position has a copy of its own (run.check_replicas)
  /// The variables of these stores are shared instead of allocated; of several that have one, the first counts.
  std::vector<const VariableStore*> shared{};
  Communicator* communicator = nullptr;  ///< connects the processes of the mesh; null if there is only one
  /// Gives the memory of those variables of kind kSession that have elements of a type. Their values are then what is left there,
  /// in place of zeros. Null: the store has memory of its own.
  std::function<std::shared_ptr<DeviceMemory>(DType dtype, int64_t bytes)> session_memory{};
  /// Variables of kind kSession lie where this store has those of the same names, which must not have smaller slices; may be
  /// null.
  const VariableStore* within = nullptr;
};

class VariableStore {
 public:
  VariableStore(Backend& backend, const Mesh& mesh, const std::vector<ProgramVariable>& variables,
                const VariableStoreOptions& options = {});
  ~VariableStore();

  /// Adds the variables of `other` as `prefix` + name, sharing their memory.
  void share_as(const std::string& prefix, const VariableStore& other);
  /// Fills every variable but constants with its initial values, which depend only on (seed, name, global element
  /// index).
  void initialize(uint64_t seed);
  bool contains(const std::string& name) const { return entries_.contains(name); }
  std::vector<std::string> names() const;
  const Variable& variable(const std::string& name) const;
  /// Sets the whole variable. `value` must have its sizes and dtype; dimension names may differ, because
  /// files have none.
  void set(const std::string& name, const HostTensor& value);
  /// The whole variable, gathered from the slices. Where other processes hold some of them, every process
  /// must call it.
  HostTensor get(const std::string& name) const;

  /// True if in every process the slices of `a` cover the same indices as those of `b`. Both must have the
  /// same shape.
  bool lie_alike(const std::string& a, const std::string& b) const;
  /// The slice of one position, in the memory of the backend.
  std::byte* slice(const std::string& name, int64_t position) const;
  /// A slice that this process stores. Each distinct slice is stored once, or with
  /// VariableStoreOptions::replicate once for each position.
  struct StoredSlice {
    std::vector<int64_t> begin;  ///< global index of the first element along each axis
    Shape shape;
    int64_t bytes;
    std::byte* data;  ///< in the memory of `backend`
    bool first;       ///< no process with a lower number stores the same slice
    Backend* backend;

    /// The values in host memory: at `data`, or copied to `buffer`.
    const std::byte* on_host(std::vector<std::byte>& buffer) const;
    /// Calls write(to), which must set all values.
    void fill(const std::function<void(std::byte* to)>& write) const;
  };
  std::vector<StoredSlice> slices(const std::string& name) const;

  /// Begins to copy slices of this store to the host. Executors that change variables of this store, set() and
  /// initialize() make the device wait for the copy before they do.
  void begin(std::shared_ptr<HostCopy> copy);
  /// True if a copy has begun for which no work has waited.
  bool are_copied() const { return copy_ != nullptr; }
  /// Makes work that is enqueued from now on wait for the copy, if there is one.
  void await_copies() {
    if (copy_ != nullptr) std::exchange(copy_, nullptr)->hold_back();
  }

 private:
  struct Entry;
  Entry& entry(const std::string& name) const;

  Backend* backend_;
  HostedMesh mesh_;
  Communicator* communicator_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::shared_ptr<HostCopy> copy_;  ///< the copy that executors have to wait for; null if there is none
};

}  // namespace mtf
