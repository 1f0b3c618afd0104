#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/comm/communicator.h"
#include "engine/comm/tree_sum.h"
#include "engine/core/check.h"
#include "engine/core/clones.h"

namespace mtf {
namespace {

constexpr int64_t kTaskElements = 1 << 15;
constexpr int64_t kBlockElements = 1 << 10;

/// Sizes before, along and after one axis.
struct Extent {
  int64_t outer = 1, size = 1, inner = 1;

  Extent(const std::vector<int64_t>& sizes, int axis) {
    for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
      (i < axis ? outer : i == axis ? size : inner) *= sizes[i];
    }
  }
};

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

/// The type that elements are combined in.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

template <class A>
A combine(A a, A b, Reduction reduction) {
  if (reduction == Reduction::kSum) return a + b;
  if (reduction == Reduction::kMax) return a > b || a != a ? a : b;  // NaN wins
  return a < b || a != a ? a : b;
}

/// sum[k] = left[k] + right[k]; `sum` may be `left`.
template <class A>
MTF_CLONES void add_blocks(const A* left, const A* right, int64_t count, A* sum) {
#pragma GCC ivdep
  for (int64_t k = 0; k < count; ++k) sum[k] = left[k] + right[k];
}

/// all_reduce, and reduce_scatter of an axis.
template <class T>
class Reduce final : public PreparedCollective {
 public:
  explicit Reduce(const Collective& c)
      : tree_(reduction_tree(c.group)),
        reduction_(c.reduction),
        members_(c.members()),
        scatter_(c.kind == Collective::Kind::kReduceScatter),
        extent_(c.input, scatter_ ? c.dimension : 0) {
    if (!scatter_) extent_.size *= std::exchange(extent_.inner, 1);
    part_ = (scatter_ ? extent_.size / members_ : extent_.size) * extent_.inner;
  }

  int64_t tasks() const override { return (extent_.outer * part_ + kTaskElements - 1) / kTaskElements; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t begin,
             int64_t end) const override {
    T* out = reinterpret_cast<T*>(result);
    const int64_t last = std::min(end * kTaskElements, extent_.outer * part_);
    for (int64_t i = begin * kTaskElements; i < last;) {
      // A stretch of the result that is contiguous in the inputs too.
      const int64_t row = i / part_, column = i % part_;
      const int64_t count = std::min({kBlockElements, part_ - column, last - i});
      const int64_t source = scatter_ ? row * extent_.size * extent_.inner + member * part_ + column : i;
      Accumulator<T> block[kBlockElements];
      const Accumulator<T>* sum = add(inputs, static_cast<int>(tree_.size()) - 1, source, count, block);
      for (int64_t k = 0; k < count; ++k) out[i + k] = T(sum[k]);
      i += count;
    }
    const auto elements = static_cast<double>(last - begin * kTaskElements);
    const auto others = static_cast<double>(members_ - 1);
    const double share = scatter_ ? others : 2 * others / static_cast<double>(members_);
    return elements * sizeof(T) * share;
  }

 private:
  /// Elements [begin, begin + count) of a subtree, where they stand if it is a leaf of their own type, else
  /// in `sum`.
  const Accumulator<T>* add(std::span<const std::byte* const> inputs, int node, int64_t begin, int64_t count,
                            Accumulator<T>* sum) const {
    const TreeNode& tree = tree_[node];
    if (tree.left < 0) {
      const T* x = reinterpret_cast<const T*>(inputs[tree.member]) + begin;
      if constexpr (std::is_same_v<T, Accumulator<T>>) {
        return x;
      } else {
        for (int64_t k = 0; k < count; ++k) sum[k] = static_cast<Accumulator<T>>(x[k]);
        return sum;
      }
    }
    Accumulator<T> other[kBlockElements];
    const Accumulator<T>* left = add(inputs, tree.left, begin, count, sum);
    const Accumulator<T>* right = add(inputs, tree.right, begin, count, other);
    if (reduction_ == Reduction::kSum) {
      add_blocks(left, right, count, sum);
    } else {
      for (int64_t k = 0; k < count; ++k) sum[k] = combine(left[k], right[k], reduction_);
    }
    return sum;
  }

  std::vector<TreeNode> tree_;
  Reduction reduction_;
  int64_t members_;
  bool scatter_;
  Extent extent_;
  int64_t part_;  ///< elements of the result in one row of the outer axes
};

/// all_gather, all_to_all and exchange: rows of bytes copied from members. One task per row of the outer
/// axes.
class Move final : public PreparedCollective {
 public:
  /// `length` bytes at source_begin of a member's row go to begin of the result's row.
  struct Piece {
    int64_t source, source_begin, begin, length;
  };

  Move(int64_t rows, int64_t source_row, int64_t result_row, std::vector<std::vector<Piece>> pieces,
       bool zero)
      : rows_(rows),
        source_row_(source_row),
        result_row_(result_row),
        pieces_(std::move(pieces)),
        zero_(zero) {
    rows_per_task_ = std::max<int64_t>(1, kTaskElements * 4 / std::max<int64_t>(1, result_row));
  }

