// Collectives among positions of one device: each result is made straight from the members' memory.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/backend/cuda/collectives/piece_copy.h"
#include "engine/backend/cuda/indexing.h"
#include "engine/backend/cuda/moves.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/comm/tree_sum.h"
#include "engine/core/check.h"

namespace mtf::cuda {
namespace {

constexpr int kSumThreads = 128;

/// A leaf of the tree. The leaves come in the order of the members; sums of complete subtrees wait on a
/// stack.
struct Member {
  const std::byte* data = nullptr;
  int combines = 0;  ///< with the top of the stack, one after the other, once this leaf is there
};

/// As many as go to a kernel by value.
struct Members {
  static constexpr int64_t kMost = 64;
  Member members[kMost];
};

/// More members than that are put in memory of the device first.
struct StoreMembers {
  Members from;
  Member* to;
  int64_t count;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < count; i += block.stride()) to[i] = from.members[i];
  }
};

template <class A>
MTF_DEVICE A combine(A a, A b, Reduction reduction) {
  if (reduction == Reduction::kSum) return static_cast<A>(a + b);
  return reduction == Reduction::kMax ? Max{}(a, b) : Min{}(a, b);
}

/// result[i] = the root of the tree over the members' elements, rounded once; N elements at a time.
template <class T, int N>
struct ReduceTree {
  static constexpr int kMaxThreads = kSumThreads;
  Members by_value;
  const Member* stored = nullptr;  ///< null: by value
  int64_t members;
  Reduction reduction;
  T* result;
  int64_t size;
  Divisor part;        ///< elements of the result that lie together in the inputs
  int64_t begin, row;  ///< of the first part in the inputs, and from part to part

  MTF_DEVICE void operator()(const Block& block) const {
    constexpr int kAtOnce = 4;
    const Member* leaves = stored == nullptr ? by_value.members : stored;
    auto* stack = block.shared<Computed<T>>() + block.thread();
    for (int64_t i = block.first() * N; i < size; i += block.stride() * N) {
      const Division at = part(i);
      const int64_t source = begin + at.quotient * row + at.remainder;
      const int count = static_cast<int>(std::min<int64_t>(N, size - i));
      Pack<Computed<T>, N> sum{};
      int64_t depth = 0;
      for (int64_t m = 0; m < members; m += kAtOnce) {
        Pack<T, N> elements[kAtOnce];
        MTF_UNROLL(kAtOnce)
        for (int k = 0; k < kAtOnce; ++k) {
          if (m + k < members)
            elements[k] = load<N>(reinterpret_cast<const T*>(leaves[m + k].data) + source, count);
        }
        MTF_UNROLL(kAtOnce)
        for (int k = 0; k < kAtOnce; ++k) {
          if (m + k >= members) break;
          if (m + k > 0) push(stack, depth++, sum);
          for (int n = 0; n < N; ++n) sum[n] = widen(elements[k][n]);
          for (int c = leaves[m + k].combines; c > 0; --c) combine_with(stack, --depth, sum);
        }
      }
      Pack<T, N> rounded;
      for (int n = 0; n < N; ++n) rounded[n] = narrow<T>(sum[n]);
      store(result + i, rounded, count);
    }
  }

 private:
  MTF_DEVICE static void push(Computed<T>* stack, int64_t depth, const Pack<Computed<T>, N>& sum) {
    MTF_UNROLL(N)
    for (int n = 0; n < N; ++n) stack[(depth * N + n) * kSumThreads] = sum[n];
  }
  MTF_DEVICE void combine_with(const Computed<T>* stack, int64_t depth, Pack<Computed<T>, N>& sum) const {
    MTF_UNROLL(N)
    for (int n = 0; n < N; ++n) sum[n] = combine(stack[(depth * N + n) * kSumThreads], sum[n], reduction);
  }
};

/// all_reduce, and reduce_scatter of an axis.
template <class T>
class Reduce final : public PreparedCollective {
 public:
  Reduce(const Collective& c, Device& device)
      : device_(device),
        reduction_(c.reduction),
        scatter_(c.kind == Collective::Kind::kReduceScatter),
        extent_(c.input, scatter_ ? c.dimension : 0) {
    if (!scatter_) extent_.size *= std::exchange(extent_.inner, 1);
    for (const TreeNode& node : reduction_tree(c.group)) {
      if (node.left < 0) {
        MTF_CHECK(node.member == static_cast<int64_t>(leaves_.size()), "leaves in another order");
        leaves_.emplace_back();
      } else {
        ++leaves_.back().combines;
      }
    }
    int64_t depth = 0;
    for (const Member& leaf : leaves_) {
      depth_ = std::max(depth_, depth);
      depth += 1 - leaf.combines;
    }
    part_ = extent_.size / (scatter_ ? members() : 1) * extent_.inner;
    size_ = extent_.outer * part_;
    if (members() > Members::kMost)
      stored_ = device.allocate(members() * static_cast<int64_t>(sizeof(Member)));
  }
  ~Reduce() override {
    if (stored_ != nullptr) device_.free(stored_);
  }

