#include <algorithm>

#include "engine/backend/cuda/collectives/tree_reduction.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"

namespace mtf::cuda {
namespace {

constexpr int kSumThreads = 128;

/// A leaf of the tree. Leaves are read from left to right, while sums of complete subtrees wait on a stack.
struct Leaf {
  const std::byte* data = nullptr;
  int64_t row = 0;  ///< elements between the begins of adjacent parts
  /// How often the sum is combined with the top of the stack after this leaf has been read.
  int combines = 0;
  bool is_wide = false;  ///< its elements have the accumulator's type
};

/// As many leaves as a kernel can take by value.
struct Leaves {
  static constexpr int64_t kMost = 64;
  Leaf leaves[kMost];
};

/// Stores leaves in device memory, for trees with more leaves than that.
struct StoreLeaves {
  Leaves from;
  Leaf* to;
  int64_t count;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < count; i += block.stride()) to[i] = from.leaves[i];
  }
};

template <class A>
MTF_DEVICE A combine(A a, A b, Reduction reduction) {
  if (reduction == Reduction::kSum) return static_cast<A>(a + b);
  return reduction == Reduction::kMax ? Max{}(a, b) : Min{}(a, b);
}

/// result[i] = the root of the tree over the leaves' elements, rounded once to Result, for N elements at a
/// time. With kMixed some leaves are wide.
template <class T, class Result, bool kMixed, int N>
struct ReduceTree {
  static constexpr int kMaxThreads = kSumThreads;
  using Element = std::conditional_t<kMixed, Computed<T>, T>;  ///< type of loaded elements
  Leaves by_value;
  const Leaf* stored = nullptr;  ///< null if the leaves are passed by value
  int64_t count;                 ///< number of leaves
  Reduction reduction;
  Result* result;
  int64_t size;
  Divisor part;  ///< contiguous elements of the leaves

  MTF_DEVICE void operator()(const Block& block) const {
    constexpr int kAtOnce = 4;
    const Leaf* leaves = stored == nullptr ? by_value.leaves : stored;
    auto* stack = block.shared<Computed<T>>() + block.thread();
    for (int64_t i = block.first() * N; i < size; i += block.stride() * N) {
      const Division at = part(i);
      const int present = static_cast<int>(std::min<int64_t>(N, size - i));
      Pack<Computed<T>, N> sum{};
      int64_t depth = 0;
      for (int64_t m = 0; m < count; m += kAtOnce) {
        Pack<Element, N> elements[kAtOnce];
        MTF_UNROLL(kAtOnce)
        for (int k = 0; k < kAtOnce; ++k) {
          if (m + k < count) elements[k] = load_leaf(leaves[m + k], at, present);
        }
        MTF_UNROLL(kAtOnce)
        for (int k = 0; k < kAtOnce; ++k) {
          if (m + k >= count) break;
          if (m + k > 0) push(stack, depth++, sum);
          for (int n = 0; n < N; ++n) sum[n] = widen(elements[k][n]);
          for (int c = leaves[m + k].combines; c > 0; --c) combine_with(stack, --depth, sum);
        }
      }
      Pack<Result, N> rounded;
      for (int n = 0; n < N; ++n) rounded[n] = narrow<Result>(sum[n]);
      store(result + i, rounded, present);
    }
  }

 private:
  MTF_DEVICE static Pack<Element, N> load_leaf(const Leaf& leaf, const Division& at, int present) {
    const int64_t source = at.quotient * leaf.row + at.remainder;
    const auto narrow_ones = [&] { return load<N>(reinterpret_cast<const T*>(leaf.data) + source, present); };
    if constexpr (kMixed) {
      if (leaf.is_wide) return load<N>(reinterpret_cast<const Element*>(leaf.data) + source, present);
      const Pack<T, N> loaded = narrow_ones();
      Pack<Element, N> wide;
      for (int n = 0; n < N; ++n) wide[n] = widen(loaded[n]);
      return wide;
    } else {
      return narrow_ones();
    }
  }
  MTF_DEVICE static void push(Computed<T>* stack, int64_t depth, const Pack<Computed<T>, N>& sum) {
    MTF_UNROLL(N)
    for (int n = 0; n < N; ++n) stack[(depth * N + n) * kSumThreads] = sum[n];
  }
  MTF_DEVICE void combine_with(const Computed<T>* stack, int64_t depth, Pack<Computed<T>, N>& sum) const {
    MTF_UNROLL(N)
    for (int n = 0; n < N; ++n) sum[n] = combine(stack[(depth * N + n) * kSumThreads], sum[n], reduction);
  }
};

