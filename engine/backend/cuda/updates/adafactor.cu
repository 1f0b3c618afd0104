// The passes of Adafactor over gradient, weight and moments, except the sums (adafactor_sums.cu): flat loops
// over packs, with the offsets of the smaller operands from a walk. Outputs may overwrite inputs.
#include <array>
#include <cmath>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/partial_sums.h"
#include "engine/backend/element.h"
#include "engine/ops/adafactor.h"

namespace mtf::cuda {
namespace {

template <class A>
struct SecondMoment {
  static constexpr bool kBatched = true;
  const A *v, *g, *decay;
  A* new_v;
  A epsilon1;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    const A old = *decay, rest = 1 - old;
    constexpr int N = kPack<A>;
    for_each_pack<N>(block, size, [&](int64_t first, int count) {
      Pack<A, N> moment = load<N>(v + first, count);
      const Pack<A, N> gradient = load<N>(g + first, count);
      for (int i = 0; i < N; ++i) moment[i] = old * moment[i] + rest * (gradient[i] * gradient[i] + epsilon1);
      store(new_v + first, moment, count);
    });
  }
};

/// Iteration over the elements of a tensor (operand 0) together with smaller operands.
using Walk = Strided<4>;

/// The strides of null operands, and along dimensions that an operand lacks, are 0.
Walk walk_over(const std::array<const LocalTensor*, 4>& operands) {
  StridedAxes<4> axes;
  for (const Dimension& d : operands[0]->local) {
    StridedAxis<4> axis{d.size, {}};
    for (int i = 0; i < 4; ++i) {
      const std::optional<int> position = operands[i] ? operands[i]->local.find(d.name) : std::nullopt;
      if (position) axis.strides[i] = operands[i]->local.strides()[*position];
    }
    axes.push_back(axis);
  }
  return Walk(joined(axes));
}

/// True if packs of `count` elements are contiguous, or a single element, in every operand. In a walk along
/// one axis the last pack may be shorter.
bool walks_in_packs(const Walk& walk, int64_t count) {
  if (walk.rank() <= 1) return true;
  for (int i = 0; i < 4; ++i) {
    if (walk.inner_stride(i) != 0 && !walk.in_packs(i, count)) return false;
  }
  return walk.inner_size() % count == 0;
}

/// Loads a pack, or repeats the same element if the stride is 0.
template <int N, class A>
MTF_DEVICE Pack<A, N> load_along(const A* data, int64_t stride, int count) {
  if (stride != 0) return load<N>(data, count);
  Pack<A, N> pack;
  for (int i = 0; i < N; ++i) pack[i] = *data;
  return pack;
}

/// The unscaled update: g * first * second, or g / sqrt(first). Operands 1 and 2 of the walk are the factors.
template <class A>
struct Update {
  const A *g, *first, *second;  ///< `second` is null for v

  template <int N>
  MTF_DEVICE Pack<A, N> at(const Walk& walk, const Offsets<4>& at, int count) const {
    Pack<A, N> update = load<N>(g + at[0], count);
    const Pack<A, N> factor = load_along<N>(first + at[1], walk.inner_stride(1), count);
    if (second == nullptr) {
      for (int i = 0; i < N; ++i) update[i] /= std::sqrt(factor[i]);
    } else {
      const Pack<A, N> other = load_along<N>(second + at[2], walk.inner_stride(2), count);
      for (int i = 0; i < N; ++i) update[i] = update[i] * factor[i] * other[i];
    }
    return update;
  }
};

/// Sums the squares of the update, by tile.
template <class A, int N>
struct UpdateSquares {
  static constexpr bool kBatched = true;
  Update<A> update;
  Walk walk;
  TileCut cut;
  double* partials;

  MTF_DEVICE void operator()(const Block& block) const {
    const TileCut::Tile tile = cut.of_block(block.index());
    double sum = 0;
    for (int64_t first = tile.begin + block.thread() * N; first < tile.end; first += kThreads * N) {
      const int count = static_cast<int>(std::min<int64_t>(N, tile.end - first));
      const Pack<A, N> x = update.template at<N>(walk, walk.at(first), count);
      for (int i = 0; i < N; ++i) {
        if (i < count) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      }
    }
    sum = reduce_block(block, sum, Sum{}, block.shared<double>());
    if (block.thread() == 0) partials[tile.tile] = sum;
  }
};

template <class T, int N>
struct Apply {
  static constexpr bool kBatched = true;
  using A = Computed<T>;
  Update<A> update;
  Walk walk;  ///< operand 3: the scale
  const T* w;
  const A *scale, *m;  ///< m: null without momentum
  T* new_w;
  A* new_m;
  A beta1, rest1;  ///< rest1 = 1 - beta1

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_pack<N>(block, walk.size(), [&](int64_t first, int count) {
      const Offsets<4> at = walk.at(first);
      Pack<A, N> x = update.template at<N>(walk, at, count);
      const Pack<A, N> factor = load_along<N>(scale + at[3], walk.inner_stride(3), count);
      Pack<T, N> weight = load<N>(w + first, count);
      for (int i = 0; i < N; ++i) x[i] *= factor[i];
      if (m != nullptr) {
        const Pack<A, N> moment = load<N>(m + first, count);
        for (int i = 0; i < N; ++i) x[i] = beta1 * moment[i] + rest1 * x[i];
        store(new_m + first, x, count);
      }
      for (int i = 0; i < N; ++i) weight[i] = narrow<T>(widen(weight[i]) - x[i]);
      store(new_w + first, weight, count);
    });
  }
};

