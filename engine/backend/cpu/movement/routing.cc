// Kernels of assign_slots, dispatch, combine and choice_products. A task owns rows of its output, so that no two tasks
// write the same element and nothing is added in an order that depends on threads.
#include "engine/ops/routing.h"

#include <algorithm>
#include <numeric>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/routing_sizes.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// Places in the blocks of one row, which is a task.
class AssignSlotsKernel final : public Kernel {
 public:
  explicit AssignSlotsKernel(const KernelContext& context)
      : options_(static_cast<const AssignSlots&>(context.operation).options),
        has_priority_(context.inputs.size() > 1) {
    const Shape& expert = context.inputs[0].local;
    choices_ = expert[expert.rank() - 1].size;
    group_ = expert[expert.rank() - 2].size;
    rows_ = expert.size() / (group_ * choices_);
    per_block_ = options_.experts / options_.block.size;
  }

  int64_t tasks() const override { return rows_; }
  /// Scratch holds the order of the choices, how many each expert has, and where its places begin.
  size_t scratch_bytes() const override {
    return sizeof(int32_t) * static_cast<size_t>(group_ * choices_ + 2 * options_.experts);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    for (int64_t row = begin; row < end; ++row) assign(call, row);
    return 0;
  }

 private:
  int64_t capacity() const { return options_.capacity.size; }

  void assign(const KernelCall& call, int64_t row) const {
    const int64_t size = group_ * choices_;
    const int32_t* experts = call.input<int32_t>(0) + row * size;
    int32_t* slots = call.output<int32_t>(0) + row * size;
    auto* order = reinterpret_cast<int32_t*>(call.scratch);
    const std::span counts(order + size, static_cast<size_t>(options_.experts));
    const std::span begins(order + size + options_.experts, counts.size());
    sort(has_priority_ ? call.input<float>(1) + row * size : nullptr, order);
    std::ranges::fill(counts, 0);
    for (int64_t i = 0; i < size && per_block_ > 1; ++i) {
      if (experts[i] >= 0 && experts[i] < options_.experts) ++counts[static_cast<size_t>(experts[i])];
    }
    for (int64_t e = 0; e < options_.experts; ++e) {
      const auto i = static_cast<size_t>(e);
      begins[i] = e % per_block_ == 0 ? 0 : begins[i - 1] + counts[i - 1];
    }
    std::ranges::fill(counts, 0);
    for (int64_t block = 0; block < options_.block.size; ++block)
      std::fill_n(takers(call, block, row), capacity(), -1);
    std::fill_n(slots, size, -1);
    for (int64_t i = 0; i < size; ++i) take(call, row, order[i], experts, slots, counts, begins);
    store_offsets(call, row, counts, begins);
  }

  int32_t* takers(const KernelCall& call, int64_t block, int64_t row) const {
    return call.output<int32_t>(1) + (block * rows_ + row) * capacity();
  }

