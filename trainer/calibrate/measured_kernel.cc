#include "trainer/calibrate/measured_kernel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <limits>

namespace mtf {
namespace {

constexpr double kRoundSeconds = 0.02;

/// The processor time of this thread, which other programs on the machine do not lengthen; on a GPU the time of day.
double now(const Backend& backend) {
  timespec time{};
  clock_gettime(backend.is_host() ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Numbers between 0.25 and 1 for floats, 1 for others.
std::vector<std::byte> values(int64_t count, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size_of(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const float number = 0.25f + static_cast<float>((i * 7919) % 1024) * 0.75f / 1024;
    if (dtype == DType::kFloat32) {
      std::memcpy(&bytes[static_cast<size_t>(i) * sizeof number], &number, sizeof number);
    } else if (dtype == DType::kBFloat16) {
      std::memcpy(&bytes[static_cast<size_t>(i) * 2], reinterpret_cast<const char*>(&number) + 2, 2);
    } else if (dtype == DType::kInt32) {
      const int32_t one = 1;
      std::memcpy(&bytes[static_cast<size_t>(i) * sizeof one], &one, sizeof one);
    } else if (dtype == DType::kBool) {
      bytes[static_cast<size_t>(i)] = std::byte{1};
    }
  }
  return bytes;
}

}  // namespace

double least_seconds(Backend& backend, int rounds, const std::function<void()>& run) {
  run();
  backend.wait();
  double least = std::numeric_limits<double>::infinity();
  int64_t repeats = 1;
  for (int round = 0; round <= rounds; ++round) {
    const double begin = now(backend);
    for (int64_t i = 0; i < repeats; ++i) run();
    backend.wait();
    const double seconds = (now(backend) - begin) / static_cast<double>(repeats);
    if (round == 0) {
      repeats =
          std::clamp<int64_t>(static_cast<int64_t>(kRoundSeconds / std::max(seconds, 1e-9)), 1, 1'000'000);
    } else {
      least = std::min(least, seconds);
    }
  }
  return least;
}

MeasuredKernel::MeasuredKernel(const Operation& operation, Backend& backend) : backend_(backend) {
  KernelContext context{.operation = operation, .inputs = {}, .outputs = {}};
  std::vector<Shape> inputs, outputs;
  for (const Tensor& tensor : operation.inputs()) {
    context.inputs.push_back(operand(tensor.shape(), tensor.dtype(), inputs_));
    inputs.push_back(tensor.shape());
  }
  for (const OutputInfo& output : operation.outputs()) {
    context.outputs.push_back(operand(output.shape, output.dtype, outputs_));
    outputs.push_back(output.shape);
  }
  flops_ = operation.cost(inputs, outputs).flops;
  kernel_ = backend.prepare(context);
  backend.compile();
  scratch_ = backend.allocate(std::max<int64_t>(64, static_cast<int64_t>(kernel_->scratch_bytes())));
  step_ = backend.allocate(64);
}

LocalTensor MeasuredKernel::operand(const Shape& shape, DType dtype, std::vector<Slice>& slices) {
  const std::vector<std::byte> data = values(shape.size(), dtype);
  memory_.push_back(backend_.allocate(std::max<int64_t>(64, std::ssize(data))));
  backend_.write(memory_.back()->data(), data.data(), std::ssize(data));
  slices.push_back({memory_.back()->data(), begin_});
  bytes_ += static_cast<double>(data.size());
  return {shape, shape, shape.strides(), dtype};
}

void MeasuredKernel::run() {
  kernel_->run({inputs_, outputs_, scratch_->data(), reinterpret_cast<const uint64_t*>(step_->data())}, 0,
               kernel_->tasks());
}

double MeasuredKernel::seconds(int rounds) {
  return least_seconds(backend_, rounds, [this] { run(); });
}

}  // namespace mtf
