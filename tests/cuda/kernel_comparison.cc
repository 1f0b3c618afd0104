#include "tests/cuda/kernel_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/cuda/cuda_backend.h"
#include "engine/base/check.h"
#include "tests/support/element_types.h"

namespace mtf::testing {
namespace {

using Bytes = std::vector<std::byte>;

/// The content of outputs before a kernel runs, and of the bytes after operands.
constexpr std::byte kUntouched{0xa5};
constexpr size_t kRedZone = 256;

ComparedOperand whole(const Shape& shape, DType dtype) {
  return {shape, shape, dtype, std::vector<int64_t>(static_cast<size_t>(shape.rank())), {}};
}

LocalTensor described(const ComparedOperand& operand) {
  return {operand.global, operand.local, operand.local.strides(), operand.dtype};
}

std::vector<LocalTensor> described(const std::vector<ComparedOperand>& operands) {
  std::vector<LocalTensor> result;
  for (const ComparedOperand& operand : operands) result.push_back(described(operand));
  return result;
}

/// Host memory with the alignment that kernels may require.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes) : memory_(bytes + 64) {}
  std::byte* data() { return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64; }

 private:
  Bytes memory_;
};

/// The operands of one run, in host or device memory.
struct Operands {
  std::vector<Slice> inputs, outputs;
};

bool same(double actual, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

size_t pool_size(size_t bytes) { return std::bit_ceil(bytes); }

/// Device memory by its size, as pool_size() gives it. Never destroyed, like the device.
std::multimap<size_t, std::unique_ptr<DeviceMemory>>& free_memory() {
  static auto* const memory = new std::multimap<size_t, std::unique_ptr<DeviceMemory>>;
  return *memory;
}

std::unique_ptr<DeviceMemory> take_memory(size_t bytes) {
  const size_t size = pool_size(bytes);
  auto& pool = free_memory();
  if (const auto found = pool.find(size); found != pool.end()) return std::move(pool.extract(found).mapped());
  return cuda_device().allocate(static_cast<int64_t>(size));
}

/// Runs a prepared device kernel on memory of its own.
class DeviceRun {
 public:
  DeviceRun(const Kernel& kernel, const KernelComparison& comparison, const std::vector<Bytes>& inputs,
            const std::vector<std::optional<int>>& in_place)
      : kernel_(kernel), comparison_(comparison) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      memory_.emplace_back(inputs[i]);
      operands_.inputs.push_back({memory_.back().data(), comparison.inputs[i].begin.data()});
    }
    for (size_t i = 0; i < in_place.size(); ++i) {
      const ComparedOperand& output = comparison.outputs[i];
      output_memory_.push_back(in_place[i] ? static_cast<size_t>(*in_place[i]) : memory_.size());
      if (!in_place[i]) memory_.emplace_back(Bytes(static_cast<size_t>(output.bytes()), kUntouched));
      operands_.outputs.push_back({memory_[output_memory_.back()].data(), output.begin.data()});
    }
  }

  void run(const bool* guard) {
    GuardedMemory scratch(Bytes(kernel_.scratch_bytes(), kUntouched));
    Bytes step(sizeof(uint64_t));
    std::memcpy(step.data(), &comparison_.step, sizeof(uint64_t));
    GuardedMemory step_memory(step);
    const KernelCall call{operands_.inputs,      operands_.outputs,
                          scratch.data(),        reinterpret_cast<const uint64_t*>(step_memory.data()),
                          comparison_.iteration, guard};
    MTF_CHECK(kernel_.tasks() == 1, "kernels of a device have one task");
    kernel_.run(call, 0, 1);
    cuda_device().wait();
    scratch.read();
  }
  /// The contents of all operands: inputs, then outputs that do not share an input's memory.
  std::vector<Bytes> contents() {
    std::vector<Bytes> result;
    for (GuardedMemory& memory : memory_) result.push_back(memory.read());
    return result;
  }
  size_t memory_of_output(size_t i) const { return output_memory_[i]; }

 private:
  const Kernel& kernel_;
  const KernelComparison& comparison_;
  std::vector<GuardedMemory> memory_;
  std::vector<size_t> output_memory_;
  Operands operands_;
};

}  // namespace

Backend& cuda_device() {
  // The device is not destroyed because it uses other static objects.
  static Backend* const device = new cuda::CudaBackend(cuda::open_device(0));
  return *device;
}

Values random_normal_values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

Values random_whole_values(int64_t count, int64_t low, int64_t high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> uniform(low, high - 1);
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<double>(uniform(random));
  return values;
}

Values values_of(const Bytes& bytes, DType dtype) {
  Values values(bytes.size() / size_of(dtype));
  with_type(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      T element;
      std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = widen(element);
    }
  });
  return values;
}

Bytes bytes_of(const Values& values, DType dtype) {
  Bytes bytes(values.size() * size_of(dtype));
  with_type(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      const T element = narrow<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return bytes;
}

void expect_same_values(const std::string& what, const Bytes& actual, const Bytes& expected, DType dtype,
                        double tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double allowed =
      tolerance > 0 && dtype == DType::kBFloat16 ? std::max(tolerance, 1.0 / 128) : tolerance;
  const Values a = values_of(actual, dtype), e = values_of(expected, dtype);
  const size_t size = size_of(dtype);
  size_t wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same_bits = std::memcmp(actual.data() + i * size, expected.data() + i * size, size) == 0;
    if (same_bits || (std::isnan(a[i]) && std::isnan(e[i])) || (allowed > 0 && same(a[i], e[i], allowed)))
      continue;
    if (++wrong <= 5) ADD_FAILURE() << what << " " << i << ": " << a[i] << " instead of " << e[i];
  }
  EXPECT_EQ(wrong, 0u) << what << ": wrong elements of " << a.size();
}