  /// The numbers token * choices + choice in the order in which places are given.
  void sort(const float* priority, int32_t* order) const {
    for (int64_t choice = 0; choice < choices_; ++choice) {
      for (int64_t token = 0; token < group_; ++token)
        order[choice * group_ + token] = static_cast<int32_t>(token * choices_ + choice);
    }
    if (priority == nullptr) return;
    const auto rank = [&](int32_t i) { return std::tuple(-priority[i], i % choices_, i / choices_); };
    std::sort(order, order + group_ * choices_, [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
  }

  void take(const KernelCall& call, int64_t row, int32_t taker, const int32_t* experts, int32_t* slots,
            std::span<int32_t> counts, std::span<const int32_t> begins) const {
    const int32_t expert = experts[taker];
    if (expert < 0 || expert >= options_.experts) return;
    if (options_.one_per_token) {
      const int32_t* of_token = slots + taker / choices_ * choices_;
      if (std::any_of(of_token, of_token + choices_, [](int32_t slot) { return slot >= 0; })) return;
    }
    const auto e = static_cast<size_t>(expert);
    const int64_t block = expert / per_block_, place = begins[e] + counts[e];
    if (place >= capacity()) return;
    ++counts[e];
    takers(call, block, row)[place] = taker;
    slots[taker] = static_cast<int32_t>(block * capacity() + place);
  }

  void store_offsets(const KernelCall& call, int64_t row, std::span<const int32_t> counts,
                     std::span<const int32_t> begins) const {
    for (int64_t block = 0; block < options_.block.size; ++block) {
      int32_t* offsets = call.output<int32_t>(2) + (block * rows_ + row) * (per_block_ + 1);
      for (int64_t e = 0; e < per_block_; ++e) {
        const auto i = static_cast<size_t>(block * per_block_ + e);
        offsets[e] = begins[i];
        offsets[e + 1] = begins[i] + counts[i];
      }
    }
  }

  SlotOptions options_;
  bool has_priority_;
  int64_t choices_ = 1, group_ = 1, rows_ = 1, per_block_ = 1;
};

template <class T>
MTF_INLINE void scale_row(const T* x, Computed<T> factor, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<T>(widen(x[i]) * factor);
}

template <class T>
MTF_INLINE void add_scaled_row(const T* x, Computed<T> factor, Computed<T>* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += widen(x[i]) * factor;
}

template <class T>
MTF_INLINE Computed<T> dot_row(const T* x, const T* y, int64_t n) {
  Computed<T> sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += widen(x[i]) * widen(y[i]);
  return sum;
}

int64_t rows_per_task(int64_t elements) { return std::max<int64_t>(1, kElementsPerTask / elements); }

template <class T>
std::unique_ptr<Kernel> dispatch_kernel(const KernelContext& context) {
  const RoutingSizes s(context.inputs[1], context.inputs[2], context.inputs[0]);
  const bool weighted = context.inputs.size() > 3;
  return make_kernel(s.places(), rows_per_task(s.vector),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const int64_t first = call.inputs[0].begin[s.group_axis] * s.choices;
                       const int32_t* takers = call.input<int32_t>(2);
                       for (int64_t place = begin; place < end; ++place) {
                         T* y = call.output<T>(0) + place * s.vector;
                         const int64_t taker = takers[place] - first;
                         if (takers[place] < 0 || taker < 0 || taker >= s.group * s.choices) {
                           std::fill_n(y, s.vector, T{});
                           continue;
                         }
                         const int64_t row = s.row_of_place(place);
                         const T* x = call.input<T>(0) + (row * s.group + taker / s.choices) * s.vector;
                         if (weighted) {
                           dispatched<scale_row<T>>(
                               x, call.input<Computed<T>>(3)[row * s.group * s.choices + taker], y, s.vector);
                         } else {
                           std::copy_n(x, s.vector, y);
                         }
                       }
                     });
}

/// Calls visit(choice, row of the table) for the choices of a token that have a place in this slice.
template <class T, class Visit>
void for_each_place(const RoutingSizes& s, int64_t token, const int32_t* slots, int64_t first_block,
                    const T* table, const Visit& visit) {
  for (int64_t choice = 0; choice < s.choices; ++choice) {
    const int64_t slot = slots[token * s.choices + choice];
    const int64_t block = slot / s.capacity - first_block;
    if (slot < 0 || block < 0 || block >= s.blocks) continue;
    const int64_t place = (block * s.rows + token / s.group) * s.capacity + slot % s.capacity;
    visit(choice, table + place * s.vector);
  }
}

template <class T>
std::unique_ptr<Kernel> combine_kernel(const KernelContext& context) {
  using C = Computed<T>;
  const RoutingSizes s(context.inputs[1], context.inputs[2], context.inputs[0]);
  const bool weighted = context.inputs.size() > 3;
  const auto body = [=](const KernelCall& call, int64_t begin, int64_t end) {
    C* sum = reinterpret_cast<C*>(call.scratch);
    for (int64_t token = begin; token < end; ++token) {
      std::fill_n(sum, s.vector, C{});
      for_each_place(s, token, call.input<int32_t>(1), call.inputs[0].begin[0], call.input<T>(0),
                     [&](int64_t choice, const T* row) {
                       const C weight = weighted ? call.input<C>(3)[token * s.choices + choice] : C(1);
                       dispatched<add_scaled_row<T>>(row, weight, sum, s.vector);
                     });
      T* y = call.output<T>(0) + token * s.vector;
      std::transform(sum, sum + s.vector, y, [](C value) { return narrow<T>(value); });
    }
  };
  return make_kernel(s.tokens(), rows_per_task(s.vector * s.choices), body,
                     sizeof(C) * static_cast<size_t>(s.vector));
}

template <class T>
std::unique_ptr<Kernel> choice_products_kernel(const KernelContext& context) {
  using C = Computed<T>;
  const RoutingSizes s(context.inputs[2], context.inputs[3], context.inputs[1]);
  return make_kernel(s.tokens(), rows_per_task(s.vector * s.choices),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       std::fill(call.output<C>(0) + begin * s.choices, call.output<C>(0) + end * s.choices,
                                 C{});
                       for (int64_t token = begin; token < end; ++token) {
                         const T* y = call.input<T>(0) + token * s.vector;
                         for_each_place(s, token, call.input<int32_t>(2), call.inputs[1].begin[0],
                                        call.input<T>(1), [&](int64_t choice, const T* row) {
                                          call.output<C>(0)[token * s.choices + choice] =
                                              dispatched<dot_row<T>>(y, row, s.vector);
                                        });
                       }
                     });
}

const KernelRegistration assign_slots_kernel("assign_slots", {DType::kInt32},
                                             [](const KernelContext& context) {
                                               return std::make_unique<AssignSlotsKernel>(context);
                                             });

template <class T>
struct RoutingKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration dispatch{"dispatch", {dtype}, dispatch_kernel<T>};
  KernelRegistration combine{"combine", {dtype}, combine_kernel<T>};
  KernelRegistration products{"choice_products", {dtype}, choice_products_kernel<T>};
};
const RoutingKernels<float> routing_f32;
const RoutingKernels<BFloat16> routing_bf16;
const RoutingKernels<double> routing_f64;

}  // namespace
}  // namespace mtf
