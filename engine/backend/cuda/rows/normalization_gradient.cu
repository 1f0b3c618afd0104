// Gradients of layer norm and RMS norm with respect to x, and with respect to the parameters in the same walk over
// the rows, where rows fit into the registers of a block; otherwise in launches of their own.
#include "engine/backend/cuda/rows/normalization_parameters.h"
#include "engine/backend/cuda/rows/row_functions.h"
#include "engine/ops/normalization.h"

namespace mtf::cuda {
namespace {

/// With g = dy * scale and n = (x - mean) * rstd: dx = rstd * (g - mean of g [if centered] - n * mean of g *
/// n) + addend, which is null unless it is fused.
template <class T>
struct NormGradientOperands : NormalizedOperands<T> {
  using A = Computed<T>;
  const T *scale, *addend;
  T* dx;
  A length;

  struct Means {
    A g, product;
  };
  /// From the sums of g and of g * n.
  MTF_DEVICE Means means_of(A sum, A product) const {
    return {this->means != nullptr ? sum / length : A(0), product / length};
  }
  /// An element of dx. `more` is that of the addend.
  MTF_DEVICE A result(A x, A g, const typename NormalizedOperands<T>::Row& row, const Means& means,
                      A more) const {
    const A d = row.rstd * (g - means.g - row.normal(x) * means.product);
    return addend != nullptr ? Math::rounded_sum(widen(narrow<T>(d)), more) : d;
  }
};

/// For any rows.
template <class T>
struct NormGradientRows : RowOperands<T, 2> {
  using A = Computed<T>;
  static constexpr bool kReduces = true, kMaps = true;
  struct State {
    A sum = 0, product = 0;

    template <class Each>
    MTF_DEVICE State each(Each f) const {
      const A new_sum = f(sum);
      return {new_sum, f(product)};
    }
  };
  struct Row {
    RowPlace place;
    typename NormalizedOperands<T>::Row norm;
    typename NormGradientOperands<T>::Means means;
  };

  NormGradientOperands<T> operands;

  MTF_DEVICE Row begin(const RowPlace& place) const { return {place, operands.row(place.row), {}}; }
  MTF_DEVICE State identity(const Row&) const { return {}; }
  template <class E>
  MTF_DEVICE void take(const Row& row, State& state, const E& e) const {
    A g[E::kCount];
    load_g(row, e, g);
    State some;
    for (int n = 0; n < E::kCount; ++n) {
      some.sum += g[n];
      some.product += g[n] * row.norm.normal(e.in[0][n]);
    }
    state = combine(state, some);
  }
  static MTF_DEVICE State combine(const State& a, const State& b) {
    return {a.sum + b.sum, a.product + b.product};
  }
  MTF_DEVICE void finish(Row& row, int64_t, const State& state, bool) const {
    row.means = operands.means_of(state.sum, state.product);
  }
  template <class E>
  MTF_DEVICE void apply(const Row& row, const E& e, A (&dx)[E::kCount]) const {
    A g[E::kCount], more[E::kCount] = {};
    load_g(row, e, g);
    if (operands.addend != nullptr)
      load_row_elements(e, operands.addend + row.place.offset, row.place.stride, more);
    for (int n = 0; n < E::kCount; ++n)
      dx[n] = operands.result(e.in[0][n], g[n], row.norm, row.means, more[n]);
  }

 private:
  template <class E>
  MTF_DEVICE void load_g(const Row& row, const E& e, A (&g)[E::kCount]) const {
    load_parameters(e, operands.scale, g);
    for (int n = 0; n < E::kCount; ++n) g[n] = Math::rounded_product(row.norm.masked(e.in[1][n]), g[n]);
  }
};

/// For WalkedRows. A block walks over its part of the rows; a thread keeps the same columns of each, and sums them
/// for kSums parameters.
template <class T, int kSums>
struct NormGradientWalk {
  using A = Computed<T>;
  using Row = typename NormalizedOperands<T>::Row;
  static constexpr int N = kPack<T>, kPacks = WalkedRows::kPacks, kMaxThreads = WalkedRows::kWarps * kWarp;
  using Slots = SlotSums<A, N, std::max(kSums, 1)>;

