// KernelComparison runs the CPU kernel and the CUDA kernel of an operation on the same slices, and expects
// the same outputs.
//
//   Graph graph;
//   const Tensor x = graph.input("x", {{"a", 6}, {"b", 4}});
//   KernelComparison comparison(cumsum(x, "a"));
//   comparison.inputs[0].take({{"a", 2}, {"b", 4}}, {4, 0}).values = {...};  // default: whole, random values
//   comparison.expect_same();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/graph/operation.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

/// The device on which kernels are tested.
Backend& cuda_device();

/// One position's slice of an operand.
struct ComparedOperand {
  Shape global, local;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> begin;
  Values values;  ///< values of an input's slice, row-major

  /// Selects the slice of this shape that begins at `from`.
  ComparedOperand& take(const Shape& shape, std::vector<int64_t> from) {
    local = shape;
    begin = std::move(from);
    values.clear();
    return *this;
  }
  int64_t bytes() const { return bytes_of(local, dtype); }
};

/// `count` values: normally distributed and rounded to float, or whole numbers in [low, high).
Values random_normal_values(int64_t count, uint32_t seed);
Values random_whole_values(int64_t count, int64_t low, int64_t high, uint32_t seed);

class KernelComparison {
 public:
  /// Compares the operation that made `output`. Inputs without values get random ones from `seed`: normally
  /// distributed, or whole numbers in [0, 8).
  explicit KernelComparison(const Tensor& output, uint32_t seed = 1);

  std::vector<ComparedOperand> inputs, outputs;
  /// 0 requires the same bits (any NaN equals any other). Otherwise |difference| <= tolerance * max(1,
  /// |expected|), and bfloat16 values may differ by one rounding.
  double tolerance = 0;
  uint64_t seed = 1, step = 0;
  int64_t iteration = 0;
  /// Outputs share the memory of the inputs that they may overwrite.
  bool in_place = false;

  /// Compares the outputs. It also runs the device's kernel again and expects the same bits: without a guard,
  /// under a guard that holds, and under one that does not, when nothing may be written. No run may write
  /// outside the outputs.
  void expect_same() const;

 private:
  const Operation& operation_;
  uint32_t random_seed_;
};

/// Converts an operand's bytes to values, and back.
Values values_of(const std::vector<std::byte>& bytes, DType dtype);
std::vector<std::byte> bytes_of(const Values& values, DType dtype);

/// Expects equality as defined by KernelComparison::tolerance.
void expect_same_values(const std::string& what, const std::vector<std::byte>& actual,
                        const std::vector<std::byte>& expected, DType dtype, double tolerance);

/// Device memory that holds `bytes`, followed by bytes that must not change. It is taken from, and returned to, a
/// pool: a GPU takes longer to allocate memory than to run the kernel of a test.
class GuardedMemory {
 public:
  explicit GuardedMemory(const std::vector<std::byte>& bytes);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&&) = default;
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  std::byte* data() { return memory_->data(); }
  /// The current content. Expects that the bytes after it are intact.
  std::vector<std::byte> read();
  void write(const std::vector<std::byte>& bytes);

 private:
  size_t bytes_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace mtf::testing