template <class T, class Result, bool kMixed>
class TreeSum final : public DeviceReduction {
 public:
  TreeSum(const std::vector<TreeNode>& tree, Reduction reduction, Device& device)
      : device_(device), reduction_(reduction) {
    for (const TreeNode& node : tree) {
      if (node.left < 0) {
        members_.push_back(node.member);
        leaves_.push_back({.is_wide = node.added});
      } else {
        ++leaves_.back().combines;
      }
    }
    int64_t depth = 0;
    for (const Leaf& leaf : leaves_) {
      depth_ = std::max(depth_, depth);
      depth += 1 - leaf.combines;
    }
    if (count() > Leaves::kMost) stored_ = device.allocate(count() * static_cast<int64_t>(sizeof(Leaf)));
  }
  ~TreeSum() override {
    if (stored_ != nullptr) device_.free(stored_);
  }

  void run(const Launcher& launch, std::span<const Operand> operands, int64_t part, int64_t size,
           std::byte* result) const override {
    constexpr int kPackSize = kPack<T>;
    std::vector<Leaf> leaves = leaves_;
    const auto aligned = [](const std::byte* p) { return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0; };
    bool packs = aligned(result) && (part == size || part % kPackSize == 0);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Operand& operand = operands[static_cast<size_t>(members_[i])];
      leaves[i].data = operand.data;
      leaves[i].row = operand.row;
      packs = packs && aligned(operand.data) && (part == size || operand.row % kPackSize == 0);
    }
    if (size > 0 && packs) reduce<kPackSize>(launch, leaves, part, size, result);
    if (size > 0 && !packs) reduce<1>(launch, leaves, part, size, result);
  }

 private:
  int64_t count() const { return static_cast<int64_t>(leaves_.size()); }

  template <int N>
  void reduce(const Launcher& launch, const std::vector<Leaf>& leaves, int64_t part, int64_t size,
              std::byte* result) const {
    ReduceTree<T, Result, kMixed, N> kernel;
    kernel.count = count();
    kernel.reduction = reduction_;
    kernel.result = reinterpret_cast<Result*>(result);
    kernel.size = size;
    kernel.part = Divisor(part, size);
    if (stored_ == nullptr) {
      std::copy(leaves.begin(), leaves.end(), kernel.by_value.leaves);
    } else {
      kernel.stored = store_leaves(launch, leaves);
    }
    LaunchShape shape = over(size, N, kSumThreads);
    shape.shared_bytes = depth_ * N * kSumThreads * static_cast<int64_t>(sizeof(Computed<T>));
    launch(shape, kernel);
  }

  const Leaf* store_leaves(const Launcher& launch, const std::vector<Leaf>& leaves) const {
    auto* to = reinterpret_cast<Leaf*>(stored_);
    for (int64_t begin = 0; begin < count(); begin += Leaves::kMost) {
      StoreLeaves chunk{{}, to + begin, std::min(Leaves::kMost, count() - begin)};
      std::copy_n(leaves.begin() + begin, chunk.count, chunk.from.leaves);
      launch(LaunchShape{1, kWarp}, chunk);
    }
    return to;
  }

  Device& device_;
  Reduction reduction_;
  std::vector<int64_t> members_;  ///< by leaf
  std::vector<Leaf> leaves_;
  int64_t depth_ = 0;  ///< depth of the stack
  std::byte* stored_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceReduction> prepare_device_reduction(const std::vector<TreeNode>& tree, DType dtype,
                                                          Reduction reduction, bool is_rounded,
                                                          Device& device) {
  return visit_any_type(dtype, [&]<class T>(std::type_identity<T>) -> std::unique_ptr<DeviceReduction> {
    using Element = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    if constexpr (!std::is_same_v<Element, Computed<Element>>) {
      if (!is_rounded)
        return std::make_unique<TreeSum<Element, Computed<Element>, false>>(tree, reduction, device);
      if (std::ranges::any_of(tree, &TreeNode::added))
        return std::make_unique<TreeSum<Element, Element, true>>(tree, reduction, device);
    }
    return std::make_unique<TreeSum<Element, Element, false>>(tree, reduction, device);
  });
}

}  // namespace mtf::cuda
