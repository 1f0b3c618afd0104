#include "trainer/calibrate/measure_memory.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "engine/base/integer_division.h"
#include "engine/base/seconds_since.h"
#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/moments.h"
#include "engine/ops/normalization.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "engine/runtime/thread_pool.h"
#include "trainer/calibrate/rounded.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

class MemoryMeasurement {
 public:
  MemoryMeasurement(const Measurement& measurement, DeviceOptions& device)
      : measurement_(measurement), device_(device) {}

  void measure() {
    KindRates& kinds = device_.rates;
    kinds.elementwise = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape), y = graph.input("y", shape);
      return {add(x, y), relu(x)};
    });
    kinds.norms = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape), scale = graph.input("scale", {shape[1]});
      const Tensor y = rms_norm(x, "columns", scale);
      return {y, gradients({y}, {x})[0]};
    });
    kinds.reductions = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape), ids = graph.input("ids", {shape[0]}, DType::kInt32);
      const CrossEntropy loss = softmax_cross_entropy(x, ids, "columns");
      return {loss.loss, gradients({loss.loss}, {x})[0]};
    });
    constexpr int64_t kWidth = 32;
    kinds.sums = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Dimension blocks{"rows", ceil_divide(shape[0].size, kWidth)}, width{"width", kWidth};
      const Tensor x = graph.input("x", shape), image = graph.input("image", {blocks, width, shape[1]});
      const Tensor y = window_max(image, {window_over(width, {.size = 2, .stride = 2})});
      return {reduce_sum(x, Shape{shape[1]}), moments(x, x, Shape{shape[1]}).sum, y,
              gradients({y}, {image})[0]};
    });
    kinds.movement = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape);
      return {transpose(x, {shape[1], shape[0]})};
    });
    kinds.updates = rates(
        [](Graph& graph, const Shape& shape) -> Tensors {
          const Tensor w = graph.input("w", shape), g = graph.input("g", shape), m = graph.input("m", shape),
                       v = graph.input("v", shape), rate = graph.input("rate", {});
          return {adam_update(w, g, m, v, rate).weight, sum_of_squares(g)};  // for the norm of the gradients
        },
        true);
    kinds.collectives = collective_rates();
    device_.cache.bandwidth = kinds.elementwise->cache;
    if (measurement_.backend.is_host()) {
      device_.bandwidth = shared_bandwidth();
    } else {
      device_.bandwidth = kinds.elementwise->memory;
      device_.host_link = host_link_rate();
    }
  }

 private:
  /// The shape of a matrix of `bytes` bytes in float32.
  Shape matrix(int64_t bytes) const {
    return {{"rows", std::max<int64_t>(1, bytes / (measurement_.sizes.row * 4))},
            {"columns", measurement_.sizes.row}};
  }

  /// Bytes in a second of some operations on tensors of `bytes` each.
  double rate(int64_t bytes, const std::function<Tensors(Graph& graph, const Shape& shape)>& build,
              bool in_place) {
    Graph graph;
    const Shape shape = matrix(bytes);
    double moved = 0, seconds = 0;
    for (const Tensor& tensor : build(graph, shape)) {
      MeasuredKernel kernel(tensor.operation(), measurement_.backend, measurement_.bytes_between, in_place);
      moved += kernel.bytes();
      seconds += measurement_.seconds(kernel);
    }
    return rounded(moved / seconds);
  }

  MemoryRate rates(const std::function<Tensors(Graph& graph, const Shape& shape)>& build,
                   bool in_place = false) {
    return {rate(measurement_.sizes.cached, build, in_place),
            rate(measurement_.sizes.stored, build, in_place)};
  }

  /// The sum of two positions' slices.
  MemoryRate collective_rates() {
    const auto of = [&](int64_t bytes) {
      Collective collective;
      collective.group = {2};
      collective.input = {bytes / 4};
      const std::unique_ptr<PreparedCollective> sum = measurement_.backend.prepare(collective);
      std::vector<std::unique_ptr<DeviceMemory>> memory;
      const std::vector<std::byte> zeros(
          static_cast<size_t>(bytes));  // pages that nobody has written are one page
      for (int i = 0; i < 3; ++i) {
        memory.push_back(measurement_.backend.allocate(bytes));
        measurement_.backend.write(memory.back()->data(), zeros.data(), bytes);
      }
      const std::vector<const std::byte*> inputs{memory[0]->data(), memory[1]->data()};
      const double seconds = least_seconds(measurement_.backend, measurement_.rounds,
                                           [&] { sum->run(inputs, 0, memory[2]->data(), 0, sum->tasks()); });
      return rounded(3 * static_cast<double>(bytes) / seconds);
    };
    return {of(measurement_.sizes.cached), of(measurement_.sizes.stored)};
  }

  /// Bytes in a second between a GPU and page-locked memory of its machine, in the slower direction.
  double host_link_rate() {
    constexpr int64_t kBytes = 256 << 20;
    const std::unique_ptr<DeviceMemory> here = measurement_.backend.allocate(kBytes),
                                        there = measurement_.backend.allocate_on_host(kBytes);
    double rate = std::numeric_limits<double>::infinity();
    for (const TransferDirection direction : {TransferDirection::kToHost, TransferDirection::kToDevice}) {
      const bool to_host = direction == TransferDirection::kToHost;
      const std::unique_ptr<MemoryTransfer> copy = measurement_.backend.make_memory_transfer(
          {{to_host ? there->data() : here->data(), to_host ? here->data() : there->data(), kBytes}},
          direction);
      const double seconds = least_seconds(measurement_.backend, measurement_.rounds, [&] {
        copy->begin();
        copy->hold_back();
      });
      rate = std::min(rate, static_cast<double>(kBytes) / seconds);
    }
    return rounded(rate);
  }

  /// Bytes that all cores together read and write in a second of the day.
  double shared_bandwidth() {
    const auto cores = static_cast<int>(device_.cores);
    ThreadPool pool(cores, [this] { measurement_.backend.prepare_thread(); });
    Graph graph;
    const Shape shape = matrix(measurement_.sizes.stored);
    const Tensor sum = add(graph.input("x", shape), graph.input("y", shape));
    std::vector<std::unique_ptr<MeasuredKernel>> kernels;
    for (int i = 0; i < cores; ++i)
      kernels.push_back(std::make_unique<MeasuredKernel>(sum.operation(), measurement_.backend, 0));
    double most = device_.rates.elementwise->memory;  // what one core gets
    for (int round = 0; round < 5; ++round) {
      const auto begin = Clock::now();
      pool.run(cores, [&](int64_t task, int) { kernels[static_cast<size_t>(task)]->run(); });
      most = std::max(most, cores * kernels[0]->bytes() / seconds_since(begin));
    }
    return rounded(most);
  }

  const Measurement& measurement_;
  DeviceOptions& device_;
};

}  // namespace

void measure_memory(const Measurement& measurement, DeviceOptions& device) {
  MemoryMeasurement(measurement, device).measure();
}

}  // namespace mtf