template <class A>
std::unique_ptr<Kernel> second_moment_kernel(const KernelContext& context, Device& device) {
  const int64_t size = context.outputs[0].local.size();
  const A epsilon1 = static_cast<A>(static_cast<const AdafactorSecondMoment&>(context.operation).epsilon1);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<A>>(size), SecondMoment<A>{call.input<A>(0), call.input<A>(1), call.input<A>(2),
                                                       call.output<A>(0), epsilon1, size});
  });
}

template <class A, int N>
std::unique_ptr<Kernel> squares_kernel(const KernelContext& context, Device& device, const Walk& walk) {
  const bool factored = context.inputs.size() == 3;
  const int64_t blocks = context.outputs[0].local.size();
  const TileCut cut(1, walk.size());
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        auto* partials = reinterpret_cast<double*>(call.scratch);
        const Update<A> update{call.input<A>(0), call.input<A>(1), factored ? call.input<A>(2) : nullptr};
        launch({cut.blocks(1), kThreads, kWarps * static_cast<int64_t>(sizeof(double))},
               UpdateSquares<A, N>{update, walk, cut, partials});
        const AddTiles<1> add{{{partials, cut.tiles(), 1, call.output<double>(0)}}, blocks};
        launch(over(add.size(), 1), add);
      },
      static_cast<size_t>(cut.tiles()) * sizeof(double));
}

template <class A>
std::unique_ptr<Kernel> squares_kernel(const KernelContext& context, Device& device) {
  const bool factored = context.inputs.size() == 3;
  const Walk walk =
      walk_over({&context.inputs[0], &context.inputs[1], factored ? &context.inputs[2] : nullptr, nullptr});
  return walks_in_packs(walk, kPack<A>) ? squares_kernel<A, kPack<A>>(context, device, walk)
                                        : squares_kernel<A, 1>(context, device, walk);
}

template <class T, int N>
std::unique_ptr<Kernel> apply_kernel(const KernelContext& context, Device& device, const Walk& walk) {
  using A = Computed<T>;
  const auto& operation = static_cast<const AdafactorApply&>(context.operation);
  const int first = operation.first_factor();
  const bool factored = static_cast<int>(context.inputs.size()) == first + 2, moving = operation.beta1 > 0;
  const A beta1 = static_cast<A>(operation.beta1), rest1 = static_cast<A>(1 - operation.beta1);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    const Update<A> update{call.input<A>(1), call.input<A>(first),
                           factored ? call.input<A>(first + 1) : nullptr};
    launch(over_packs<N>(walk.size()),
           Apply<T, N>{update, walk, call.input<T>(0), call.input<A>(2), moving ? call.input<A>(3) : nullptr,
                       call.output<T>(0), moving ? call.output<A>(1) : nullptr, beta1, rest1});
  });
}

template <class T>
std::unique_ptr<Kernel> apply_kernel(const KernelContext& context, Device& device) {
  const int first = static_cast<const AdafactorApply&>(context.operation).first_factor();
  const bool factored = static_cast<int>(context.inputs.size()) == first + 2;
  const Walk walk = walk_over({&context.inputs[0], &context.inputs[first],
                               factored ? &context.inputs[first + 1] : nullptr, &context.inputs[2]});
  return walks_in_packs(walk, kPack<T>) ? apply_kernel<T, kPack<T>>(context, device, walk)
                                        : apply_kernel<T, 1>(context, device, walk);
}

/// Registers the operation that is keyed by the weight's dtype.
template <class T>
struct WeightRegistrations {
  DeviceKernelRegistration apply{"adafactor_apply", {DTypeOf<T>::value}, apply_kernel<T>};
};
/// Registers the operations that are keyed by the slots' dtype.
template <class A>
struct SlotRegistrations {
  static constexpr DType dtype = DTypeOf<A>::value;
  DeviceKernelRegistration second_moment{"adafactor_second_moment", {dtype}, second_moment_kernel<A>};
  DeviceKernelRegistration squares{"adafactor_update_squares", {dtype}, squares_kernel<A>};
};
const WeightRegistrations<float> weights_f32;
const WeightRegistrations<double> weights_f64;
const WeightRegistrations<BFloat16> weights_bf16;
const SlotRegistrations<float> slots_f32;
const SlotRegistrations<double> slots_f64;

}  // namespace
}  // namespace mtf::cuda
