// Runs a graph through partitioner and executor on a mesh, replicas checked, and gives the outputs of the
// graph back.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/runtime/executor.h"
#include "engine/spmd/partition/partition.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {

struct MeshRun {
  std::map<std::string, Values> outputs;    ///< by Graph::set_output name
  std::map<std::string, Values> variables;  ///< after the last step
  Counters counters;
  Program program;
};

struct MeshRunOptions {
  uint64_t seed = 1;
  uint64_t steps = 1;
  int threads = 2;
  bool check_replicas = true;
  std::map<std::string, Values> variables{};  ///< initial values; where absent, the variable's own
  PartitionOptions partition{};
  Communicator* communicator = nullptr;  ///< with the other processes of the mesh, which run the same
};

/// Runs a program that partition() has made, or some of its passes.
MeshRun run_program(Program program, const std::map<std::string, Values>& feeds,
                    const MeshRunOptions& options = {});

/// Runs the partitioned graph.
MeshRun run_on_mesh(const Graph& graph, const Layouts& layouts, const std::map<std::string, Values>& feeds,
                    const MeshRunOptions& options = {});

/// The same shared by `processes`, which are threads with a network in memory: what each of them got.
std::vector<MeshRun> run_on_processes(int processes, const Graph& graph, const Layouts& layouts,
                                      const std::map<std::string, Values>& feeds,
                                      const MeshRunOptions& options = {});

/// Calls `run` for each of `processes`, which are threads with a network in memory.
void on_processes(int processes, const std::function<void(int process, Communicator&)>& run);

/// Largest |a - b| / max(1e-6, largest |b|); infinite where sizes differ or a value is not finite in one of
/// them only.
double relative_difference(const Values& a, const Values& b);

/// "batch:rows;hidden:cols" on "rows:2;cols:2".
Layouts layouts(const std::string& mesh, const std::string& layout, const std::string& parameter_layout = {},
                const std::string& optimizer_layout = {});

/// A whole tensor from and to numbers.
HostTensor to_host(const Shape& shape, DType dtype, const Values& values);
Values from_host(const HostTensor& tensor);

}  // namespace mtf::testing
