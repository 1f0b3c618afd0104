// Plans reductions by owners: the owner of each share adds the contributions of all processes in the order of
// the tree; for all_reduce a second round sends the results to all. Complete subtrees of one process are
// added before they are sent.
#include <array>
#include <list>
#include <utility>

#include "engine/comm/device/plan_builder.h"
#include "engine/comm/process/owned_elements.h"

namespace mtf {
namespace {

class OwnersSum {
 public:
  OwnersSum(const std::vector<RemotePart>& parts, int process)
      : process_(process),
        collective_(parts.front().collective),
        element_(static_cast<int64_t>(size_of(collective_.dtype))),
        collects_(collective_.kind == Collective::Kind::kAllReduce),
        plan_(parts.front().guard != nullptr) {
    plan_.plan().rounds.resize(collects_ ? 2 : 1);
    for (const ReduceBucket& bucket : reduce_buckets(parts)) add(bucket);
    send(round(0), plan_.plan().before, contributions_out_, contributions_in_);
    for (const Share& share : shares_) add_sums(share);
    if (collects_) send(round(1), round(0).after, results_out_, results_in_);
    add_copies(plan_.plan().rounds.back().after, std::move(arrived_));
    add_copies(plan_.plan().rounds.back().after, std::move(handed_on_));
  }
  DevicePlan take() { return plan_.take(); }

 private:
  /// The share of a bucket that this process owns.
  struct Share {
    const ReduceBucket* bucket;
    std::vector<OwnedElements> owned;
    OwnerTree tree;
    std::map<std::pair<int, size_t>, DeviceSource> received;  ///< contributions, by node and index in `owned`
    std::vector<DeviceTarget> results;                        ///< result of each group; only for all_reduce
  };

  DeviceRound& round(size_t number) { return plan_.plan().rounds[number]; }

  void add(const ReduceBucket& given) {
    const ReduceBucket& bucket = buckets_.emplace_back(given);
    const std::vector<TreeNode> tree = reduction_tree(bucket.groups[0].collective->group);
    const bool is_consumer = bucket.consumer(process_) != nullptr;
    std::vector<DeviceTarget> results;
    if (is_consumer) results = add_results(bucket);
    const std::vector<int>* suppliers = nullptr;
    std::vector<int> nodes;  // those that this process supplies to owners with these suppliers
    for (size_t c = 0; c < bucket.consumers->size(); ++c) {
      const RemoteGroup::Consumer& owner = (*bucket.consumers)[c];
      const std::vector<OwnedElements> owned = owned_elements(bucket, c, kUnitBytes / element_);
      if (owner.process == process_) {
        Share& share = shares_.emplace_back(
            Share{&bucket, owned, owner_tree(tree, *owner.suppliers, owner.process), {}, results});
        expect(share, tree, *owner.suppliers);
        if (collects_) hand_out(share);
      } else {
        if (suppliers != owner.suppliers.get()) {
          suppliers = owner.suppliers.get();
          const std::map<int, std::vector<int>> supplied = supplied_subtrees(tree, *suppliers);
          const auto own = supplied.find(process_);
          nodes = own == supplied.end() ? std::vector<int>() : own->second;
        }
        contribute(bucket, owner, owned, tree, nodes);
        if (collects_ && is_consumer) collect(owner.process, owned, results);
      }
    }
  }

  /// Reserves the places where the results of all shares are collected, or those of this process's own share;
  /// they are copied to all destinations in the end.
  std::vector<DeviceTarget> add_results(const ReduceBucket& bucket) {
    std::vector<DeviceTarget> results;
    for (const ReducedGroup& group : bucket.groups) {
      int64_t bytes = input_bytes(*group.collective);
      if (!collects_) bytes /= group.collective->members();
      for (const std::vector<std::byte*>& places : group.results) {
        // The sum of an owner whose result is not sent on is guarded itself.
        const bool is_scratch = collects_ && plan_.is_guarded();
        results.push_back(is_scratch ? plan_.reserve(bytes) : DeviceTarget{places.front(), 0});
        copy_result(plan_, results.back(), places, bytes, handed_on_);
      }
    }
    return results;
  }

  int64_t node_bytes(const TreeNode& node) const {
    return node.left < 0 ? element_ : static_cast<int64_t>(accumulator_bytes(collective_.dtype));
  }
  int64_t block_bytes(const TreeNode& node, const OwnedElements& owned) const {
    return owned.runs.bytes() / element_ * node_bytes(node);
  }

  /// Plans the contributions of the other processes to the share.
  void expect(Share& share, const std::vector<TreeNode>& tree, const std::vector<int>& suppliers) {
    for (const auto& [supplier, nodes] : supplied_subtrees(tree, suppliers)) {
      if (supplier == process_) continue;
      for (const int node : nodes) {
        auto& blocks = of(contributions_in_, supplier, tree[node]);
        for (size_t i = 0; i < share.owned.size(); ++i) {
          DeviceSource& place = share.received[{node, i}];
          blocks.push_back({.bytes = block_bytes(tree[node], share.owned[i]),
                            .direct = {},
                            .stage = [&place](const DeviceTarget& at) { place = at; }});
        }
      }
    }
  }

