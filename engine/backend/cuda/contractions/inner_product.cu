#include <algorithm>

#include "engine/backend/cuda/contractions/inner_product.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"

namespace mtf::cuda {
namespace {

/// The axes with the strides of some of the operands.
template <size_t... kOperands>
StridedAxes<sizeof...(kOperands)> along(const ContractionAxes& axes) {
  StridedAxes<sizeof...(kOperands)> result;
  for (const auto& [size, strides] : axes) result.push_back({size, {strides[kOperands]...}});
  return result;
}

/// y[j] = sum over k of a[j, k] b[j, k]. The sum is cut into chunks; a thread, or a warp along the summed
/// axes, computes one chunk of one entry j.
template <class T, class Out, int kThreads>
struct InnerProduct {
  using A = Computed<T>;
  const T *a, *b;
  Out* y;
  A* partial;          ///< [entries, chunks]; null if there is one chunk
  Strided<3> entries;  ///< strides of a, b, y
  Strided<2> summed;   ///< strides of a, b
  Divisor entry_count;
  int64_t chunks, chunk;
  bool adds;  ///< adds to the values that y holds

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t lane = block.thread() % kThreads;
    for (int64_t unit = block.first() / kThreads; unit < chunks * entry_count.value();
         unit += block.stride() / kThreads) {
      const Division division = entry_count(unit);
      const Offsets<3> at = entries.at(division.remainder);
      const int64_t begin = division.quotient * chunk, end = std::min(summed.size(), begin + chunk);
      A sum = 0;
      for (int64_t k = begin + lane; k < end; k += kThreads) {
        const Offsets<2> offset = summed.at(k);
        sum += widen(a[at[kA] + offset[kA]]) * widen(b[at[kB] + offset[kB]]);
      }
      if constexpr (kThreads == kWarp) sum = reduce_warp(block, sum, Sum{});
      if (lane != 0) continue;
      if (partial == nullptr) {
        store_sum(y + at[kOut], sum, adds);
      } else {
        partial[division.remainder * chunks + division.quotient] = sum;
      }
    }
  }
};

/// Sums the chunks of each entry, with one warp for each entry.
template <class A, class Out>
struct SumChunks {
  const A* partial;
  Out* y;
  Strided<3> entries;
  int64_t chunks;
  bool adds;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t entry = block.first() / kWarp; entry < entries.size(); entry += block.stride() / kWarp) {
      A sum = 0;
      for (int64_t i = block.lane(); i < chunks; i += kWarp) sum += partial[entry * chunks + i];
      sum = reduce_warp(block, sum, Sum{});
      if (block.lane() == 0) store_sum(y + entries.at(entry)[kOut], sum, adds);
    }
  }
};

bool ends_with_unit_stride(const ContractionAxes& axes, size_t operand) {
  return !axes.empty() && axes.back().strides[operand] == 1;
}

ContractionAxes in_order(ContractionAxes axes, size_t operand) {
  std::ranges::stable_sort(
      axes, [=](const auto& x, const auto& y) { return x.strides[operand] > y.strides[operand]; });
  return joined(axes);
}

template <class T, class Out, int kThreads>
std::unique_ptr<Kernel> inner_product(const ContractionAxes& batch, const ContractionAxes& summed,
                                      bool accumulates, Device& device) {
  // Enough units to fill a large GPU, none of them small.
  constexpr int64_t kUnits = (1 << 18) / kThreads, kLeastChunk = kThreads == kWarp ? 1024 : 64;
  using A = Computed<T>;
  using Body = InnerProduct<T, Out, kThreads>;
  Body prepared{};
  prepared.entries = Strided<3>(along<kA, kB, kOut>(batch));
  prepared.summed = Strided<2>(along<kA, kB>(summed));
  const int64_t count = prepared.entries.size(), depth = prepared.summed.size();
  const int64_t wanted = std::clamp<int64_t>(kUnits / count, 1, (depth + kLeastChunk - 1) / kLeastChunk);
  prepared.chunk = (depth + wanted - 1) / wanted;
  prepared.chunks = (depth + prepared.chunk - 1) / prepared.chunk;
  prepared.entry_count = Divisor(count, count * prepared.chunks);
  const int64_t scratch = prepared.chunks > 1 ? count * prepared.chunks * static_cast<int64_t>(sizeof(A)) : 0;
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        Body body = prepared;
        body.a = call.input<T>(0);
        body.b = call.input<T>(1);
        body.y = call.output<Out>(0);
        body.adds = accumulates && call.iteration > 0;
        body.partial = body.chunks > 1 ? reinterpret_cast<A*>(call.scratch) : nullptr;
        const int64_t entries = body.entry_count.value();
        launch(over(entries * body.chunks * kThreads, 1), body);
        if (body.chunks == 1) return;
        launch(over(entries * kWarp, 1),
               SumChunks<A, Out>{body.partial, body.y, body.entries, body.chunks, body.adds});
      },
      static_cast<size_t>(scratch), 2 * count * depth);
}

template <class T, class Out>
std::unique_ptr<Kernel> inner_product(const Contraction& contraction, bool accumulates, Device& device) {
  const ContractionAxes batch = in_order(contraction.batch, kOut), summed = in_order(contraction.summed, kA);
  const auto dense = [](const ContractionAxes& axes) {
    return ends_with_unit_stride(axes, kA) + ends_with_unit_stride(axes, kB);
  };
  const bool along_sum = size_of(summed) >= kWarp && dense(summed) > dense(batch);
  return along_sum ? inner_product<T, Out, kWarp>(batch, summed, accumulates, device)
                   : inner_product<T, Out, 1>(batch, summed, accumulates, device);
}

}  // namespace

std::unique_ptr<Kernel> make_inner_product(const Contraction& contraction, bool accumulates, Device& device) {
  switch (contraction.input) {
    case DType::kFloat32:
      return inner_product<float, float>(contraction, accumulates, device);
    case DType::kFloat64:
      return inner_product<double, double>(contraction, accumulates, device);
    default:
      MTF_CHECK(contraction.input == DType::kBFloat16, "inner products of {}", name_of(contraction.input));
      return contraction.output == DType::kFloat32
                 ? inner_product<BFloat16, float>(contraction, accumulates, device)
                 : inner_product<BFloat16, BFloat16>(contraction, accumulates, device);
  }
}

}  // namespace mtf::cuda
