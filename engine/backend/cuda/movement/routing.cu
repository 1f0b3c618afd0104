// Kernels of assign_slots, dispatch, combine and choice_products.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"
#include "engine/backend/routing_sizes.h"
#include "engine/ops/routing.h"

namespace mtf::cuda {
namespace {

/// One block gives the places of one row. A thread handles experts: it visits the choices of the row in order and gives
/// its experts' places. With priorities a thread handles choices, and counts those that come before.
struct AssignPlaces {
  const int32_t* experts;
  const float* priority;  ///< may be null
  int32_t *slots, *takers, *offsets;
  int64_t rows;
  int group, choices, experts_in_all, per_block, capacity;
  bool one_per_token;

  /// How many places each expert gives, where its first one is in its block, and whether a token has one.
  static int64_t shared_bytes(int64_t experts, int64_t group) {
    return 2 * experts * static_cast<int64_t>(sizeof(int32_t)) + group;
  }

  MTF_DEVICE void operator()(const Block& block) const {
    const int size = group * choices;
    const Row row{experts + block.index() * size,
                  priority == nullptr ? nullptr : priority + block.index() * size,
                  slots + block.index() * size,
                  block.shared<int32_t>(),
                  block.shared<int32_t>() + experts_in_all,
                  block.shared<unsigned char>(2 * experts_in_all * static_cast<int64_t>(sizeof(int32_t)))};
    for (int e = block.thread(); e < experts_in_all; e += block.threads()) row.counts[e] = count(row, e);
    for (int token = block.thread(); token < group; token += block.threads()) row.placed[token] = 0;
    block.sync();
    for (int e = block.thread(); e < experts_in_all; e += block.threads()) {
      int begin = 0;
      for (int before = e / per_block * per_block; before < e; ++before) begin += row.counts[before];
      row.begins[e] = begin;
    }
    block.sync();
    if (priority != nullptr) {
      for (int i = block.thread(); i < size; i += block.threads()) give_by_priority(block, row, i);
    } else {
      give_in_order(block, row);
    }
    for (int i = block.thread(); i < size; i += block.threads()) {
      if (!is_expert(row.experts[i])) row.slots[i] = -1;
    }
    block.sync();
    for (int e = block.thread(); e < experts_in_all; e += block.threads()) finish(block, row, e);
  }

 private:
  struct Row {
    const int32_t* experts;
    const float* priority;
    int32_t* slots;
    int32_t *counts, *begins;
    unsigned char* placed;
  };

  MTF_DEVICE bool is_expert(int32_t e) const { return e >= 0 && e < experts_in_all; }

  MTF_DEVICE int count(const Row& row, int expert) const {
    if (per_block == 1 && priority == nullptr) return 0;  // give_in_order() counts
    int n = 0;
    for (int i = 0; i < group * choices; ++i) n += row.experts[i] == expert ? 1 : 0;
    return n;
  }

  MTF_DEVICE int32_t* takers_of(const Block& block, int expert) const {
    return takers + (expert / per_block * rows + block.index()) * capacity;
  }

  MTF_DEVICE void give(const Block& block, const Row& row, int expert, int place, int taker) const {
    const bool fits = place < capacity;
    row.slots[taker] = fits ? expert / per_block * capacity + place : -1;
    if (!fits) return;
    takers_of(block, expert)[place] = taker;
    row.placed[taker / choices] = 1;
  }

  /// Afterwards `counts` has what each expert gave, places that do not fit included.
  MTF_DEVICE void give_in_order(const Block& block, const Row& row) const {
    for (int e = block.thread(); e < experts_in_all; e += block.threads()) row.counts[e] = 0;
    for (int choice = 0; choice < choices; ++choice) {
      for (int e = block.thread(); e < experts_in_all; e += block.threads()) {
        for (int token = 0; token < group; ++token) {
          const int taker = token * choices + choice;
          if (row.experts[taker] != e) continue;
          if (one_per_token && row.placed[token] != 0) {
            row.slots[taker] = -1;
          } else {
            give(block, row, e, row.begins[e] + row.counts[e]++, taker);
          }
        }
      }
      block.sync();
    }
  }

  MTF_DEVICE void give_by_priority(const Block& block, const Row& row, int taker) const {
    const int expert = row.experts[taker];
    if (!is_expert(expert)) return;
    int before = 0;
    for (int i = 0; i < group * choices; ++i) {
      if (row.experts[i] != expert) continue;
      const float p = row.priority[i], mine = row.priority[taker];
      const bool earlier = i % choices < taker % choices || (i % choices == taker % choices && i < taker);
      before += p > mine || (p == mine && earlier) ? 1 : 0;
    }
    give(block, row, expert, row.begins[expert] + before, taker);
  }

