// Products of tiles in shared memory, without tensor cores: a block computes 32 x 32 entries of the output, a
// thread four of them. Reading is the bottleneck; a float32 product reaches some percent of the peak.
#include <type_traits>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/contractions/plain_matmul.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/walk.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/base/check.h"

namespace mtf::cuda {
namespace {

constexpr int kSide = 32, kPerThread = kSide * kSide / kThreads;

/// A matrix as it is multiplied: entry (i, j) is at i * row + j * column.
struct Entries {
  int64_t row, column, batch;
};

Entries entries(int64_t stride, bool transposed, int64_t batch) {
  return transposed ? Entries{1, stride, batch} : Entries{stride, 1, batch};
}

template <class T, class Out>
struct MultiplyTiles {
  using A = Computed<T>;
  const T *a, *b;
  Out* c;
  const Out* addend;
  Entries of_a, of_b;
  int64_t row_c, batch_c;
  int64_t m, n, k;
  Divisor row_tiles, column_tiles;
  int64_t tiles;
  MatmulPrecision precision;
  bool adds;

  MTF_DEVICE void operator()(const Block& block) const {
    A* left = block.shared<A>();
    A* right = left + kSide * kSide;
    for (int64_t tile = block.index(); tile < tiles; tile += block.blocks()) {
      const Division down = row_tiles(tile), across = column_tiles(down.quotient);
      const int64_t batch = across.quotient, i = down.remainder * kSide, j = across.remainder * kSide;
      A sums[kPerThread] = {};
      for (int64_t l = 0; l < k; l += kSide) {
        fill(block, left, a + batch * of_a.batch, of_a, i, l, m, k);
        fill(block, right, b + batch * of_b.batch, of_b, l, j, k, n);
        block.sync();
        MTF_UNROLL(kPerThread)
        for (int e = 0; e < kPerThread; ++e) {
          const int at = block.thread() + e * kThreads, row = at / kSide, column = at % kSide;
          for (int s = 0; s < kSide; ++s) sums[e] += left[row * kSide + s] * right[s * kSide + column];
        }
        block.sync();
      }
      MTF_UNROLL(kPerThread)
      for (int e = 0; e < kPerThread; ++e) {
        const int at = block.thread() + e * kThreads;
        const int64_t row = i + at / kSide, column = j + at % kSide;
        if (row >= m || column >= n) continue;
        const int64_t to = batch * batch_c + row * row_c + column;
        c[to] = narrow<Out>(adds ? widen(addend[to]) + sums[e] : sums[e]);
      }
    }
  }

  /// Copies the tile of `from` that begins at (i, j), with zeros beyond its `rows` and `columns`.
  MTF_DEVICE void fill(const Block& block, A* tile, const T* from, const Entries& at, int64_t i, int64_t j,
                       int64_t rows, int64_t columns) const {
    MTF_UNROLL(kPerThread)
    for (int e = 0; e < kPerThread; ++e) {
      const int entry = block.thread() + e * kThreads;
      const int64_t row = i + entry / kSide, column = j + entry % kSide;
      tile[entry] = row < rows && column < columns ? factor(from[row * at.row + column * at.column]) : A(0);
    }
  }

  /// Rounds float32 to the nearest number of 10 bits of mantissa, or to bfloat16.
  MTF_DEVICE A factor(T x) const {
    if constexpr (std::is_same_v<T, float>) {
      if (precision == MatmulPrecision::kBFloat16) return widen(narrow<BFloat16>(x));
      if (precision == MatmulPrecision::kTf32 && x - x == 0)
        return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & 0xffffe000u);
    }
    return widen(x);
  }
};

template <class T, class Out>
class PlainMatmul final : public Matmul {
 public:
  PlainMatmul(Device& device, const MatmulProblem& problem) : device_(device) {
    const MatmulProblem p = canonical(problem);
    MTF_CHECK(!p.bias && p.epilogue == Epilogue::kNone, "a plain product with an epilogue");
    const int64_t down = (p.m + kSide - 1) / kSide, across = (p.n + kSide - 1) / kSide;
    body_ = {nullptr,
             nullptr,
             nullptr,
             nullptr,
             entries(p.row_a, p.transpose_a, p.batch_a),
             entries(p.row_b, p.transpose_b, p.batch_b),
             p.row_c,
             p.batch_c,
             p.m,
             p.n,
             p.k,
             Divisor(down, down * across * p.batch),
             Divisor(across, across * p.batch),
             down * across * p.batch,
             p.precision,
             p.accumulate};
  }

  int64_t workspace_bytes() const override { return 0; }
  void run(const void* a, const void* b, void* c, void*, const void*, const void* addend) const override {
    MultiplyTiles<T, Out> body = body_;
    body.a = static_cast<const T*>(a);
    body.b = static_cast<const T*>(b);
    body.c = static_cast<Out*>(c);
    body.addend = static_cast<const Out*>(addend != nullptr ? addend : c);
    const LaunchShape shape{std::min(kMostBlocks, body.tiles), kThreads,
                            2 * kSide * kSide * static_cast<int64_t>(sizeof(Computed<T>))};
    launch(device_.compute(), shape, nullptr, body);
  }

 private:
  Device& device_;
  MultiplyTiles<T, Out> body_{};
};

}  // namespace

std::shared_ptr<const Matmul> make_plain_matmul(Device& device, const MatmulProblem& problem) {
  return visit_floating_type(problem.input,
                             [&]<class T>(std::type_identity<T>) -> std::shared_ptr<const Matmul> {
                               if (problem.output != problem.input)
                                 return std::make_shared<const PlainMatmul<T, Computed<T>>>(device, problem);
                               return std::make_shared<const PlainMatmul<T, T>>(device, problem);
                             });
}

}  // namespace mtf::cuda