  NormGradientOperands<T> in;
  A* partials;
  int64_t rows;
  int columns, warps;  ///< warps that have a row
  RowParts cut;

  LaunchShape shape() const {
    const int64_t states = warps > 1 ? 2 * 2 * WalkedRows::kWarps * static_cast<int64_t>(sizeof(A)) : 0;
    return {cut.parts, kMaxThreads, std::max(states, kSums > 0 ? Slots::bytes(cut.slots, columns) : 0)};
  }

  MTF_DEVICE void operator()(const Block& block) const {
    const int slot = block.warp() / warps;
    const int64_t begin = block.index() * cut.rows, end = std::min(rows, begin + cut.rows);
    A sums[std::max(kSums, 1)][kPacks][N] = {};
    int step = 0;
    for (int64_t first = begin; first < end; first += cut.slots) walk(block, first + slot, end, step++, sums);
    if constexpr (kSums > 0) {
      block.sync();
      Slots slots(block, columns / N);
      MTF_UNROLL(kSums)
      for (int s = 0; s < kSums; ++s)
        for_each_pack(block, [&](int p, int column) { slots.put(slot, s, column / N, sums[s][p]); });
      slots.finish(cut.slots, columns / N, partials + block.index() * kSums * columns, columns);
    }
  }

 private:
  /// Calls visit(p, first column) for the thread's packs of a row.
  template <class Visit>
  MTF_DEVICE void for_each_pack(const Block& block, const Visit& visit) const {
    const int thread = block.warp() % warps * kWarp + block.lane();
    MTF_UNROLL(kPacks)
    for (int p = 0; p < kPacks; ++p) {
      const int column = (p * warps * kWarp + thread) * N;
      if (column < columns) visit(p, column);
    }
  }

  /// Row r, if it is before `end`. `step` is the number of the call.
  MTF_DEVICE void walk(const Block& block, int64_t r, int64_t end, int step,
                       A (&sums)[std::max(kSums, 1)][kPacks][N]) const {
    const bool exists = r < end;
    const Row row = exists ? in.row(r) : Row{0, 0, 0};
    const int64_t offset = r * columns;
    Pack<T, N> x[kPacks] = {}, dy[kPacks] = {}, more[kPacks] = {};
    if (exists) {
      for_each_pack(block, [&](int p, int column) {
        x[p] = load<N>(in.x + offset + column);
        dy[p] = load<N>(in.dy + offset + column);
        if (in.addend != nullptr) more[p] = load<N>(in.addend + offset + column);
      });
    }
    A sum = 0, product = 0;
    for_each_pack(block, [&](int p, int column) {
      const auto scale = load<N>(in.scale + column);
      for (int n = 0; n < N; ++n) {
        const A masked = row.masked(widen(dy[p][n])), g = Math::rounded_product(masked, widen(scale[n]));
        dy[p][n] = narrow<T>(masked);
        sum += g;
        product += g * row.normal(widen(x[p][n]));
      }
    });
    const typename NormGradientOperands<T>::Means means = total(block, sum, product, step);
    if (!exists) return;
    for_each_pack(block, [&](int p, int column) {
      Pack<T, N> dx, scale = load<N>(in.scale + column);
      compute_anew(x[p]);
      compute_anew(dy[p]);
      compute_anew(scale);
      for (int n = 0; n < N; ++n) {
        const A masked = widen(dy[p][n]), wide = widen(x[p][n]);
        const A g = Math::rounded_product(masked, widen(scale[n]));
        dx[n] = narrow<T>(in.result(wide, g, row, means, widen(more[p][n])));
        if constexpr (kSums > 0) sums[0][p][n] += masked * row.normal(wide);
        if constexpr (kSums > 1) sums[1][p][n] += masked;
      }
      store(in.dx + offset + column, dx);
    });
  }

