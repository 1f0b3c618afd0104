#include "engine/comm/tree_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

constexpr int64_t kBlockElements = 1 << 10;

class Builder {
 public:
  explicit Builder(const std::vector<int64_t>& group) : group_(group) {}

  /// Adds the subtree for coordinate prefix `base` at mesh dimension `level`; returns its index.
  int level(size_t level, int64_t base) {
    if (level == group_.size()) return add({base, -1, -1});
    return range(level, base, 0, group_[level]);
  }
  std::vector<TreeNode> take() { return std::move(nodes_); }

 private:
  int range(size_t level, int64_t base, int64_t low, int64_t high) {
    if (high - low == 1) return this->level(level + 1, base * group_[level] + low);
    const int64_t middle = low + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(high - low - 1)));
    const int left = range(level, base, low, middle);
    const int right = range(level, base, middle, high);
    return add({-1, left, right});
  }
  int add(TreeNode node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  const std::vector<int64_t>& group_;
  std::vector<TreeNode> nodes_;
};

/// The type in which elements are combined.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

template <class A>
A combine(A a, A b, Reduction reduction) {
  if (reduction == Reduction::kSum) return a + b;
  if (reduction == Reduction::kMax) return a > b || a != a ? a : b;  // NaN wins
  return a < b || a != a ? a : b;
}

/// Computes sum[k] = left[k] + right[k]; `sum` may be `left`.
template <class A>
MTF_INLINE void add_blocks(const A* left, const A* right, int64_t count, A* sum) {
#pragma GCC ivdep
  for (int64_t k = 0; k < count; ++k) sum[k] = left[k] + right[k];
}

template <class T>
class TypedReduction final : public TreeReduction {
 public:
  TypedReduction(std::vector<TreeNode> tree, Reduction reduction)
      : tree_(std::move(tree)), reduction_(reduction) {}

  void reduce(std::span<const std::byte* const> inputs, int64_t begin, int64_t count,
              std::byte* result) const override {
    T* out = reinterpret_cast<T*>(result);
    for (int64_t i = 0; i < count; i += kBlockElements) {
      const int64_t length = std::min(kBlockElements, count - i);
      Accumulator<T> block[kBlockElements];
      const Accumulator<T>* sum =
          add_block(inputs, static_cast<int>(tree_.size()) - 1, begin + i, length, block);
      for (int64_t k = 0; k < length; ++k) out[i + k] = T(sum[k]);
    }
  }

  void add(std::span<const std::byte* const> inputs, int node, int64_t begin, int64_t count,
           std::byte* sum) const override {
    auto* out = reinterpret_cast<Accumulator<T>*>(sum);
    for (int64_t i = 0; i < count; i += kBlockElements) {
      const int64_t length = std::min(kBlockElements, count - i);
      const Accumulator<T>* block = add_block(inputs, node, begin + i, length, out + i);
      if (block != out + i) std::memcpy(out + i, block, length * sizeof(*block));
    }
  }

 private:
  /// Returns elements [begin, begin + count) of a subtree: where they are if it is a leaf in the
  /// accumulator's type, otherwise in `sum`.
  const Accumulator<T>* add_block(std::span<const std::byte* const> inputs, int node, int64_t begin,
                                  int64_t count, Accumulator<T>* sum) const {
    const TreeNode& tree = tree_[node];
    if (tree.left < 0) {
      if (std::is_same_v<T, Accumulator<T>> || tree.added) {
        return reinterpret_cast<const Accumulator<T>*>(inputs[tree.member]) + begin;
      }
      const T* x = reinterpret_cast<const T*>(inputs[tree.member]) + begin;
      for (int64_t k = 0; k < count; ++k) sum[k] = static_cast<Accumulator<T>>(x[k]);
      return sum;
    }
    Accumulator<T> other[kBlockElements];
    const Accumulator<T>* left = add_block(inputs, tree.left, begin, count, sum);
    const Accumulator<T>* right = add_block(inputs, tree.right, begin, count, other);
    if (reduction_ == Reduction::kSum) {
      dispatched<add_blocks<Accumulator<T>>>(left, right, count, sum);
    } else {
      for (int64_t k = 0; k < count; ++k) sum[k] = combine(left[k], right[k], reduction_);
    }
    return sum;
  }

  std::vector<TreeNode> tree_;
  Reduction reduction_;
};

}  // namespace

std::vector<TreeNode> reduction_tree(const std::vector<int64_t>& group) {
  Builder builder(group);
  builder.level(0, 0);
  return builder.take();
}

std::unique_ptr<TreeReduction> prepare_reduction(std::vector<TreeNode> tree, DType dtype,
                                                 Reduction reduction) {
  switch (dtype) {
    case DType::kFloat32:
      return std::make_unique<TypedReduction<float>>(std::move(tree), reduction);
    case DType::kBFloat16:
      return std::make_unique<TypedReduction<BFloat16>>(std::move(tree), reduction);
    case DType::kFloat64:
      return std::make_unique<TypedReduction<double>>(std::move(tree), reduction);
    case DType::kInt32:
      return std::make_unique<TypedReduction<int32_t>>(std::move(tree), reduction);
    case DType::kInt64:
      return std::make_unique<TypedReduction<int64_t>>(std::move(tree), reduction);
    case DType::kBool:
      return std::make_unique<TypedReduction<uint8_t>>(std::move(tree), reduction);
    case DType::kInt8:
    case DType::kUInt8:
      break;
  }
  MTF_CHECK(false, "no reduction of this type");
}

size_t accumulator_bytes(DType dtype) { return dtype == DType::kBFloat16 ? sizeof(float) : size_of(dtype); }

}  // namespace mtf
