#include "trainer/calibrate/measured_kernel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "trainer/calibrate/seconds_on.h"

namespace mtf {
namespace {

constexpr double kRoundSeconds = 0.02;
constexpr size_t kMostSets = 256;

/// The processor time of this thread, which other programs on the machine do not lengthen; on a GPU the time of day.
double now(const Backend& backend) {
  return seconds_on(backend.is_host() ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}

/// Numbers between 0.25 and 1 for floats, 1 for others.
std::vector<std::byte> values(const LocalTensor& tensor) {
  constexpr int64_t kDifferent = 1024;  // the others repeat them
  const DType dtype = tensor.dtype;
  std::vector<std::byte> bytes(static_cast<size_t>(bytes_of(tensor.local, dtype)));
  const int64_t written = std::min(tensor.local.size(), kDifferent);
  for (int64_t i = 0; i < written; ++i) {
    const float number = 0.25f + static_cast<float>((i * 7919) % kDifferent) * 0.75f / kDifferent;
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
  for (size_t done = static_cast<size_t>(written) * size_of(dtype); done < bytes.size(); done *= 2)
    std::memcpy(&bytes[done], bytes.data(), std::min(done, bytes.size() - done));
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

MeasuredKernel::MeasuredKernel(const Operation& operation, Backend& backend, double bytes_between,
                               bool in_place)
    : backend_(backend) {
  KernelContext context{.operation = operation, .inputs = {}, .outputs = {}};
  std::vector<Shape> inputs, outputs;
  const auto add = [this](const Shape& shape, DType dtype, std::vector<LocalTensor>& tensors,
                          std::vector<Shape>& shapes) {
    tensors.push_back({shape, shape, shape.strides(), dtype});
    shapes.push_back(shape);
    bytes_ += static_cast<double>(bytes_of(shape, dtype));
  };
  for (const Tensor& tensor : operation.inputs()) add(tensor.shape(), tensor.dtype(), context.inputs, inputs);
  for (const OutputInfo& output : operation.outputs())
    add(output.shape, output.dtype, context.outputs, outputs);
  std::vector<std::vector<std::byte>> contents;
  for (const auto* tensors : {&context.inputs, &context.outputs})
    for (const LocalTensor& tensor : *tensors) contents.push_back(values(tensor));
  for (double bytes = 0; sets_.empty() || (bytes < bytes_between && sets_.size() < kMostSets);
       bytes += bytes_) {
    Operands& set = sets_.emplace_back();
    for (size_t i = 0; i < context.inputs.size(); ++i) set.inputs.push_back(slice(contents[i]));
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      const std::optional<int> input =
          in_place ? operation.in_place(static_cast<int>(i)) : std::optional<int>();
      set.outputs.push_back(input ? set.inputs[static_cast<size_t>(*input)]
                                  : slice(contents[context.inputs.size() + i]));
    }
  }
  work_ = work_of(operation, inputs, outputs, inputs.empty() ? DType::kFloat32 : context.inputs[0].dtype);
  kernel_ = backend.prepare(context);
  backend.compile();
  scratch_ = backend.allocate(std::max<int64_t>(64, static_cast<int64_t>(kernel_->scratch_bytes())));
  step_ = backend.allocate(64);
}

Slice MeasuredKernel::slice(const std::vector<std::byte>& data) {
  memory_.push_back(backend_.allocate(std::max<int64_t>(64, std::ssize(data))));
  backend_.write(memory_.back()->data(), data.data(), std::ssize(data));
  return {memory_.back()->data(), begin_};
}

void MeasuredKernel::run() {
  const Operands& set = sets_[std::exchange(next_, (next_ + 1) % sets_.size())];
  kernel_->run({set.inputs, set.outputs, scratch_->data(), reinterpret_cast<const uint64_t*>(step_->data())},
               0, kernel_->tasks());
}

double MeasuredKernel::seconds(int rounds) {
  constexpr size_t kLeastRecorded = 8;
  const size_t executions = std::max(sets_.size(), kLeastRecorded);
  if (!backend_.is_host() && recording_ == nullptr) {
    run();  // the first launch loads the kernel, which cannot be recorded
    backend_.wait();
    recording_ = backend_.record([&] {
      for (size_t i = 0; i < executions; ++i) run();
    });
  }
  if (recording_ == nullptr) return least_seconds(backend_, rounds, [this] { run(); });
  return least_seconds(backend_, rounds, [this] { recording_->replay(); }) / static_cast<double>(executions);
}

}  // namespace mtf
