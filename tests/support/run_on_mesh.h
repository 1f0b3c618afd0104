// Runs a graph through partitioner and executor on a mesh, with a check of replicas, and returns the graph's
// outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/runtime/executor.h"
#include "engine/spmd/partition/partition.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {

struct MeshRun {
  std::map<std::string, Values> outputs;    ///< by name in Graph::set_output
  std::map<std::string, Values> variables;  ///< after the last step
  Counters counters;
  Program program;
};

struct MeshRunOptions {
  uint64_t seed = 1;
  uint64_t first_step = 0, steps = 1;
  int threads = 2;
  bool check_replicas = true;
  std::map<std::string, Values> variables{};  ///< initial values; the variable's own if absent
  PartitionOptions partition{};
  Communicator* communicator = nullptr;  ///< connects to the other processes of the mesh
};

/// Runs a program made by partition() or by some of its passes.
MeshRun run_program(Program program, const std::map<std::string, Values>& feeds,
                    const MeshRunOptions& options = {});

/// Partitions and runs a graph.
MeshRun run_on_mesh(const Graph& graph, const Layouts& layouts, const std::map<std::string, Values>& feeds,
                    const MeshRunOptions& options = {});

/// Runs the graph in `processes` processes, which are threads with a network in memory; returns the result of
/// each.
std::vector<MeshRun> run_on_processes(int processes, const Graph& graph, const Layouts& layouts,
                                      const std::map<std::string, Values>& feeds,
                                      const MeshRunOptions& options = {});

/// Calls `run` in each of `processes` processes, which are threads with a network in memory.
void on_processes(int processes, const std::function<void(int process, Communicator&)>& run);

/// The largest |a - b| / max(1e-6, largest |b|); infinite if the sizes differ or a value is not finite in
/// only one of them.
double relative_difference(const Values& a, const Values& b);

/// Layouts from text: layouts("rows:2;cols:2", "batch:rows;hidden:cols").
Layouts layouts(const std::string& mesh, const std::string& layout, const std::string& parameter_layout = {},
                const std::string& optimizer_layout = {});

/// Converts numbers to a whole tensor, and back.
HostTensor to_host(const Shape& shape, DType dtype, const Values& values);
Values from_host(const HostTensor& tensor);

}  // namespace mtf::testing
