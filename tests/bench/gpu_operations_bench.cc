// Times operations in a program of their own on a GPU and prints one line of JSON: medians in seconds, and the
// memory of the device in bytes. The scripts in tests/bench/gpu compare them with others.
//
//   gpu_operations_bench attention | library_attention BATCH HEADS LENGTH D_KV
//                                                            causal, bfloat16: forward alone, and with its gradient; by
//                                                            mtf-train's kernels or by the library of the device (cuDNN)
//   gpu_operations_bench packed | library_packed BATCH HEADS LENGTH D_KV   the same, in rows of four segments each
//   gpu_operations_bench adam | adafactor ROWS COLUMNS       update of a float32 weight
//   gpu_operations_bench negative ROWS COLUMNS               reads and writes each float32 element once
//   gpu_operations_bench sum_of_squares ROWS COLUMNS         reads each float32 element once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/device_plugin.h"
#include "engine/graph/gradients.h"
#include "engine/ops/adafactor.h"
#include "engine/ops/attention.h"
#include "engine/ops/cast.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/variable_store.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {
namespace {

struct Measured {
  double seconds = 0;
  int64_t bytes = 0;
};

/// Inputs of bfloat16 get random values, those of integers four segments in each row.
Measured measure(const Graph& graph, bool by_library = false) {
  Program program = partition(graph, Layouts::single());
  const auto inputs = program.inputs;
  const auto values = program.values;
  const std::unique_ptr<Backend> backend = device_plugin().make_backend(0);
  if (by_library) backend->use_attention_library(AttentionLibraryUse::kWhereItComputes);
  VariableStore variables(*backend, program.mesh, program.variables);
  variables.initialize(1);
  Executor executor(std::move(program), *backend, variables, {});
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const auto& [name, id] : inputs) {
    const Shape& shape = values[id].shape;
    if (values[id].dtype == DType::kInt32) {
      std::vector<int32_t> ids(static_cast<size_t>(shape.size()));
      const size_t length = static_cast<size_t>(shape[shape.rank() - 1].size);
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = 1 + static_cast<int32_t>(i % length * 4 / length);
      executor.feed(name, ids.data());
      continue;
    }
    std::vector<BFloat16> data(static_cast<size_t>(shape.size()));
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

using Sizes = std::vector<int64_t>;

struct AttentionCase {
  bool by_library = false, is_packed = false;
};

Measured measure_attention(const Sizes& sizes, const AttentionCase& of, bool with_gradient) {
  Graph graph;
  const Dimension b{"batch", sizes[0]}, h{"heads", sizes[1]}, l{"length", sizes[2]},
      m{"memory_length", sizes[2]}, d{"d_kv", sizes[3]};
  const auto input = [&](const char* name, const Shape& shape) {
    return graph.input(name, shape, DType::kBFloat16);
  };
  AttentionInputs in{
      .q = input("q", {b, l, h, d}), .k = input("k", {b, m, h, d}), .v = input("v", {b, m, h, d})};
  if (of.is_packed) {
    in.query_segment = graph.input("segment", {b, l}, DType::kInt32);
    in.memory_segment = rename(in.query_segment, l.name, m.name);
  }
  const Tensor y = attention(in, {.causal = true});
  graph.set_output("y", y);
  if (with_gradient) {
    const Tensors dx = gradients({y}, {in.q, in.k, in.v}, {input("dy", y.shape())});
    for (size_t i = 0; i < dx.size(); ++i) graph.set_output("d" + std::to_string(i), dx[i]);
  }
  return measure(graph, of.by_library);
}

void attention_times(const Sizes& sizes, const AttentionCase& of) {
  const Measured forward = measure_attention(sizes, of, false), both = measure_attention(sizes, of, true);
  std::printf("{\"forward\": %.9f, \"both\": %.9f, \"bytes\": %ld}\n", forward.seconds, both.seconds,
              static_cast<long>(both.bytes));
}

/// A float32 weight whose variables are updated in place.
class Update {
 public:
  explicit Update(const Sizes& sizes) : shape_{{"rows", sizes[0]}, {"columns", sizes[1]}} {}

  const Shape& shape() const { return shape_; }
  const Variable& variable(const std::string& name, const Shape& shape) {
    return graph_.variable(name, shape, DType::kFloat32, Initializer::uniform(1));
  }
  const Variable& variable(const std::string& name) { return variable(name, shape_); }
  Tensor read(const Variable& variable) { return graph_.read(variable); }
  Tensor scalar(double value) { return graph_.constant(value, DType::kFloat32); }
  void assign(const Variable& variable, const Tensor& value) { graph_.assign(variable, value); }
  void print() const {
    const Measured measured = measure(graph_);
    std::printf("{\"seconds\": %.9f, \"bytes\": %ld}\n", measured.seconds, static_cast<long>(measured.bytes));
  }

 private:
  Graph graph_;
  Shape shape_;
};

void adam_time(const Sizes& sizes) {
  Update update(sizes);
  const Variable &w = update.variable("w"), &m = update.variable("m"), &v = update.variable("v");
  const AdamUpdate u = adam_update(update.read(w), update.read(update.variable("g")), update.read(m),
                                   update.read(v), update.scalar(1e-9));
  update.assign(w, u.weight);
  update.assign(m, u.first_moment);
  update.assign(v, u.second_moment);
  update.print();
}

void adafactor_time(const Sizes& sizes) {
  Update update(sizes);
  const Variable& w = update.variable("w");
  std::vector<const Variable*> slots;
  Tensors old;
  for (const auto& [suffix, shape] : adafactor_slots(update.shape(), {})) {
    slots.push_back(&update.variable("w" + suffix, shape));
    old.push_back(update.read(*slots.back()));
  }
  const AdafactorUpdate u = adafactor_update(update.read(w), update.read(update.variable("g")), old,
                                             update.scalar(1e-9), update.scalar(0.9), {});
  update.assign(w, u.weight);
  for (size_t i = 0; i < slots.size(); ++i) update.assign(*slots[i], u.slots[i]);
  update.print();
}

void sum_of_squares_time(const Sizes& sizes) {
  Update update(sizes);
  const Variable& sum = update.variable("sum", {});
  update.assign(sum, cast(sum_of_squares(update.read(update.variable("x"))), DType::kFloat32));
  update.print();
}

void negative_time(const Sizes& sizes) {
  Update update(sizes);
  const Variable& x = update.variable("x");
  update.assign(x, negative(update.read(x)));
  update.print();
}

struct Benchmark {
  size_t sizes;
  std::function<void(const Sizes&)> run;
};
Benchmark attention_benchmark(const AttentionCase& of) {
  return {4, [of](const Sizes& sizes) { attention_times(sizes, of); }};
}
const std::map<std::string, Benchmark> kBenchmarks = {
    {"attention", attention_benchmark({})},
    {"library_attention", attention_benchmark({.by_library = true})},
    {"packed", attention_benchmark({.is_packed = true})},
    {"library_packed", attention_benchmark({.by_library = true, .is_packed = true})},
    {"sum_of_squares", {2, sum_of_squares_time}},
    {"adam", {2, adam_time}},
    {"adafactor", {2, adafactor_time}},
    {"negative", {2, negative_time}}};

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  const auto found = mtf::kBenchmarks.find(argc > 1 ? argv[1] : "");
  mtf::Sizes sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  const bool positive = std::ranges::all_of(sizes, [](int64_t size) { return size > 0; });
  if (found == mtf::kBenchmarks.end() || sizes.size() != found->second.sizes || !positive) {
    std::fprintf(
        stderr,
        "usage: gpu_operations_bench [library_]attention | [library_]packed BATCH HEADS LENGTH D_KV\n"
        "       gpu_operations_bench adam | adafactor | negative | sum_of_squares ROWS COLUMNS\n");
    return 2;
  }
  try {
    found->second.run(sizes);
  } catch (const mtf::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
