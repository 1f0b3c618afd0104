// Compares attention as one operation with attention made of contractions, masks, softmax and dropout:
// forward and backward, through the executor, on one thread. Prints the thread's CPU time, medians of
// alternating rounds.
//
//   build/bin/attention_bench
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/graph/gradients.h"
#include "engine/ops/attention.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/softmax.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/variable_store.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {
namespace {

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

enum class Kind {
  kFull,
  kCausal,  ///< without the operation, a given mask is added
  /// Causal, with segments and a relative bias; without the operation, composed_attention.
  kPacked,
};

struct Problem {
  int64_t batch, heads, length, width;
  Kind kind;
};

Tensor from_contractions(const AttentionInputs& in, Kind kind) {
  const Dimension l = in.q.shape().dimension("length"), m = in.k.shape().dimension("memory_length");
  const Shape all{in.q.shape()[0], in.q.shape()[2], l, m};
  Tensor logits = einsum({in.q, in.k}, all);
  if (kind == Kind::kCausal) logits = add(logits, in.q.graph().input("mask", {l, m}));
  return einsum({multiply(softmax(logits, m.name), in.noise), in.v}, in.q.shape());
}

void build(Graph& graph, const Problem& problem, bool fused) {
  const Dimension b{"batch", problem.batch}, h{"heads", problem.heads}, l{"length", problem.length},
      m{"memory_length", problem.length}, d{"d_kv", problem.width};
  AttentionInputs in{.q = graph.input("q", {b, l, h, d}),
                     .k = graph.input("k", {b, m, h, d}),
                     .v = graph.input("v", {b, m, h, d})};
  in.noise = graph.input("noise", {b, h, m});
  const bool packed = problem.kind == Kind::kPacked;
  Tensors xs{in.q, in.k, in.v};
  if (packed) {
    in.query_segment = graph.input("query_segment", {b, l}, DType::kInt32);
    in.memory_segment = graph.input("memory_segment", {b, m}, DType::kInt32);
    xs.push_back(in.bias_table = graph.input("table", {h, {"buckets", 32}}));
  }
  const AttentionOptions options{.causal = problem.kind != Kind::kFull, .bidirectional = false};
  const Tensor y = fused    ? attention(in, options)
                   : packed ? composed_attention(in, options).result
                            : from_contractions(in, problem.kind);
  const Tensors dx = gradients({y}, xs, {graph.input("dy", y.shape())});
  graph.set_output("y", y);
  for (size_t i = 0; i < dx.size(); ++i) graph.set_output("d" + std::to_string(i), dx[i]);
}

/// Rows of four segments each.
std::vector<int32_t> segments(const Shape& shape) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < shape.size(); ++i)
    ids.push_back(static_cast<int32_t>(i % shape[1].size * 4 / shape[1].size + 1));
  return ids;
}

/// A graph that is ready to run.
class Path {
 public:
  Path(const Problem& problem, bool fused) : backend_(make_cpu_backend()) {
    build(graph_, problem, fused);
    Program program = partition(graph_, Layouts::single());
    variables_ = std::make_unique<VariableStore>(*backend_, program.mesh, program.variables);
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto inputs = program.inputs;
    const auto values = program.values;
    executor_ = std::make_unique<Executor>(std::move(program), *backend_, *variables_, ExecutorOptions{});
    for (const auto& [name, id] : inputs) {
      if (values[id].dtype == DType::kInt32) {
        executor_->feed(name, segments(values[id].shape).data());
        continue;
      }
      std::vector<float> data(static_cast<size_t>(values[id].shape.size()));
      for (float& x : data) x = uniform(generator);
      executor_->feed(name, data.data());
    }
  }
  double seconds(int repeats) {
    const double start = thread_seconds();
    for (int i = 0; i < repeats; ++i) executor_->run(0);
    return (thread_seconds() - start) / repeats;
  }

 private:
  Graph graph_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<Executor> executor_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const Problem& problem) {
  Path composed(problem, false), fused(problem, true);
  const int repeats = std::max(1, static_cast<int>(0.05 / composed.seconds(2)));
  std::vector<double> seconds[2];
  for (int round = 0; round < 15; ++round) {
    seconds[0].push_back(composed.seconds(repeats));
    seconds[1].push_back(fused.seconds(repeats));
  }
  constexpr const char* kNames[] = {"full", "causal", "packed"};
  const double before = median(seconds[0]), after = median(seconds[1]);
  std::printf("%3ld x %ld x %3ld x %2ld  %-7s composed %9.1f us, fused %9.1f us: %.2fx\n",
              static_cast<long>(problem.batch), static_cast<long>(problem.heads),
              static_cast<long>(problem.length), static_cast<long>(problem.width),
              kNames[static_cast<int>(problem.kind)], before * 1e6, after * 1e6, before / after);
}

}  // namespace
}  // namespace mtf

int main() {
  std::printf("batch x heads x length x d_kv, forward and backward\n");
  using enum mtf::Kind;
  for (const mtf::Kind kind : {kFull, kCausal, kPacked}) {
    mtf::compare({16, 4, 32, 32, kind});
    mtf::compare({8, 8, 128, 64, kind});
    mtf::compare({2, 8, 512, 64, kind});
  }
}
