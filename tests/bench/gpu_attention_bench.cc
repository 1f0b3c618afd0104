// Times causal attention as one operation in bfloat16 on a GPU, the forward pass alone and with its gradient.
// Prints one line of JSON with seconds (medians) and the memory of the device.
//
//   build/bin/gpu_attention_bench BATCH HEADS LENGTH D_KV
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/device_plugin.h"
#include "engine/graph/gradients.h"
#include "engine/ops/attention.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/variable_store.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {
namespace {

struct Measured {
  double seconds = 0;
  int64_t bytes = 0;
};

void build(Graph& graph, const std::vector<int64_t>& sizes, bool with_gradient) {
  const Dimension b{"batch", sizes[0]}, h{"heads", sizes[1]}, l{"length", sizes[2]},
      m{"memory_length", sizes[2]}, d{"d_kv", sizes[3]};
  const auto input = [&](const char* name, const Shape& shape) {
    return graph.input(name, shape, DType::kBFloat16);
  };
  const AttentionInputs in{
      .q = input("q", {b, l, h, d}), .k = input("k", {b, m, h, d}), .v = input("v", {b, m, h, d})};
  const Tensor y = attention(in, {.causal = true});
  graph.set_output("y", y);
  if (!with_gradient) return;
  const Tensors dx = gradients({y}, {in.q, in.k, in.v}, {input("dy", y.shape())});
  for (size_t i = 0; i < dx.size(); ++i) graph.set_output("d" + std::to_string(i), dx[i]);
}

Measured measure(const std::vector<int64_t>& sizes, bool with_gradient) {
  Graph graph;
  build(graph, sizes, with_gradient);
  Program program = partition(graph, Layouts::single());
  const auto inputs = program.inputs;
  const auto values = program.values;
  const std::unique_ptr<Backend> backend = device_plugin().make_backend(0);
  VariableStore variables(*backend, program.mesh, program.variables);
  Executor executor(std::move(program), *backend, variables, {});
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const auto& [name, id] : inputs) {
    std::vector<BFloat16> data(static_cast<size_t>(values[id].shape.size()));
    for (BFloat16& x : data) x = BFloat16(uniform(generator));
    executor.feed(name, data.data());
  }
  constexpr int kRounds = 7, kRuns = 10;
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int run = 0; run < kRuns; ++run) executor.run(0);
    backend->wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (round > 0) seconds.push_back(taken.count() / kRuns);  // the first round records
  }
  std::ranges::sort(seconds);
  return {seconds[kRounds / 2], backend->memory_bytes()};
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.size() != 4) {
    std::fprintf(stderr, "usage: gpu_attention_bench BATCH HEADS LENGTH D_KV\n");
    return 2;
  }
  try {
    const mtf::Measured forward = mtf::measure(sizes, false), both = mtf::measure(sizes, true);
    std::printf("{\"forward\": %.9f, \"both\": %.9f, \"bytes\": %ld}\n", forward.seconds, both.seconds,
                static_cast<long>(both.bytes));
  } catch (const mtf::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