  /// Writes where the rows of an expert begin and end, and that nobody takes the places behind the block's last ones.
  MTF_DEVICE void finish(const Block& block, const Row& row, int expert) const {
    const int last = row.begins[expert] + row.counts[expert], in_block = expert % per_block;
    const int end = last < capacity ? last : capacity;
    int32_t* of_block = offsets + (expert / per_block * rows + block.index()) * (per_block + 1);
    if (in_block == 0) of_block[0] = 0;
    of_block[in_block + 1] = end;
    if (in_block + 1 < per_block) return;
    for (int place = end; place < capacity; ++place) takers_of(block, expert)[place] = -1;
  }
};

std::unique_ptr<Kernel> assign_slots_kernel(const KernelContext& context, Device& device) {
  const SlotOptions& options = static_cast<const AssignSlots&>(context.operation).options;
  const Shape& expert = context.inputs[0].local;
  const int64_t choices = expert[expert.rank() - 1].size, group = expert[expert.rank() - 2].size;
  const int64_t rows = expert.size() / (group * choices);
  const bool by_priority = context.inputs.size() > 1;
  const LaunchShape shape{rows, kThreads, AssignPlaces::shared_bytes(options.experts, group)};
  const AssignPlaces places{nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            rows,
                            static_cast<int>(group),
                            static_cast<int>(choices),
                            static_cast<int>(options.experts),
                            static_cast<int>(options.experts / options.block.size),
                            static_cast<int>(options.capacity.size),
                            options.one_per_token};
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    AssignPlaces kernel = places;
    kernel.experts = call.input<int32_t>(0);
    if (by_priority) kernel.priority = call.input<float>(1);
    kernel.slots = call.output<int32_t>(0);
    kernel.takers = call.output<int32_t>(1);
    kernel.offsets = call.output<int32_t>(2);
    launch(shape, kernel);
  });
}

template <class T, int N>
struct DispatchRows {
  const T* x;
  const int32_t* takers;
  const Computed<T>* weights;  ///< may be null
  T* y;
  RoutingSizes sizes;
  int64_t first;  ///< the number of the slice's first choice among those of the group
  Divisor packs;  ///< of a row

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t count = sizes.places() * packs.value();
    for (int64_t i = block.first(); i < count; i += block.stride()) {
      const Division at = packs(i);
      const int64_t place = at.quotient, taker = takers[place] - first;
      Pack<T, N> row{};
      if (takers[place] >= 0 && taker >= 0 && taker < sizes.group * sizes.choices) {
        const int64_t of_row = sizes.row_of_place(place);
        row = load<N>(x + (of_row * sizes.group + taker / sizes.choices) * sizes.vector + at.remainder * N);
        if (weights != nullptr) {
          const Computed<T> weight = weights[of_row * sizes.group * sizes.choices + taker];
          MTF_UNROLL(N)
          for (int n = 0; n < N; ++n) row[n] = narrow<T>(widen(row[n]) * weight);
        }
      }
      store(y + i * N, row);
    }
  }
};

/// The first element of the table's row at place `slot` of the blocks of a row of tokens; null: the slice has none.
template <class T>
MTF_DEVICE const T* row_at(const RoutingSizes& sizes, const T* table, int64_t row, int64_t slot,
                           int64_t first_block) {
  const int64_t block = slot / sizes.capacity - first_block;
  if (slot < 0 || block < 0 || block >= sizes.blocks) return nullptr;
  return table + ((block * sizes.rows + row) * sizes.capacity + slot % sizes.capacity) * sizes.vector;
}

template <class T, int N>
struct CombineRows {
  using C = Computed<T>;
  const T* table;
  const int32_t* slots;
  const C* weights;  ///< may be null
  T* y;
  RoutingSizes sizes;
  int64_t first_block;
  Divisor packs;  ///< of a row

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t count = sizes.tokens() * packs.value();
    for (int64_t i = block.first(); i < count; i += block.stride()) {
      const Division at = packs(i);
      C sums[N] = {};
      for (int64_t choice = at.quotient * sizes.choices; choice < (at.quotient + 1) * sizes.choices;
           ++choice) {
        const T* row = row_at(sizes, table, at.quotient / sizes.group, slots[choice], first_block);
        if (row == nullptr) continue;
        const Pack<T, N> pack = load<N>(row + at.remainder * N);
        const C weight = weights != nullptr ? weights[choice] : C(1);
        MTF_UNROLL(N)
        for (int n = 0; n < N; ++n) sums[n] += widen(pack[n]) * weight;
      }
      Pack<T, N> result;
      MTF_UNROLL(N)
      for (int n = 0; n < N; ++n) result[n] = narrow<T>(sums[n]);
      store(y + i * N, result);
    }
  }
};

