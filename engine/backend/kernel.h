// The interface between operations and the kernels that compute them on a device.
//
// A Kernel is prepared once for an operation and the local shapes of its operands. It is stateless: run() is
// called for each mesh coordinate with pointers to that coordinate's slices, for a range of tasks. Tasks
// write disjoint parts, and their number is a pure function of the local shapes, so results do not depend on
// the number of threads.
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

/// An operand as a kernel sees it when it is prepared. Its elements are dense.
struct LocalTensor {
  Shape global;  ///< declared shape
  Shape local;   ///< sizes of one position's slice, same order
  /// In elements, by declared axis; row-major unless the backend asked for another order.
  std::vector<int64_t> strides;
  DType dtype = DType::kFloat32;
};

struct KernelContext {
  const Operation& operation;
  std::vector<LocalTensor> inputs;
  std::vector<LocalTensor> outputs;
  uint64_t seed = 0;     ///< run.seed
  bool guarded = false;  ///< true if calls may have a guard
  /// The kernel adds to its output, except in iteration 0. Only device kernels are asked to.
  bool accumulates = false;
  bool grouped = false;  ///< the operation is a member of a MultiTensor
};

/// One position's slice: its data and the global index of its first element along each declared axis.
struct Slice {
  std::byte* data = nullptr;
  const int64_t* begin = nullptr;
};

struct KernelCall {
  std::span<const Slice> inputs;
  std::span<const Slice> outputs;
  /// Kernel::scratch_bytes() bytes of 64-byte aligned memory for the exclusive use of this call.
  std::byte* scratch = nullptr;
  const uint64_t* step = nullptr;  ///< training step for random numbers, in the memory of the device
  int64_t iteration = 0;           ///< iteration of the enclosing repeat
  const bool* guard = nullptr;     ///< in the memory of the device; where false, nothing is written

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
  /// The number of independent parts; a pure function of the local shapes.
  virtual int64_t tasks() const = 0;
  /// The bytes of scratch memory that each concurrent run() needs.
  virtual size_t scratch_bytes() const { return 0; }
  /// Runs tasks [begin, end). Returns the floating-point operations of contractions that were done (2 per
  /// multiply-add), counted from the loops that ran. Does not allocate.
  virtual int64_t run(const KernelCall& call, int64_t begin, int64_t end) const = 0;
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelContext&)>;

inline constexpr std::initializer_list<DType> kFloatingTypes = {DType::kFloat32, DType::kBFloat16,
                                                                DType::kFloat64};
inline constexpr std::initializer_list<DType> kNumberTypes = {DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat64, DType::kInt32, DType::kInt64};
inline constexpr std::initializer_list<DType> kAllTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                                           DType::kInt32,   DType::kInt64,    DType::kBool};

// How kernels of the processor are cut into tasks. Predictions count on it (trainer/costs/cost_model.cc).

/// The elements of a task of an elementwise kernel: enough to amortise the call, few enough to stay in L2.
inline constexpr int64_t kElementsPerTask = 1 << 15;
/// A product is cut into tasks of at least so many FLOPs, up to kMostFlopTasks in all.
inline constexpr int64_t kFlopsPerTask = 8 << 20, kMostFlopTasks = 32;

/// A kernel over `size` units (elements, rows), cut into tasks of `per_task`. It calls body(call, begin_unit,
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