  int64_t tasks() const override { return 1; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t, int64_t,
             const bool* guard) const override {
    const Launcher launch(device_, guard);
    std::vector<Member> leaves = leaves_;
    for (size_t m = 0; m < leaves.size(); ++m) leaves[m].data = inputs[m];
    const auto aligned = [](const std::byte* p) { return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0; };
    const bool packs = std::all_of(inputs.begin(), inputs.end(), aligned) && aligned(result) &&
                       (!scatter_ || part_ % kPack<T> == 0);
    if (size_ > 0 && packs) reduce<kPack<T>>(launch, leaves, member, result);
    if (size_ > 0 && !packs) reduce<1>(launch, leaves, member, result);
    const auto received = static_cast<double>(size_) * sizeof(T);
    const auto others = static_cast<double>(members() - 1);
    return received * (scatter_ ? others : 2 * others / static_cast<double>(members()));
  }

 private:
  int64_t members() const { return static_cast<int64_t>(leaves_.size()); }

  template <int N>
  void reduce(const Launcher& launch, const std::vector<Member>& leaves, int64_t member,
              std::byte* result) const {
    ReduceTree<T, N> kernel;
    kernel.members = members();
    kernel.reduction = reduction_;
    kernel.result = reinterpret_cast<T*>(result);
    kernel.size = size_;
    kernel.part = Divisor(part_, size_);
    kernel.begin = scatter_ ? member * part_ : 0;
    kernel.row = extent_.size * extent_.inner;
    if (stored_ == nullptr) {
      std::copy(leaves.begin(), leaves.end(), kernel.by_value.members);
    } else {
      kernel.stored = store_members(launch, leaves);
    }
    LaunchShape shape = over(size_, N, kSumThreads);
    shape.shared_bytes = depth_ * N * kSumThreads * static_cast<int64_t>(sizeof(Computed<T>));
    launch(shape, kernel);
  }

  const Member* store_members(const Launcher& launch, const std::vector<Member>& leaves) const {
    auto* to = reinterpret_cast<Member*>(stored_);
    for (int64_t begin = 0; begin < members(); begin += Members::kMost) {
      StoreMembers chunk{{}, to + begin, std::min(Members::kMost, members() - begin)};
      std::copy_n(leaves.begin() + begin, chunk.count, chunk.from.members);
      launch(LaunchShape{1, kWarp}, chunk);
    }
    return to;
  }

  Device& device_;
  Reduction reduction_;
  bool scatter_;
  AxisExtent extent_;
  std::vector<Member> leaves_;
  int64_t depth_ = 0;        ///< of the stack
  int64_t part_ = 0, size_;  ///< elements of the result: in one row of the outer axes, and in all
  std::byte* stored_ = nullptr;
};

/// all_gather, all_to_all and exchange.
class MovePieces final : public PreparedCollective {
 public:
  MovePieces(MovePlan plan, Device& device) : plan_(std::move(plan)), device_(device) {}

  int64_t tasks() const override { return 1; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t, int64_t,
             const bool* guard) const override {
    std::vector<BlockCopy> copies;
    int64_t received = 0;
    for (const MovePiece& piece : plan_.of(member)) {
      copies.push_back(copy_of(plan_, piece, inputs[piece.source], result));
      if (piece.source != member) received += plan_.rows * piece.count * piece.length;
    }
    for (const MovePiece& piece : plan_.zeros(member)) {
      copies.push_back({.to = result + piece.begin,
                        .rows = plan_.rows,
                        .length = piece.length,
                        .to_row = plan_.result_row});
    }
    copy_blocks(Launcher(device_, guard), copies);
    return static_cast<double>(received);
  }

 private:
  MovePlan plan_;
  Device& device_;
};

std::unique_ptr<PreparedCollective> prepare_reduce(const Collective& c, Device& device) {
  return visit_any_type(c.dtype, [&]<class T>(std::type_identity<T>) -> std::unique_ptr<PreparedCollective> {
    using Element = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    return std::make_unique<Reduce<Element>>(c, device);
  });
}

}  // namespace

std::unique_ptr<PreparedCollective> prepare_device_collective(const Collective& c, Device& device) {
  if (c.kind == Collective::Kind::kAllReduce || c.kind == Collective::Kind::kReduceScatter)
    return prepare_reduce(c, device);
  return std::make_unique<MovePieces>(plan_moves(c), device);
}

}  // namespace mtf::cuda