  int64_t tasks() const override { return (rows_ + rows_per_task_ - 1) / rows_per_task_; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t begin,
             int64_t end) const override {
    int64_t received = 0;
    for (int64_t row = begin * rows_per_task_; row < std::min(end * rows_per_task_, rows_); ++row) {
      std::byte* out = result + row * result_row_;
      if (zero_) std::memset(out, 0, static_cast<size_t>(result_row_));
      for (const Piece& piece : pieces_[pieces_.size() == 1 ? 0 : member]) {
        std::memcpy(out + piece.begin, inputs[piece.source] + row * source_row_ + piece.source_begin,
                    static_cast<size_t>(piece.length));
        if (piece.source != member) received += piece.length;
      }
    }
    return static_cast<double>(received);
  }

 private:
  int64_t rows_, source_row_, result_row_, rows_per_task_;
  std::vector<std::vector<Piece>> pieces_;  ///< by member; one entry: the same for all
  bool zero_;
};

std::unique_ptr<PreparedCollective> prepare_gather(const Collective& c) {
  const Extent extent(c.input, c.dimension);
  const int64_t row = extent.size * extent.inner * static_cast<int64_t>(size_of(c.dtype));
  std::vector<Move::Piece> pieces;
  for (int64_t m = 0; m < c.members(); ++m) pieces.push_back({m, 0, m * row, row});
  return std::make_unique<Move>(extent.outer, row, row * c.members(),
                                std::vector<std::vector<Move::Piece>>{std::move(pieces)}, false);
}

/// The axis that comes first divides a row in pieces; rows are those of the axes before both.
std::unique_ptr<PreparedCollective> prepare_all_to_all(const Collective& c) {
  const int64_t n = c.members();
  const int first = std::min(c.dimension, c.concat_dimension),
            second = std::max(c.dimension, c.concat_dimension);
  const Extent a(c.input, first), b(c.input, second);
  const int64_t bytes = static_cast<int64_t>(size_of(c.dtype));
  const int64_t inner = b.inner * bytes;                // below both axes
  const int64_t middle = a.inner / (b.size * b.inner);  // between them
  std::vector<std::vector<Move::Piece>> pieces(n);
  const bool splits_first = c.dimension == first;
  const int64_t kept_first = splits_first ? a.size / n : a.size;  // of the first axis, taken from each source
  const int64_t kept_second = splits_first ? b.size : b.size / n;
  const int64_t out_second = splits_first ? b.size * n : b.size / n;
  for (int64_t member = 0; member < n; ++member) {
    for (int64_t source = 0; source < n; ++source) {
      for (int64_t i = 0; i < kept_first; ++i) {
        for (int64_t k = 0; k < middle; ++k) {
          const int64_t from_first = splits_first ? member * kept_first + i : i;
          const int64_t from =
              ((from_first * middle + k) * b.size + (splits_first ? 0 : member * kept_second)) * inner;
          const int64_t to_first = splits_first ? i : source * kept_first + i;
          const int64_t to =
              ((to_first * middle + k) * out_second + (splits_first ? source * kept_second : 0)) * inner;
          pieces[member].push_back({source, from, to, kept_second * inner});
        }
      }
    }
  }
  const int64_t row = a.size * a.inner * bytes;
  return std::make_unique<Move>(a.outer, row, row, std::move(pieces), false);
}

std::unique_ptr<PreparedCollective> prepare_exchange(const Collective& c) {
  const Extent extent(c.input, c.dimension);
  const int64_t inner = extent.inner * static_cast<int64_t>(size_of(c.dtype));
  std::vector<std::vector<Move::Piece>> pieces(c.members());
  for (size_t m = 0; m < pieces.size(); ++m) {
    for (const Transfer& t : c.transfers[m]) {
      pieces[m].push_back({t.source, t.source_begin * inner, t.begin * inner, t.count * inner});
    }
  }
  return std::make_unique<Move>(extent.outer, extent.size * inner, extent.size * inner, std::move(pieces),
                                true);
}

std::unique_ptr<PreparedCollective> prepare_reduce(const Collective& c) {
  switch (c.dtype) {
    case DType::kFloat32:
      return std::make_unique<Reduce<float>>(c);
    case DType::kBFloat16:
      return std::make_unique<Reduce<BFloat16>>(c);
    case DType::kFloat64:
      return std::make_unique<Reduce<double>>(c);
    case DType::kInt32:
      return std::make_unique<Reduce<int32_t>>(c);
    case DType::kInt64:
      return std::make_unique<Reduce<int64_t>>(c);
    case DType::kBool:
      return std::make_unique<Reduce<uint8_t>>(c);
  }
  MTF_CHECK(false, "no reduction of this type");
}

}  // namespace

int64_t Collective::members() const { return product(group); }

std::unique_ptr<PreparedCollective> InProcessCommunicator::prepare(const Collective& c) {
  switch (c.kind) {
    case Collective::Kind::kAllReduce:
    case Collective::Kind::kReduceScatter:
      return prepare_reduce(c);
    case Collective::Kind::kAllGather:
      return prepare_gather(c);
    case Collective::Kind::kAllToAll:
      return prepare_all_to_all(c);
    case Collective::Kind::kExchange:
      return prepare_exchange(c);
  }
  MTF_CHECK(false, "unknown collective");
}

}  // namespace mtf
