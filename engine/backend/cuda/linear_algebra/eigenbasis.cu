// Eigenvectors by parallel cyclic Jacobi rotations (Brent and Luk 1985), and orthogonal iteration by Gram-Schmidt, done
// twice. One block does one matrix, in float64: simple and deterministic, far from the fastest for large matrices, but a
// refresh is rare, and in all other steps the kernel only passes the basis on. Whether it is due is read on the device,
// so a recorded program has all cases.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/math.h"
#include "engine/ops/eigenbasis.h"

namespace mtf::cuda {
namespace {

constexpr int kMostBatchAxes = 8;
constexpr int kMostSweeps = 40;
/// The part of the norm that may lie off the diagonal at the end.
constexpr double kOffDiagonal = 1e-14;

/// Matrices in a tensor.
struct Matrices {
  int64_t n = 1, row_stride = 1, column_stride = 1;
  int64_t count = 1;
  int axes = 0;
  int64_t sizes[kMostBatchAxes] = {}, strides[kMostBatchAxes] = {};

  MTF_HOST_DEVICE int64_t offset(int64_t matrix) const {
    int64_t result = 0;
    for (int axis = axes; axis-- > 0; matrix /= sizes[axis]) result += matrix % sizes[axis] * strides[axis];
    return result;
  }
  MTF_HOST_DEVICE int64_t at(int64_t row, int64_t column) const {
    return row * row_stride + column * column_stride;
  }
  /// Three matrices and three vectors.
  int64_t scratch() const { return count * (3 * n * n + 3 * n); }
};

template <class T>
struct RefreshEigenbasis {
  const T* x;
  const T* basis;
  T* updated;  ///< may be `basis`
  const T* due;
  double* scratch;
  Matrices matrices;
  double noise;

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t n = matrices.n, offset = matrices.offset(block.index());
    const T *matrix = x + offset, *old = basis + offset;
    double begun = 0, squares = 0;
    for (int64_t i = block.thread(); i < n; i += block.threads())
      begun += old[matrices.at(i, 0)] != T(0) ? 1 : 0;
    begun = sum(block, begun);
    const bool wanted = begun == 0 || *due > T(0);
    if (wanted) {
      for (int64_t e = block.thread(); e < n * n; e += block.threads()) {
        const double value = matrix[matrices.at(e / n, e % n)];
        squares += value * value;
      }
      squares = sum(block, squares);
    }
    const double norm = Math::sqrt(squares);
    if (!wanted || !(norm > 0) || norm - norm != 0) {
      if (updated == basis) return;
      for (int64_t e = block.thread(); e < n * n; e += block.threads()) {
        const int64_t at = offset + matrices.at(e / n, e % n);
        updated[at] = basis[at];
      }
      return;
    }
    double* const mine = scratch + block.index() * (3 * n * n + 3 * n);
    double *const a = mine, *const vectors = a + n * n, *const result = vectors + n * n,
                  *const rest = result + n * n;
    if (begun == 0) {
      eigenvectors(block, matrix, norm, a, vectors, result, rest);
    } else {
      iterate(block, matrix, old, noise * norm, result, rest);
    }
    for (int64_t e = block.thread(); e < n * n; e += block.threads())
      updated[offset + matrices.at(e % n, e / n)] = static_cast<T>(result[e]);
  }

 private:
  MTF_DEVICE static double sum(const Block& block, double value) {
    return reduce_block(block, value, Sum{}, block.shared<double>());
  }

  /// Entry (i, k) of the symmetric matrix whose lower triangle is given.
  MTF_DEVICE double symmetric(const T* matrix, int64_t i, int64_t k) const {
    return i >= k ? matrix[matrices.at(i, k)] : matrix[matrices.at(k, i)];
  }

  /// The columns of `q` become an orthonormal basis of those of (matrix + shift I) old, column after column.
  MTF_DEVICE void iterate(const Block& block, const T* matrix, const T* old, double shift, double* q,
                          double* projections) const {
    const int64_t n = matrices.n;
    for (int64_t e = block.thread(); e < n * n; e += block.threads()) {
      const int64_t i = e % n, j = e / n;
      double product = shift * old[matrices.at(i, j)];
      for (int64_t k = 0; k < n; ++k) product += symmetric(matrix, i, k) * old[matrices.at(k, j)];
      q[e] = product;
    }
    block.sync();
    for (int64_t j = 0; j < n; ++j) {
      double* const column = q + j * n;
      for (int time = 0; time < 2; ++time) {
        for (int64_t k = block.warp(); k < j; k += block.warps()) {
          double product = 0;
          for (int64_t i = block.lane(); i < n; i += kWarp) product += q[k * n + i] * column[i];
          product = reduce_warp(block, product, Sum{});
          if (block.lane() == 0) projections[k] = product;
        }
        block.sync();
        for (int64_t i = block.thread(); i < n; i += block.threads()) {
          double value = column[i];
          for (int64_t k = 0; k < j; ++k) value -= projections[k] * q[k * n + i];
          column[i] = value;
        }
        block.sync();
      }
      normalize(block, column);
    }
  }