  /// The means over a row, from the sums of its threads. Two steps use different shared memory, so that there is
  /// one barrier in each.
  MTF_DEVICE typename NormGradientOperands<T>::Means total(const Block& block, A sum, A product,
                                                           int step) const {
    sum = reduce_warp(block, sum, Sum());
    product = reduce_warp(block, product, Sum());
    if (warps == 1) return in.means_of(sum, product);
    A* shared = block.shared<A>() + step % 2 * 2 * WalkedRows::kWarps;
    if (block.lane() == 0) {
      shared[2 * block.warp()] = sum;
      shared[2 * block.warp() + 1] = product;
    }
    block.sync();
    const int first = block.warp() / warps * warps;
    sum = product = 0;
    for (int warp = first; warp < first + warps; ++warp) {
      sum += shared[2 * warp];
      product += shared[2 * warp + 1];
    }
    return in.means_of(sum, product);
  }
};

/// Computes dx, and the gradients of the parameters if they are fused.
template <class T>
class NormGradientLaunches {
 public:
  using A = Computed<T>;

  NormGradientLaunches(const NormalizationGradient& operation, const LocalTensor& x)
      : rows_(rows_along(x, operation.dimension)),
        centered_(operation.centered()),
        fused_(operation.fused),
        mask_(operation.mask_input()),
        addend_(operation.addend_input()),
        walks_(WalkedRows::fit<T>(rows_)),
        plan_(plan_rows<NormGradientRows<T>>(rows_)),
        sums_(rows_, centered_) {}
  size_t scratch_bytes() const {
    return std::max(fused_.parameters ? sums_.scratch_bytes() : 0, walks_ ? 0 : plan_.scratch);
  }

  void operator()(const Launcher& launch, const KernelCall& call) const {
    NormGradientOperands<T> in{
        {call.input<T>(0), call.input<T>(2), call.input<A>(3), centered_ ? call.input<A>(4) : nullptr,
         fused_.mask ? call.input<T>(mask_) : nullptr},
        call.input<T>(1),
        fused_.addend ? call.input<T>(addend_) : nullptr,
        call.output<T>(0),
        static_cast<A>(rows_.length)};
    A* d_scale = fused_.parameters ? call.output<A>(1) : nullptr;
    A* d_bias = fused_.parameters && centered_ ? call.output<A>(2) : nullptr;
    if constexpr (!std::is_same_v<T, double>) {
      if (walks_) {
        auto* partials = reinterpret_cast<A*>(call.scratch);
        if (!fused_.parameters) return walk<0>(launch, in, nullptr);
        centered_ ? walk<2>(launch, in, partials) : walk<1>(launch, in, partials);
        return sums_.add_parts(launch, partials, d_scale, d_bias);
      }
    }
    // dx may overwrite dy, which the sums read.
    if (fused_.parameters) sums_(launch, in, call.scratch, d_scale, d_bias);
    launch_rows(launch, plan_, NormGradientRows<T>{{{in.x, in.dy}, in.dx}, in}, call.scratch);
  }

 private:
  template <int kSums>
  void walk(const Launcher& launch, const NormGradientOperands<T>& in, A* partials) const {
    const NormGradientWalk<T, kSums> body{in,
                                          partials,
                                          rows_.count,
                                          static_cast<int>(rows_.length),
                                          WalkedRows::warps_of(rows_.length / kPack<T>),
                                          RowParts::of<T>(rows_)};
    launch(body.shape(), body);
  }

  Rows rows_;
  bool centered_;
  FusedIntoNorm fused_;
  int mask_, addend_;  ///< inputs
  bool walks_;
  RowPlan plan_;
  ParameterSums<T> sums_;
};

template <class T>
std::unique_ptr<Kernel> normalization_gradient_kernel(const KernelContext& context, Device& device) {
  const NormGradientLaunches<T> launches(static_cast<const NormalizationGradient&>(context.operation),
                                         context.inputs[0]);
  return make_device_kernel(device, launches, launches.scratch_bytes());
}

template <class T>
struct NormalizationGradientKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration layer{"layer_norm_gradient", {dtype}, normalization_gradient_kernel<T>};
  DeviceKernelRegistration rms{"rms_norm_gradient", {dtype}, normalization_gradient_kernel<T>};
};
const NormalizationGradientKernels<float> normalization_gradient_f32;
const NormalizationGradientKernels<double> normalization_gradient_f64;
const NormalizationGradientKernels<BFloat16> normalization_gradient_bf16;

}  // namespace
}  // namespace mtf::cuda
