// Gradients of the scale and the bias of layer norm and RMS norm: sums over all rows, in two launches. The first
// writes partial sums [part, scale or bias, column], the second adds the parts. The first is ColumnSums
// (normalization_parameters.cu), or the walk that also computes dx (normalization_gradient.cu); both add in the
// same order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/math.h"
#include "engine/backend/cuda/device/packs.h"
#include "engine/backend/element.h"
#include "engine/backend/rows.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {

/// The operands of a norm's gradients. For RMS norm the means are null; the mask is null unless it is fused.
template <class T>
struct NormalizedOperands {
  using A = Computed<T>;
  const T *x, *dy;
  const A *rstds, *means;
  const T* mask;

  struct Row {
    A mean, rstd, factor;

    MTF_DEVICE A normal(A x) const { return Math::rounded_product(x - mean, rstd); }
    /// dy times the mask.
    MTF_DEVICE A masked(A dy) const { return widen(narrow<T>(Math::rounded_product(dy, factor))); }
  };
  MTF_DEVICE Row row(int64_t r) const {
    return {means != nullptr ? means[r] : A(0), rstds[r], mask != nullptr ? widen(mask[r]) : A(1)};
  }
};

/// The rows of a walk over contiguous rows: as many warps as the registers of their threads need keep a row.
struct WalkedRows {
  static constexpr int kWarps = 4;  ///< warps of a block
  static constexpr int kPacks = 4;  ///< packs of a row that a thread keeps
  static constexpr int64_t kFewest = kWarp, kMost = int64_t{kWarps} * kWarp * kPacks;  ///< packs of a row

  /// The warps that keep a row of `packs` packs.
  static int warps_of(int64_t packs) {
    int warps = 1;
    while (int64_t{warps} * kWarp * kPacks < packs) warps *= 2;
    return warps;
  }
  template <class T>
  static bool fit(const Rows& rows) {
    constexpr int N = kPack<T>;
    return !std::is_same_v<T, double> && rows.stride == 1 && rows.length % N == 0 &&
           rows.length / N >= kFewest && rows.length / N <= kMost;
  }
};

/// How rows are divided for sums over them: `parts` blocks have `rows` rows each, of which every `slots`-th is
/// added by the same thread.
struct RowParts {
  int64_t rows, parts;
  int slots;

  template <class T>
  static RowParts of(const Rows& all) {
    constexpr int64_t kMostParts = 396;  // an H100 has room for as many blocks of the walk at once
    const int64_t rows = round_up(ceil_divide(all.count, kMostParts), WalkedRows::kWarps);
    const int warps = WalkedRows::fit<T>(all) ? WalkedRows::warps_of(all.length / kPack<T>) : 1;
    return {rows, ceil_divide(all.count, rows), WalkedRows::kWarps / warps};
  }
};

/// Adds sums of columns over the slots of a block, in order, through shared memory: that of pack q of N columns
/// is [slot, sum, part of the pack, q], so that neighbouring lanes access neighbouring packs.
template <class A, int N, int kSums>
class SlotSums {
 public:
  static constexpr int kPart = std::min(N, kPack<A>), kParts = N / kPart;

  static int64_t bytes(int slots, int64_t columns) {
    return slots * kSums * columns * static_cast<int64_t>(sizeof(A));
  }

  MTF_DEVICE SlotSums(const Block& block, int packs)
      : block_(block), shared_(block.shared<A>()), packs_(packs) {}

  MTF_DEVICE void put(int slot, int sum, int q, const A (&values)[N]) {
    MTF_UNROLL(kParts)
    for (int part = 0; part < kParts; ++part) {
      Pack<A, kPart> pack;
      for (int i = 0; i < kPart; ++i) pack[i] = values[part * kPart + i];
      store(at(slot, sum, part, q), pack);
    }
  }
  /// Writes the totals of the first `packs` packs: sum s of column c to totals[s * stride + c].
  MTF_DEVICE void finish(int slots, int packs, A* totals, int64_t stride) {
    block_.sync();
    for (int i = block_.thread(); i < kSums * packs * kParts; i += block_.threads()) {
      const int part = i % kParts, q = i / kParts % packs, sum = i / kParts / packs;
      Pack<A, kPart> total = load<kPart>(at(0, sum, part, q));
      for (int slot = 1; slot < slots; ++slot) {
        const Pack<A, kPart> more = load<kPart>(at(slot, sum, part, q));
        for (int n = 0; n < kPart; ++n) total[n] += more[n];
      }
      store(totals + sum * stride + q * N + part * kPart, total);
    }
  }

 private:
  MTF_DEVICE A* at(int slot, int sum, int part, int q) const {
    return shared_ + static_cast<int64_t>(((slot * kSums + sum) * kParts + part) * packs_ + q) * kPart;
  }

  const Block& block_;
  A* shared_;
  int packs_;
};

/// The sums of the parameters' gradients for rows of one shape.
template <class T>
class ParameterSums {
 public:
  using A = Computed<T>;
  ParameterSums(const Rows& rows, bool centered);

  /// [part, sum, column]
  size_t scratch_bytes() const { return static_cast<size_t>(parts_ * sums_) * sizeof(A); }
  /// Both launches. d_bias is null for RMS norm.
  void operator()(const Launcher& launch, const NormalizedOperands<T>& in, std::byte* scratch, A* d_scale,
                  A* d_bias) const;
  /// The second launch.
  void add_parts(const Launcher& launch, const A* partials, A* d_scale, A* d_bias) const;

 private:
  Rows rows_;
  bool centered_;
  int64_t sums_;  ///< columns of the scale and the bias
  int64_t parts_;
};

}  // namespace mtf::cuda
