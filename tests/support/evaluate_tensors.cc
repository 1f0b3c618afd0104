#include "tests/support/evaluate_tensors.h"

#include <cstring>
#include <numeric>
#include <unordered_map>

#include "engine/backend/kernel.h"
#include "engine/base/check.h"
#include "engine/graph/structural.h"
#include "tests/support/element_types.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

struct Buffer {
  std::vector<std::byte> bytes;
  std::vector<int64_t> begin;
};

LocalTensor local_tensor(const Tensor& t) { return {t.shape(), t.shape(), t.shape().strides(), t.dtype()}; }

class Evaluator {
 public:
  Evaluator(const std::map<std::string, Values>& feeds, const EvaluateOptions& options)
      : feeds_(feeds), options_(options) {}

  void run(const Block& block, int64_t iteration) {
    for (const auto& operation : block) run(*operation, iteration);
  }

  Values values(const Tensor& t) const;
  std::map<std::string, Values> assigned;

 private:
  void run(Operation& operation, int64_t iteration);
  void run_loop(const Repeat& loop);
  void run_kernel(const Operation& operation, int64_t iteration);
  Buffer& allocate(const Tensor& t) {
    Buffer& buffer = buffers_[t];
    buffer.bytes.assign(static_cast<size_t>(bytes_of(t.shape(), t.dtype())), std::byte{0});
    buffer.begin.assign(t.shape().rank(), 0);
    return buffer;
  }
  void fill(const Tensor& t, const Values& values);
  void accumulate(const Tensor& total, const Tensor& term);
  void place(const Tensor& whole, const Tensor& part, const Microbatching& microbatching, int64_t iteration);

  const std::map<std::string, Values>& feeds_;
  const EvaluateOptions& options_;
  const std::shared_ptr<Backend> backend_ = test_backend();
  std::unordered_map<Tensor, Buffer, TensorHash> buffers_;
};

void Evaluator::fill(const Tensor& t, const Values& values) {
  Buffer& buffer = allocate(t);
  MTF_CHECK(static_cast<int64_t>(values.size()) == t.shape().size(), "{} values for {}", values.size(),
            t.shape().to_string());
  with_type(t.dtype(), [&]<class T>(T) {
    T* data = reinterpret_cast<T*>(buffer.bytes.data());
    for (size_t i = 0; i < values.size(); ++i) data[i] = narrow<T>(values[i]);
  });
}

Values Evaluator::values(const Tensor& t) const {
  const Buffer& buffer = buffers_.at(t);
  Values result(t.shape().size());
  with_type(t.dtype(), [&]<class T>(T) {
    const T* data = reinterpret_cast<const T*>(buffer.bytes.data());
    for (size_t i = 0; i < result.size(); ++i) result[i] = widen(data[i]);
  });
  return result;
}

void Evaluator::run(Operation& operation, int64_t iteration) {
  if (const auto* input = dynamic_cast<const Input*>(&operation)) {
    const auto found = feeds_.find(input->input_name);
    if (found != feeds_.end()) fill(operation.output(), found->second);
  } else if (const auto* constant = dynamic_cast<const Constant*>(&operation)) {
    fill(operation.output(), Values(operation.outputs()[0].shape.size(), constant->value));
  } else if (const auto* read = dynamic_cast<const ReadVariable*>(&operation)) {
    const auto found = options_.variables.find(read->variable->name);
    fill(operation.output(),
         found != options_.variables.end() ? found->second : Values(read->variable->shape.size()));
  } else if (const auto* assign = dynamic_cast<const Assign*>(&operation)) {
    const bool guarded = operation.inputs().size() > 1;
    if (!guarded || values(operation.input(1))[0] != 0)
      assigned[assign->variable->name] = values(operation.input(0));
  } else if (dynamic_cast<const LoopValue*>(&operation)) {
    if (iteration == 0) buffers_[operation.output()] = Buffer(buffers_.at(operation.input(0)));
  } else if (const auto* loop = dynamic_cast<const Repeat*>(&operation)) {
    run_loop(*loop);
  } else if (operation.is_view()) {
    for (size_t i = 0; i < operation.outputs().size(); ++i) {
      const Tensor output = operation.output(static_cast<int>(i));
      const std::vector<std::byte> bytes = buffers_.at(operation.input(static_cast<int>(i))).bytes;
      allocate(output).bytes = bytes;
    }
  } else {
    run_kernel(operation, iteration);
  }
}

