#include "tests/support/run_on_mesh.h"

#include <cmath>
#include <limits>
#include <thread>

#include "engine/base/check.h"
#include "engine/comm/process/communication_thread.h"
#include "engine/comm/process/process_communicator.h"
#include "tests/support/element_types.h"
#include "tests/support/memory_transport.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {

HostTensor to_host(const Shape& shape, DType dtype, const Values& values) {
  MTF_CHECK(static_cast<int64_t>(values.size()) == shape.size(), "{} values for {}", values.size(),
            shape.to_string());
  HostTensor tensor(shape, dtype);
  with_type(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      tensor.data<T>()[i] = narrow<T>(values[i]);
    }
  });
  return tensor;
}

Values from_host(const HostTensor& tensor) {
  Values values(static_cast<size_t>(tensor.shape.size()));
  with_type(tensor.dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = widen(tensor.data<T>()[i]);
    }
  });
  return values;
}

MeshRun run_on_mesh(const Graph& graph, const Layouts& layouts, const std::map<std::string, Values>& feeds,
                    const MeshRunOptions& options) {
  return run_program(partition(graph, layouts, options.partition), feeds, options);
}

MeshRun run_program(Program program, const std::map<std::string, Values>& feeds,
                    const MeshRunOptions& options) {
  MeshRun result;
  result.program = std::move(program);
  const std::shared_ptr<Backend> backend =
      test_backend(options.communicator == nullptr ? 0 : options.communicator->process());
  VariableStore variables(*backend, result.program.mesh, result.program.variables,
                          {.replicate = options.check_replicas, .communicator = options.communicator});
  variables.initialize(options.seed);
  for (const auto& [name, values] : options.variables) {
    const Variable& variable = variables.variable(name);
    variables.set(name, to_host(variable.shape, variable.dtype, values));
  }
  Executor executor(result.program, *backend, variables,
                    {options.threads, options.seed, options.check_replicas, options.communicator});
  for (const auto& [name, id] : result.program.inputs) {
    const Value& value = result.program.values[id];
    executor.feed(name, to_host(value.shape, value.dtype, feeds.at(name)).bytes.data());
  }
  for (uint64_t step = 0; step < options.steps; ++step) executor.run(options.first_step + step);
  for (const auto& [name, id] : result.program.outputs)
    result.outputs[name] = from_host(executor.fetch(name));
  for (const std::string& name : variables.names()) result.variables[name] = from_host(variables.get(name));
  result.counters = executor.counters();
  return result;
}

std::vector<MeshRun> run_on_processes(int processes, const Graph& graph, const Layouts& layouts,
                                      const std::map<std::string, Values>& feeds,
                                      const MeshRunOptions& options) {
  PartitionOptions partitioning = options.partition;
  partitioning.asynchronous = true;
  const Program program = partition(graph, layouts, partitioning);
  std::vector<MeshRun> runs(static_cast<size_t>(processes));
  on_processes(processes, [&](int process, Communicator& communicator) {
    MeshRunOptions own = options;
    own.communicator = &communicator;
    runs[static_cast<size_t>(process)] = run_program(program, feeds, own);
  });
  return runs;
}

void on_processes(int processes, const std::function<void(int process, Communicator&)>& run) {
  MemoryNetwork network(processes);
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process) {
    threads.emplace_back([&, process] {
      const std::unique_ptr<Transport> transport = network.transport(process);
      FlightRecord record(100);
      CommunicationThread thread(record);
      ProcessCommunicator communicator(*transport, thread);
      run(process, communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

double relative_difference(const Values& a, const Values& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 1e-6, difference = 0;
  for (double v : b) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (same) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference / largest;
}

Layouts layouts(const std::string& mesh, const std::string& layout, const std::string& parameter_layout,
                const std::string& optimizer_layout) {
  return Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules::parse(layout),
                       LayoutRules::parse(parameter_layout), LayoutRules::parse(optimizer_layout));
}

}  // namespace mtf::testing