  /// A zero column stays zero.
  MTF_DEVICE void normalize(const Block& block, double* column) const {
    double squares = 0;
    for (int64_t i = block.thread(); i < matrices.n; i += block.threads()) squares += column[i] * column[i];
    squares = sum(block, squares);
    const double scale = squares > 0 ? 1 / Math::sqrt(squares) : 0;
    for (int64_t i = block.thread(); i < matrices.n; i += block.threads()) column[i] *= scale;
    block.sync();
  }

  MTF_DEVICE void eigenvectors(const Block& block, const T* matrix, double norm, double* a, double* vectors,
                               double* result, double* rest) const {
    const int64_t n = matrices.n;
    for (int64_t e = block.thread(); e < n * n; e += block.threads()) {
      a[e] = symmetric(matrix, e % n, e / n);
      vectors[e] = e % n == e / n ? 1 : 0;
    }
    block.sync();
    for (int sweep = 0; sweep < kMostSweeps && off_diagonal(block, a) > kOffDiagonal * norm; ++sweep) {
      rotate_all_pairs(block, a, vectors, rest);
    }
    const int64_t kept = sort(block, a, vectors, result);
    if (kept < n) complete(block, a, result, rest, kept);
    for (int64_t j = block.thread(); j < n; j += block.threads()) {
      double* const column = result + j * n;
      double largest = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (Math::sqrt(column[i] * column[i]) > Math::sqrt(largest * largest)) largest = column[i];
      }
      for (int64_t i = 0; i < n && largest < 0; ++i) column[i] = -column[i];
    }
    block.sync();
  }

  MTF_DEVICE double off_diagonal(const Block& block, const double* a) const {
    double squares = 0;
    for (int64_t e = block.thread(); e < matrices.n * matrices.n; e += block.threads()) {
      if (e % matrices.n != e / matrices.n) squares += a[e] * a[e];
    }
    return Math::sqrt(sum(block, squares));
  }

  /// The two rows and columns that are rotated as number `k` of round `round` of a tournament of `players`.
  struct Pair {
    int64_t p, q;
    MTF_DEVICE Pair(int64_t k, int64_t round, int64_t players)
        : p(k == 0 ? players - 1 : (round + k) % (players - 1)),
          q(k == 0 ? round : (round - k + players - 1) % (players - 1)) {}
  };

  MTF_DEVICE void rotate_all_pairs(const Block& block, double* a, double* vectors, double* rest) const {
    const int64_t n = matrices.n, players = n + n % 2, pairs = players / 2;
    double *const cosines = rest, *const sines = rest + n;
    for (int64_t round = 0; round + 1 < players; ++round) {
      for (int64_t k = block.thread(); k < pairs; k += block.threads()) {
        const Pair pair(k, round, players);
        double cosine = 1, sine = 0;
        if (pair.p < n && pair.q < n && a[pair.p * n + pair.q] != 0) {
          const double ratio =
              (a[pair.q * n + pair.q] - a[pair.p * n + pair.p]) / (2 * a[pair.p * n + pair.q]);
          const double root = Math::sqrt(1 + ratio * ratio);
          const double tangent = ratio >= 0 ? 1 / (ratio + root) : 1 / (ratio - root);
          cosine = 1 / Math::sqrt(1 + tangent * tangent);
          sine = tangent * cosine;
        }
        cosines[k] = cosine;
        sines[k] = sine;
      }
      block.sync();
      for (int64_t e = block.thread(); e < pairs * n; e += block.threads()) {
        const int64_t k = e / n, i = e % n;
        const Pair pair(k, round, players);
        if (pair.p < n && pair.q < n) rotate(a[pair.p + i * n], a[pair.q + i * n], cosines[k], sines[k]);
      }
      block.sync();
      for (int64_t e = block.thread(); e < pairs * n; e += block.threads()) {
        const int64_t k = e / n, i = e % n;
        const Pair pair(k, round, players);
        if (pair.p < n && pair.q < n) {
          rotate(a[pair.p * n + i], a[pair.q * n + i], cosines[k], sines[k]);
          rotate(vectors[pair.p * n + i], vectors[pair.q * n + i], cosines[k], sines[k]);
        }
      }
      block.sync();
    }
  }

