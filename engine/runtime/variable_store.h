// The values of variables on the positions of this process: one buffer for each distinct slice. Shared by the
// programs of a run (train step, evaluation), which must agree on the layouts at rest.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/runtime/host_tensor.h"
#include "engine/spmd/program.h"

namespace mtf {

class VariableStore {
 public:
  /// `replicate`: every position has a copy of its own (run.check_replicas). `shared`: variables that it has
  /// are shared with it; the others get memory of their own.
  VariableStore(Backend& backend, const Mesh& mesh, const std::vector<ProgramVariable>& variables,
                bool replicate = false, const VariableStore* shared = nullptr);
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
  /// The whole variable, gathered from the slices.
  HostTensor get(const std::string& name) const;
  /// Bytes held by this process.
  int64_t bytes() const;

  /// The slice of one position.
  std::byte* slice(const std::string& name, int64_t position) const;
  /// Every slice that this process stores, each distinct one once (with `replicate`: one for each position).
  struct StoredSlice {
    std::vector<int64_t> begin;  ///< global index of the first element along each axis
    Shape shape;
    std::byte* data;
  };
  std::vector<StoredSlice> slices(const std::string& name) const;

 private:
  struct Entry;
  Entry& entry(const std::string& name) const;

  Mesh mesh_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace mtf
