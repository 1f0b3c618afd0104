// The values of variables on the positions of this process: one buffer for each distinct slice. Shared by the
// programs of a run (train step, evaluation), which must agree on the layouts at rest.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/host_tensor.h"
#include "engine/spmd/program.h"

namespace mtf {

class VariableStore;

struct VariableStoreOptions {
  bool replicate = false;                 ///< every position has a copy of its own (run.check_replicas)
  const VariableStore* shared = nullptr;  ///< variables that it has are shared with it
  Communicator* communicator = nullptr;   ///< with the other processes of the mesh; null: there are none
};

class VariableStore {
 public:
  VariableStore(Backend& backend, const Mesh& mesh, const std::vector<ProgramVariable>& variables,
                const VariableStoreOptions& options = {});
  ~VariableStore();

  /// Shares those of `variables` that it lacks with `other`, which must have them.
  void share(const VariableStore& other, const std::vector<ProgramVariable>& variables);
  /// Fills every variable with its initial values: functions of (seed, name, global element index) alone.
  void initialize(uint64_t seed);
  bool contains(const std::string& name) const { return entries_.contains(name); }
  std::vector<std::string> names() const;
  const Variable& variable(const std::string& name) const;
  /// Sets the whole variable; sizes and dtype must be the variable's (names may differ: files have none).
  void set(const std::string& name, const HostTensor& value);
  /// The whole variable, gathered from the slices; where other processes hold some of them, every process
  /// calls it.
  HostTensor get(const std::string& name) const;
  /// Bytes held by this process.
  int64_t bytes() const;

  /// In every process the slices of `a` have the places of those of `b`, which has its shape.
  bool lie_alike(const std::string& a, const std::string& b) const;
  /// The slice of one position, in the memory of the backend.
  std::byte* slice(const std::string& name, int64_t position) const;
  /// Every slice that this process stores, each distinct one once (with `replicate`: one for each position).
  struct StoredSlice {
    std::vector<int64_t> begin;  ///< global index of the first element along each axis
    Shape shape;
    int64_t bytes;
    std::byte* data;  ///< in the memory of `backend`
    bool first;       ///< no process before this one stores it
    Backend* backend;

    /// The values, there or in `buffer`.
    const std::byte* on_host(std::vector<std::byte>& buffer) const;
    /// Calls write(to), which sets all values.
    void fill(const std::function<void(std::byte* to)>& write) const;
  };
  std::vector<StoredSlice> slices(const std::string& name) const;

 private:
  struct Entry;
  Entry& entry(const std::string& name) const;

  Backend* backend_;
  HostedMesh mesh_;
  Communicator* communicator_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace mtf