  MTF_DEVICE static void rotate(double& p, double& q, double cosine, double sine) {
    const double before = p;
    p = cosine * before - sine * q;
    q = sine * before + cosine * q;
  }

  /// Copies the vectors to `result`, from the largest eigenvalue down; returns how many of them are above the noise.
  MTF_DEVICE int64_t sort(const Block& block, const double* a, const double* vectors, double* result) const {
    const int64_t n = matrices.n;
    double largest = a[0];
    for (int64_t i = 1; i < n; ++i) largest = a[i * n + i] > largest ? a[i * n + i] : largest;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) kept += a[i * n + i] > noise * largest ? 1 : 0;
    for (int64_t i = block.thread(); i < n; i += block.threads()) {
      const double value = a[i * n + i];
      int64_t rank = 0;
      for (int64_t k = 0; k < n; ++k) {
        const double other = a[k * n + k];
        rank += other > value || (other == value && k < i) ? 1 : 0;
      }
      for (int64_t k = 0; k < n; ++k) result[rank * n + k] = vectors[i * n + k];
    }
    block.sync();
    return kept;
  }

  /// Replaces the columns from `kept` on: each by the largest of the rests of the coordinate axes (in `a`).
  MTF_DEVICE void complete(const Block& block, double* a, double* result, double* squares,
                           int64_t kept) const {
    const int64_t n = matrices.n;
    for (int64_t e = block.thread(); e < n * n; e += block.threads()) {
      double value = e % n == e / n ? 1 : 0;
      for (int64_t k = 0; k < kept; ++k) value -= result[k * n + e % n] * result[k * n + e / n];
      a[e] = value;
    }
    block.sync();
    for (int64_t j = kept; j < n; ++j) {
      double* const column = result + j * n;
      for (int64_t c = block.thread(); c < n; c += block.threads()) {
        double value = 0;
        for (int64_t i = 0; i < n; ++i) value += a[c * n + i] * a[c * n + i];
        squares[c] = value;
      }
      block.sync();
      int64_t pivot = 0;
      for (int64_t c = 1; c < n; ++c) pivot = squares[c] > squares[pivot] ? c : pivot;
      for (int64_t i = block.thread(); i < n; i += block.threads()) column[i] = a[pivot * n + i];
      block.sync();
      normalize(block, column);
      for (int64_t c = block.thread(); c < n; c += block.threads()) {
        double product = 0;
        for (int64_t i = 0; i < n; ++i) product += a[c * n + i] * column[i];
        for (int64_t i = 0; i < n; ++i) a[c * n + i] -= product * column[i];
      }
      block.sync();
    }
  }
};

template <class T>
std::unique_ptr<Kernel> eigenbasis_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Eigenbasis&>(context.operation);
  const Shape& local = context.inputs[0].local;
  const std::vector<int64_t> strides = local.strides();
  const int row = *local.find(operation.row), column = *local.find(operation.column);
  Matrices matrices{.n = local[row].size, .row_stride = strides[row], .column_stride = strides[column]};
  MTF_CHECK(local.rank() - 2 <= kMostBatchAxes, "eigenbasis of a tensor with {} dimensions", local.rank());
  for (int axis = 0; axis < local.rank(); ++axis) {
    if (axis == row || axis == column) continue;
    matrices.sizes[matrices.axes] = local[axis].size;
    matrices.strides[matrices.axes++] = strides[axis];
    matrices.count *= local[axis].size;
  }
  return make_device_kernel(
      device,
      [matrices](const Launcher& launch, const KernelCall& call) {
        launch(LaunchShape{matrices.count, kThreads, kWarps * static_cast<int64_t>(sizeof(double))},
               RefreshEigenbasis<T>{call.input<T>(0), call.input<T>(1), call.output<T>(0), call.input<T>(2),
                                    reinterpret_cast<double*>(call.scratch), matrices, kSpectrumNoise});
      },
      static_cast<size_t>(matrices.scratch()) * sizeof(double));
}

const DeviceKernelRegistration f32("eigenbasis", {DType::kFloat32}, eigenbasis_kernel<float>);
const DeviceKernelRegistration f64("eigenbasis", {DType::kFloat64}, eigenbasis_kernel<double>);

}  // namespace
}  // namespace mtf::cuda