GuardedMemory::GuardedMemory(const Bytes& bytes)
    : bytes_(bytes.size()), memory_(take_memory(bytes.size() + kRedZone)) {
  Bytes guarded = bytes;
  guarded.resize(bytes_ + kRedZone, kUntouched);
  write(guarded);
}

GuardedMemory::~GuardedMemory() {
  if (memory_ != nullptr) free_memory().emplace(pool_size(bytes_ + kRedZone), std::move(memory_));
}

void GuardedMemory::write(const Bytes& bytes) {
  cuda_device().write(memory_->data(), bytes.data(), static_cast<int64_t>(bytes.size()));
}

Bytes GuardedMemory::read() {
  Bytes bytes(bytes_ + kRedZone);
  cuda_device().read(bytes.data(), memory_->data(), static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<int64_t>(bytes_), bytes.end(), [](std::byte byte) {
    return byte == kUntouched;
  })) << "written behind an operand";
  bytes.resize(bytes_);
  return bytes;
}

KernelComparison::KernelComparison(const Tensor& output, uint32_t seed)
    : operation_(output.operation()), random_seed_(seed) {
  for (const Tensor& t : operation_.inputs()) inputs.push_back(whole(t.shape(), t.dtype()));
  for (const OutputInfo& info : operation_.outputs()) outputs.push_back(whole(info.shape, info.dtype));
}

void KernelComparison::expect_same() const {
  const KernelContext context{operation_, described(inputs), described(outputs), seed};
  const std::string name = std::string(operation_.name()) + " " + operation_.attributes();
  std::vector<Bytes> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ComparedOperand& input = inputs[i];
    const uint32_t seed_of_input = random_seed_ * 100 + static_cast<uint32_t>(i);
    Values values = input.values;
    if (values.empty()) {
      values = is_floating(input.dtype) ? random_normal_values(input.local.size(), seed_of_input)
                                        : random_whole_values(input.local.size(), 0, 8, seed_of_input);
    }
    in.push_back(bytes_of(values, input.dtype));
    ASSERT_EQ(static_cast<int64_t>(in.back().size()), input.bytes()) << name << ", input " << i;
  }

  std::vector<Bytes> expected;
  {
    const std::unique_ptr<Kernel> kernel = prepare_cpu_kernel(context);
    Operands operands;
    std::vector<Bytes> copies = in;
    for (size_t i = 0; i < inputs.size(); ++i)
      operands.inputs.push_back({copies[i].data(), inputs[i].begin.data()});
    for (const ComparedOperand& output : outputs)
      expected.emplace_back(static_cast<size_t>(output.bytes()), kUntouched);
    for (size_t i = 0; i < outputs.size(); ++i)
      operands.outputs.push_back({expected[i].data(), outputs[i].begin.data()});
    AlignedBytes scratch(kernel->scratch_bytes());
    kernel->run(KernelCall{operands.inputs, operands.outputs, scratch.data(), &step, iteration}, 0,
                kernel->tasks());
  }

  std::vector<std::optional<int>> overwritten;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<int> input = operation_.in_place(static_cast<int>(i));
    const bool shared = in_place && input && inputs[*input].bytes() == outputs[i].bytes() &&
                        inputs[*input].dtype == outputs[i].dtype;
    overwritten.push_back(shared ? input : std::nullopt);
  }
  KernelContext under_guard = context;
  under_guard.guarded = true;
  const std::unique_ptr<Kernel> kernel = cuda_device().prepare(context),
                                guarded = cuda_device().prepare(under_guard);
  GuardedMemory guards(Bytes{std::byte{1}, std::byte{0}});
  const bool* holds = reinterpret_cast<const bool*>(guards.data());

  DeviceRun first(*kernel, *this, in, overwritten), again(*kernel, *this, in, overwritten),
      if_true(*guarded, *this, in, overwritten), if_false(*guarded, *this, in, overwritten);
  const std::vector<Bytes> before = first.contents();
  first.run(nullptr);
  const std::vector<Bytes> after = first.contents();
  std::vector<bool> is_output(after.size(), false);
  for (size_t i = 0; i < outputs.size(); ++i) {
    is_output[first.memory_of_output(i)] = true;
    expect_same_values(name + ", output " + std::to_string(i), after[first.memory_of_output(i)], expected[i],
                       outputs[i].dtype, tolerance);
  }
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_TRUE(is_output[i] || after[i] == before[i]) << name << " has changed its input " << i;
  again.run(nullptr);
  EXPECT_TRUE(again.contents() == after) << name << " gives other bits when it is run again";
  if_true.run(holds);
  const std::vector<Bytes> guarded_result = if_true.contents();
  for (size_t i = 0; i < outputs.size(); ++i) {
    expect_same_values(name + " under a guard, output " + std::to_string(i),
                       guarded_result[if_true.memory_of_output(i)], expected[i], outputs[i].dtype, tolerance);
  }
  if_false.run(holds + 1);
  EXPECT_TRUE(if_false.contents() == before) << name << " has written although the guard is false";
}

}  // namespace mtf::testing