  void contribute(const ReduceBucket& bucket, const RemoteGroup::Consumer& owner,
                  const std::vector<OwnedElements>& owned, const std::vector<TreeNode>& tree,
                  const std::vector<int>& nodes) {
    for (const int node : nodes) {
      auto& blocks = of(contributions_out_, owner.process, tree[node]);
      const bool is_leaf = tree[node].left < 0;
      const size_t order = is_leaf ? 0 : tree_of(tree, node);
      for (const OwnedElements& e : owned) {
        const ReducedGroup& group = bucket.groups[e.group];
        DeviceBlock<DeviceSource> block{.bytes = block_bytes(tree[node], e), .direct = {}, .stage = {}};
        if (is_leaf) {
          const DeviceSource input{group.inputs[static_cast<size_t>(tree[node].member)], 0};
          if (const auto place = e.runs.contiguous(e.input, 0, e.runs.bytes()))
            block.direct = input.at(*place);
          block.stage = [this, e, input](const DeviceTarget& to) {
            packed_.copies.push_back({.runs = e.runs,
                                      .from = input,
                                      .from_places = e.input,
                                      .to = to,
                                      .to_places = dense(e.runs)});
          };
        } else {
          DeviceSum sum = sum_of(e, order);
          for (const int64_t member : subtree(tree, node).members)
            sum.operands.push_back(own_operand(group, e, member));
          block.stage = [this, sum](const DeviceTarget& to) {
            plan_.plan().before.emplace_back(sum);
            std::get<DeviceSum>(plan_.plan().before.back()).result = to;
          };
        }
        blocks.push_back(std::move(block));
      }
    }
  }

  /// Blocks in the accumulator's type come first, because the size of the other blocks may not be a multiple
  /// of its alignment.
  template <class Place>
  std::vector<DeviceBlock<Place>>& of(std::array<DeviceBlocks<Place>, 2>& blocks, int peer,
                                      const TreeNode& node) const {
    return blocks[node_bytes(node) == element_ ? 1 : 0][peer];
  }

  size_t tree_of(const std::vector<TreeNode>& tree, int node) {
    return plan_.add_tree({subtree(tree, node).tree, collective_.dtype, collective_.reduction, false});
  }

  DeviceSum sum_of(const OwnedElements& e, size_t tree) const {
    return {.tree = tree,
            .operands = {},
            .part = e.runs.length / element_,
            .size = e.runs.bytes() / element_,
            .result = {}};
  }
  DeviceSum::Operand own_operand(const ReducedGroup& group, const OwnedElements& e, int64_t member) const {
    return {{group.inputs[static_cast<size_t>(member)], e.input.begin}, e.input.row / element_};
  }

  void add_sums(const Share& share) {
    const size_t order = plan_.add_tree({share.tree.tree, collective_.dtype, collective_.reduction, true});
    for (size_t i = 0; i < share.owned.size(); ++i) {
      const OwnedElements& e = share.owned[i];
      const ReducedGroup& group = share.bucket->groups[e.group];
      DeviceSum sum = sum_of(e, order);
      for (const OwnerTree::Operand& operand : share.tree.operands) {
        const bool is_own = operand.supplier == process_;
        sum.operands.push_back(is_own ? own_operand(group, e, operand.member)
                                      : DeviceSum::Operand{share.received.at({operand.node, i}), sum.part});
      }
      sum.result = collects_ ? share.results[e.group].at(e.output.begin)
                             : DeviceTarget{group.results[e.result].front(), e.output.begin};
      sum.is_guarded = !collects_ && plan_.is_guarded();
      round(0).after.emplace_back(std::move(sum));
    }
  }

  void hand_out(const Share& share) {
    for (const RemoteGroup::Consumer& consumer : *share.bucket->consumers) {
      if (consumer.process == process_) continue;
      for (const OwnedElements& e : share.owned) {
        const DeviceSource result = share.results[e.group].at(e.output.begin);
        const int64_t bytes = e.runs.bytes();
        results_out_[0][consumer.process].push_back(
            {.bytes = bytes, .direct = result, .stage = [this, result, bytes](const DeviceTarget& to) {
               packed_.copies.push_back(copy_of(result, to, bytes));
             }});
      }
    }
  }

  void collect(int owner, const std::vector<OwnedElements>& owned, const std::vector<DeviceTarget>& results) {
    for (const OwnedElements& e : owned) {
      const DeviceTarget result = results[e.group].at(e.output.begin);
      const int64_t bytes = e.runs.bytes();
      results_in_[0][owner].push_back(
          {.bytes = bytes, .direct = result, .stage = [this, result, bytes](const DeviceTarget& from) {
             arrived_.copies.push_back(copy_of(from, result, bytes));
           }});
    }
  }

  using Out = std::array<DeviceBlocks<DeviceSource>, 2>;
  using In = std::array<DeviceBlocks<DeviceTarget>, 2>;

  /// Plans the messages of a round; `before` is the work in front of it.
  void send(DeviceRound& round, DeviceWork& before, const Out& out, const In& in) {
    for (const auto& blocks : out) plan_.send(blocks, round);
    for (const auto& blocks : in) plan_.receive(blocks, round);
    add_copies(before, std::exchange(packed_, {}));
  }

  static constexpr int64_t kUnitBytes = 256;

  const int process_;
  const Collective& collective_;
  const int64_t element_;  ///< bytes of one element
  const bool collects_;
  PlanBuilder plan_;
  std::list<ReduceBucket> buckets_;
  std::list<Share> shares_;
  Out contributions_out_, results_out_;
  In contributions_in_, results_in_;
  DeviceCopies packed_, arrived_, handed_on_;
};

}  // namespace

DevicePlan plan_owners_sum(const std::vector<RemotePart>& parts, int process) {
  return OwnersSum(parts, process).take();
}

}  // namespace mtf