void Evaluator::run_loop(const Repeat& loop) {
  const size_t carried = loop.loop_values.size(), sums = loop.result.sums.size();
  for (size_t i = carried; i < loop.outputs().size(); ++i) allocate(loop.output(static_cast<int>(i)));
  for (int64_t iteration = 0; iteration < loop.count; ++iteration) {
    run(loop.body, iteration);
    for (size_t i = 0; i < sums; ++i) {
      accumulate(loop.output(static_cast<int>(carried + i)), loop.result.sums[i]);
    }
    for (size_t i = 0; i < loop.result.placed.size(); ++i) {
      place(loop.output(static_cast<int>(carried + sums + i)), loop.result.placed[i], loop.microbatching,
            iteration);
    }
    std::vector<Buffer> next;
    for (const Tensor& t : loop.result.carried) next.push_back(buffers_.at(t));
    for (size_t i = 0; i < carried; ++i) buffers_[loop.loop_values[i]] = next[i];
  }
  for (size_t i = 0; i < carried; ++i)
    buffers_[loop.output(static_cast<int>(i))] = buffers_.at(loop.loop_values[i]);
}

void Evaluator::accumulate(const Tensor& total, const Tensor& term) {
  Values sum = values(total);
  const Values more = values(term);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  fill(total, sum);
}

void Evaluator::place(const Tensor& whole, const Tensor& part, const Microbatching& microbatching,
                      int64_t iteration) {
  Values all = values(whole);
  const Values values = this->values(part);
  const int axis = *part.shape().find(microbatching.dimension);
  const int64_t inner = part.shape().strides()[axis], size = part.shape()[axis].size;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t outer = static_cast<int64_t>(i) / (inner * size),
                  entry = static_cast<int64_t>(i) / inner % size;
    all[(outer * size * microbatching.count + entry * microbatching.count + iteration) * inner +
        static_cast<int64_t>(i) % inner] = values[i];
  }
  fill(whole, all);
}

void Evaluator::run_kernel(const Operation& operation, int64_t iteration) {
  KernelContext context{operation, {}, {}, options_.seed};
  std::vector<Slice> inputs, outputs;
  for (const Tensor& t : operation.inputs()) {
    context.inputs.push_back(local_tensor(t));
    inputs.push_back({buffers_.at(t).bytes.data(), buffers_.at(t).begin.data()});
  }
  for (size_t i = 0; i < operation.outputs().size(); ++i) {
    const Tensor t = operation.output(static_cast<int>(i));
    context.outputs.push_back(local_tensor(t));
    Buffer& buffer = allocate(t);
    outputs.push_back({buffer.bytes.data(), buffer.begin.data()});
  }
  testing::run_kernel(*backend_, *backend_->prepare(context), context, inputs, outputs, options_.step,
                      iteration);
}

}  // namespace

Values count_from(double first, int64_t n) {
  Values values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<Values> evaluate(const Graph& graph, const Tensors& tensors,
                             const std::map<std::string, Values>& feeds, const EvaluateOptions& options) {
  Evaluator evaluator(feeds, options);
  evaluator.run(graph.root(), 0);
  std::vector<Values> result;
  for (const Tensor& t : tensors) result.push_back(evaluator.values(t));
  return result;
}

std::map<std::string, Values> evaluate_step(const Graph& graph, const std::map<std::string, Values>& feeds,
                                            const EvaluateOptions& options) {
  Evaluator evaluator(feeds, options);
  evaluator.run(graph.root(), 0);
  std::map<std::string, Values> result = options.variables;
  for (auto& [name, values] : evaluator.assigned) result[name] = std::move(values);
  return result;
}

}  // namespace mtf::testing
