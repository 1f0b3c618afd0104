// The interface between operations and what computes them on a device.
//
// A Kernel is prepared once for an operation and the local shapes of its operands, and is stateless: run() is
// called for each mesh coordinate with pointers to that coordinate's slices, for a range of tasks. The number
// of tasks is a pure function of the local shapes, so that results do not depend on the number of threads;
// tasks write disjoint parts.
//
//   const KernelRegistration registration("relu", {DType::kFloat32}, [](const KernelContext& context) {
//     const int64_t n = context.outputs[0].local.size();
//     return make_kernel(n, kElementsPerTask, [](const KernelCall& call, int64_t begin, int64_t end) {
//       const float* x = call.input<float>(0);
//       float* y = call.output<float>(0);
//       for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 ? x[i] : 0;
//     });
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "engine/graph/operation.h"

namespace mtf {

/// An operand as a kernel sees it when it is prepared: dense, row-major in `strides` order.
struct LocalTensor {
  Shape global;  ///< declared shape
  Shape local;   ///< sizes of one position's slice, same order
  std::vector<int64_t>
      strides;  ///< in elements, by declared axis; row-major unless the backend asked for another order
  DType dtype = DType::kFloat32;
};

struct KernelContext {
  const Operation& operation;
  std::vector<LocalTensor> inputs;
  std::vector<LocalTensor> outputs;
  uint64_t seed = 0;         ///< run.seed
  bool guarded = false;      ///< calls may have a guard
  bool accumulates = false;  ///< adds to the output, except in iteration 0; only devices are asked to
  bool grouped = false;      ///< of a member of MultiTensor
};

/// One position's slice: its data, and the global index of its first element along each declared axis.
struct Slice {
  std::byte* data = nullptr;
  const int64_t* begin = nullptr;
};

struct KernelCall {
  std::span<const Slice> inputs;
  std::span<const Slice> outputs;
  std::byte* scratch =
      nullptr;  ///< Kernel::scratch_bytes() of 64-byte aligned memory, for this task range alone
  const uint64_t* step = nullptr;  ///< training step, for random numbers; in the memory of the device
  int64_t iteration = 0;           ///< of the enclosing repeat
  const bool* guard = nullptr;     ///< in the memory of a device: where it is false, nothing is written

  template <class T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(inputs[i].data);
  }
  template <class T>
  T* output(int i) const {
    return reinterpret_cast<T*>(outputs[i].data);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Number of independent parts; a pure function of the local shapes.
  virtual int64_t tasks() const = 0;
  /// Scratch memory that each concurrent run() needs.
  virtual size_t scratch_bytes() const { return 0; }
  /// Runs tasks [begin, end); returns the floating-point operations of contractions done (2 per
  /// multiply-add), counted from the loops that ran. Allocates nothing.
  virtual int64_t run(const KernelCall& call, int64_t begin, int64_t end) const = 0;
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelContext&)>;

inline constexpr std::initializer_list<DType> kFloatingTypes = {DType::kFloat32, DType::kBFloat16,
                                                                DType::kFloat64};
inline constexpr std::initializer_list<DType> kNumberTypes = {DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat64, DType::kInt32, DType::kInt64};
inline constexpr std::initializer_list<DType> kAllTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                                           DType::kInt32,   DType::kInt64,    DType::kBool};

/// Elements of a elementwise task: large enough to amortise the call, small enough to stay in L2.
inline constexpr int64_t kElementsPerTask = 1 << 15;

/// A kernel over `size` units (elements, rows) that are cut into tasks of `per_task`: body(call, begin_unit,
/// end_unit).
template <class Body>
std::unique_ptr<Kernel> make_kernel(int64_t size, int64_t per_task, Body body, size_t scratch = 0) {
  class Ranged final : public Kernel {
   public:
    Ranged(int64_t size, int64_t per_task, Body body, size_t scratch)
        : size_(size), per_task_(per_task), scratch_(scratch), body_(std::move(body)) {}
    int64_t tasks() const override { return (size_ + per_task_ - 1) / per_task_; }
    size_t scratch_bytes() const override { return scratch_; }
    int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
      for (int64_t task = begin; task < end; ++task) {
        body_(call, task * per_task_, std::min(size_, (task + 1) * per_task_));
      }
      return 0;
    }

   private:
    int64_t size_, per_task_;
    size_t scratch_;
    Body body_;
  };
  return std::make_unique<Ranged>(size, per_task, std::move(body), scratch);
}

}  // namespace mtf