/// A warp multiplies the rows of one choice.
template <class T>
struct MultiplyRows {
  using C = Computed<T>;
  const T *y, *table;
  const int32_t* slots;
  C* products;
  RoutingSizes sizes;
  int64_t first_block;

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t choice = block.index() * kWarps + block.warp();
    if (choice >= sizes.tokens() * sizes.choices) return;
    const int64_t token = choice / sizes.choices;
    const T* row = row_at(sizes, table, token / sizes.group, slots[choice], first_block);
    C sum{};
    for (int64_t i = block.lane(); row != nullptr && i < sizes.vector; i += kWarp)
      sum += widen(y[token * sizes.vector + i]) * widen(row[i]);
    sum = reduce_warp(block, sum, Sum{});
    if (block.lane() == 0) products[choice] = sum;
  }
};

/// Calls make(std::integral_constant<int, N>()) with the number of elements of a row that a thread handles at once.
template <class T, class Make>
std::unique_ptr<Kernel> in_packs(int64_t vector, const Make& make) {
  if constexpr (!std::is_same_v<T, double>) {
    if (vector % kPack<T> == 0) return make(std::integral_constant<int, kPack<T>>());
  }
  return make(std::integral_constant<int, 1>());
}

template <class T>
std::unique_ptr<Kernel> dispatch_kernel(const KernelContext& context, Device& device) {
  const RoutingSizes s(context.inputs[1], context.inputs[2], context.inputs[0]);
  const bool weighted = context.inputs.size() > 3;
  return in_packs<T>(s.vector, [&]<int N>(std::integral_constant<int, N>) {
    const Divisor packs(s.vector / N, s.places() * s.vector / N);
    return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
      launch(over(s.places() * packs.value(), N == 1 ? kElementsPerThread : 1),
             DispatchRows<T, N>{call.input<T>(0), call.input<int32_t>(2),
                                weighted ? call.input<Computed<T>>(3) : nullptr, call.output<T>(0), s,
                                call.inputs[0].begin[s.group_axis] * s.choices, packs});
    });
  });
}

template <class T>
std::unique_ptr<Kernel> combine_kernel(const KernelContext& context, Device& device) {
  const RoutingSizes s(context.inputs[1], context.inputs[2], context.inputs[0]);
  const bool weighted = context.inputs.size() > 3;
  return in_packs<T>(s.vector, [&]<int N>(std::integral_constant<int, N>) {
    const Divisor packs(s.vector / N, s.tokens() * s.vector / N);
    return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
      launch(over(s.tokens() * packs.value(), N == 1 ? kElementsPerThread : 1),
             CombineRows<T, N>{call.input<T>(0), call.input<int32_t>(1),
                               weighted ? call.input<Computed<T>>(3) : nullptr, call.output<T>(0), s,
                               call.inputs[0].begin[0], packs});
    });
  });
}

template <class T>
std::unique_ptr<Kernel> choice_products_kernel(const KernelContext& context, Device& device) {
  const RoutingSizes s(context.inputs[2], context.inputs[3], context.inputs[1]);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch({(s.tokens() * s.choices + kWarps - 1) / kWarps},
           MultiplyRows<T>{call.input<T>(0), call.input<T>(1), call.input<int32_t>(2),
                           call.output<Computed<T>>(0), s, call.inputs[1].begin[0]});
  });
}

const DeviceKernelRegistration assign_slots_i32("assign_slots", {DType::kInt32}, assign_slots_kernel);

template <class T>
struct RoutingKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration dispatch{"dispatch", {dtype}, dispatch_kernel<T>};
  DeviceKernelRegistration combine{"combine", {dtype}, combine_kernel<T>};
  DeviceKernelRegistration products{"choice_products", {dtype}, choice_products_kernel<T>};
};
const RoutingKernels<float> routing_f32;
const RoutingKernels<BFloat16> routing_bf16;
const RoutingKernels<double> routing_f64;

}  // namespace
}  // namespace mtf::cuda
