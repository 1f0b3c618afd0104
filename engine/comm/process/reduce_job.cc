#include "engine/comm/process/reduce_job.h"

#include <cstring>
#include <utility>

#include "engine/comm/process/owned_elements.h"

namespace mtf {
namespace {

/// The elements of one owner in one message.
struct OwnedMessage {
  const ReduceBucket* bucket = nullptr;
  const std::vector<OwnedElements>* owned = nullptr;
  std::vector<MessageSlice> slices;  ///< in bytes of the element type

  int64_t bytes() const {
    int64_t bytes = 0;
    for (const MessageSlice& slice : slices) bytes += slice.end - slice.begin;
    return bytes;
  }
  /// Calls visit(group, result of the owner, byte in the inputs, byte in the result, number of bytes).
  template <class Visit>
  void visit_runs(const Visit& visit) const {
    for (const MessageSlice& slice : slices) {
      const OwnedElements& e = (*owned)[slice.sequence];
      e.runs.visit_runs(slice.begin, slice.end, [&](int64_t run, int64_t first, int64_t bytes) {
        visit(bucket->groups[e.group], e.result, e.runs.place(e.input, run) + first,
              e.runs.place(e.output, run) + first, bytes);
      });
    }
  }
  /// Returns the group, and the place in its input (or its result), if the message is contiguous there.
  std::optional<std::pair<const ReducedGroup*, int64_t>> in_one_piece(
      SegmentStrides OwnedElements::*side) const {
    if (slices.size() != 1) return std::nullopt;
    const OwnedElements& e = (*owned)[slices[0].sequence];
    const auto place = e.runs.contiguous(e.*side, slices[0].begin, slices[0].end);
    if (!place) return std::nullopt;
    return std::pair(&bucket->groups[e.group], *place);
  }
};

/// The contribution of this process to an owner: blocks of elements, one for each subtree.
struct Contribution {
  RemoteMessage message;
  const OwnedMessage* elements = nullptr;
  const TreeReduction* reduction = nullptr;  ///< reduction of the whole tree
  const std::vector<TreeNode>* tree = nullptr;
  std::vector<int> nodes;
};

/// The work of an owner for one message: it adds what others have sent and its own inputs.
struct OwnedSum {
  const OwnedMessage* elements = nullptr;
  std::vector<RemoteMessage> contributions;
  const TreeReduction* reduction = nullptr;  ///< reduction of the owner's tree
  struct Operand {
    const std::byte* block = nullptr;  ///< block in a slot; null: an input of this process
    int64_t member = 0;
    int64_t element_bytes = 0;
  };
  std::vector<Operand> operands;
};

/// A message with an owner's result to another process.
struct ResultMessage {
  RemoteMessage message;
  const OwnedMessage* elements = nullptr;
};

/// Message number t of each owner of one bucket.
struct ReduceRound {
  std::vector<Contribution> contributions;
  std::optional<OwnedSum> sum;
  std::vector<ResultMessage> results_out, results_in;
};

class ReduceJob final : public RemoteJob {
 public:
  ReduceJob(Staging& staging, CommunicationThread& thread, std::vector<RemotePart> parts, std::string name)
      : RemoteJob(staging, thread, parts.empty() ? DType::kBool : parts[0].collective.dtype, std::move(name)),
        parts_(std::move(parts)),
        buckets_(reduce_buckets(parts_)) {
    for (const ReduceBucket& bucket : buckets_) add_bucket(bucket);
  }

  void run(uint64_t sequence) override {
    const auto rounds = static_cast<int64_t>(rounds_.size());
    if (rounds > 0) post(rounds_[0], sequence);
    for (int64_t i = 0; i < rounds; ++i) {
      if (i + 1 < rounds) {
        if (i > 0) finish(rounds_[i - 1]);
        post(rounds_[i + 1], sequence);
      }
      add(rounds_[i], sequence);
    }
    for (int64_t i = std::max<int64_t>(0, rounds - 2); i < rounds; ++i) finish(rounds_[i]);
    wait_in_place();
    copy_results();
  }

 private:
  /// Everything that concerns one owner of a bucket.
  struct Owner {
    int process = 0;
    std::map<int, std::vector<int>> supplied;  ///< subtrees that each other process supplies
    std::vector<OwnedMessage*> messages;
    OwnerTree tree;
    const TreeReduction* reduction = nullptr;  ///< reduction of `tree`, if this process is the owner
  };

  void add_bucket(const ReduceBucket& bucket) {
    const Collective& collective = *bucket.groups[0].collective;
    trees_.push_back(std::make_unique<std::vector<TreeNode>>(reduction_tree(collective.group)));
    const std::vector<TreeNode>& tree = *trees_.back();
    const TreeReduction& whole = keep(prepare_reduction(tree, collective.dtype, collective.reduction));
    std::vector<Owner> owners;
    size_t rounds = 0;
    for (size_t c = 0; c < bucket.consumers->size(); ++c) {
      owners.push_back(make_owner(bucket, c, tree));
      rounds = std::max(rounds, owners.back().messages.size());
    }
    for (size_t t = 0; t < rounds; ++t) {
      ReduceRound round;
      const auto number = static_cast<int64_t>(rounds_.size());
      for (const Owner& owner : owners) {
        if (t >= owner.messages.size()) continue;
        const OwnedMessage& elements = *owner.messages[t];
        if (owner.process == process()) {
          round.sum = make_sum(owner, tree, elements, number);
        } else {
          add_contribution(owner, tree, whole, elements, number, round);
        }
        if (collective.kind == Collective::Kind::kAllReduce) add_results(owner, elements, number, round);
      }
      rounds_.push_back(std::move(round));
    }
    keep_copies(bucket);
  }

  Owner make_owner(const ReduceBucket& bucket, size_t c, const std::vector<TreeNode>& tree) {
    const Collective& collective = *bucket.groups[0].collective;
    const RemoteGroup::Consumer& consumer = (*bucket.consumers)[c];
    Owner owner{consumer.process, supplied_subtrees(tree, *consumer.suppliers), {}, {}, nullptr};
    owner.supplied.erase(owner.process);
    owner.tree = owner_tree(tree, *consumer.suppliers, consumer.process);
    if (consumer.process == process()) {
      owner.reduction = &keep(prepare_reduction(owner.tree.tree, collective.dtype, collective.reduction));
    }
    owned_.push_back(std::make_unique<std::vector<OwnedElements>>(owned_elements(bucket, c)));
    const auto element = static_cast<int64_t>(size_of(collective.dtype));
    std::vector<int64_t> lengths;  // in elements
    for (const OwnedElements& e : *owned_.back()) lengths.push_back(e.runs.bytes() / element);
    const int64_t most = std::max<int64_t>(1, slot_bytes() / widest(owner, tree, collective.dtype));
    for (std::vector<MessageSlice>& slices : cut_messages(lengths, most, kAloneBytes / element)) {
      for (MessageSlice& slice : slices) {
        slice.begin *= element;
        slice.end *= element;
      }
      messages_.push_back(
          std::make_unique<OwnedMessage>(OwnedMessage{&bucket, owned_.back().get(), std::move(slices)}));
      owner.messages.push_back(messages_.back().get());
    }
    return owner;
  }

  /// Returns the largest number of bytes of one element in any message to or from the owner.
  static int64_t widest(const Owner& owner, const std::vector<TreeNode>& tree, DType dtype) {
    auto most = static_cast<int64_t>(size_of(dtype));
    for (const auto& [supplier, nodes] : owner.supplied)
      most = std::max(most, element_bytes(tree, nodes, dtype));
    return most;
  }

  int64_t contribution_bytes(const OwnedMessage& elements, const std::vector<TreeNode>& tree,
                             const std::vector<int>& nodes) const {
    const DType dtype = elements.bucket->groups[0].collective->dtype;
    return elements.bytes() / static_cast<int64_t>(size_of(dtype)) * element_bytes(tree, nodes, dtype);
  }

  OwnedSum make_sum(const Owner& owner, const std::vector<TreeNode>& tree, const OwnedMessage& elements,
                    int64_t round) {
    const DType dtype = elements.bucket->groups[0].collective->dtype;
    const auto element = static_cast<int64_t>(size_of(dtype));
    OwnedSum sum{&elements, {}, owner.reduction, {}};
    std::map<int, const std::byte*> blocks;  // block of each node of the whole tree
    for (const auto& [supplier, nodes] : owner.supplied) {
      RemoteMessage message =
          next_received(supplier, MessagePhase::kContribution, contribution_bytes(elements, tree, nodes));
      stage(message, Use::kContributionIn, supplier, round);
      const std::byte* block = message.staged;
      for (int node : nodes) {
        blocks[node] = block;
        block += elements.bytes() / element * element_bytes(tree, {node}, dtype);
      }
      sum.contributions.push_back(message);
    }
    for (const OwnerTree::Operand& operand : owner.tree.operands) {
      const auto block = blocks.find(operand.node);
      sum.operands.push_back({block == blocks.end() ? nullptr : block->second, operand.member,
                              element_bytes(tree, {operand.node}, dtype)});
    }
    operands_.resize(std::max(operands_.size(), sum.operands.size()));
    return sum;
  }

  void add_contribution(const Owner& owner, const std::vector<TreeNode>& tree, const TreeReduction& whole,
                        const OwnedMessage& elements, int64_t number, ReduceRound& round) {
    const auto supplied = owner.supplied.find(process());
    if (supplied == owner.supplied.end()) return;
    Contribution contribution{{}, &elements, &whole, &tree, supplied->second};
    contribution.message = next_sent(owner.process, MessagePhase::kContribution,
                                     contribution_bytes(elements, tree, contribution.nodes));
    const TreeNode& first = tree[contribution.nodes[0]];
    const auto piece = elements.in_one_piece(&OwnedElements::input);
    if (contribution.nodes.size() == 1 && first.left < 0 && piece) {
      send_in_place(contribution.message, input(*piece->first, first.member), piece->second);
    } else {
      stage(contribution.message, Use::kContributionOut, owner.process, number);
    }
    round.contributions.push_back(std::move(contribution));
  }

  static int64_t input_bytes(const Collective& collective) {
    auto bytes = static_cast<int64_t>(size_of(collective.dtype));
    for (int64_t size : collective.input) bytes *= size;
    return bytes;
  }

  static std::span<const std::byte> input(const ReducedGroup& group, int64_t member) {
    return {group.inputs[member], static_cast<size_t>(input_bytes(*group.collective))};
  }

  /// Returns the first destination of the result of an all_reduce.
  static std::span<std::byte> result(const ReducedGroup& group) {
    return {group.results[0][0], static_cast<size_t>(input_bytes(*group.collective))};
  }

  void add_results(const Owner& owner, const OwnedMessage& elements, int64_t number, ReduceRound& round) {
    if (!elements.bucket->consumer(process())) return;
    const auto piece = elements.in_one_piece(&OwnedElements::output);
    if (owner.process != process()) {
      ResultMessage in{next_received(owner.process, MessagePhase::kResult, elements.bytes()), &elements};
      if (piece) {
        receive_in_place(in.message, result(*piece->first), piece->second);
      } else {
        stage(in.message, Use::kResultIn, owner.process, number);
      }
      round.results_in.push_back(in);
      return;
    }
    for (const RemoteGroup::Consumer& consumer : *elements.bucket->consumers) {
      if (consumer.process == process()) continue;
      ResultMessage out{next_sent(consumer.process, MessagePhase::kResult, elements.bytes()), &elements};
      if (piece) {
        send_in_place(out.message, result(*piece->first), piece->second);
      } else {
        stage(out.message, Use::kResultOut, process(), number);  // all of them share one slot
      }
      round.results_out.push_back(out);
    }
  }

  /// Adds the copies of results to their other destinations.
  void keep_copies(const ReduceBucket& bucket) {
    for (const ReducedGroup& group : bucket.groups) {
      const Collective& collective = *group.collective;
      int64_t bytes = input_bytes(collective);
      if (collective.kind == Collective::Kind::kReduceScatter) bytes /= collective.members();
      for (const std::vector<std::byte*>& places : group.results) {
        for (size_t i = 1; i < places.size(); ++i) copies_.push_back({places[0], places[i], bytes});
      }
    }
  }

  const TreeReduction& keep(std::unique_ptr<TreeReduction> reduction) {
    reductions_.push_back(std::move(reduction));
    return *reductions_.back();
  }

  void post(const ReduceRound& round, uint64_t sequence) {
    if (round.sum) {
      for (const RemoteMessage& message : round.sum->contributions) message.receive(sequence);
    }
    for (const ResultMessage& in : round.results_in) in.message.receive(sequence);
    for (const Contribution& contribution : round.contributions) {
      if (contribution.message.staged) pack(contribution);
      contribution.message.send(sequence);
    }
  }

  static void pack(const Contribution& contribution) {
    std::byte* out = contribution.message.staged;
    for (int node : contribution.nodes) {
      const TreeNode& tree = (*contribution.tree)[node];
      contribution.elements->visit_runs(
          [&](const ReducedGroup& group, size_t, int64_t in, int64_t, int64_t bytes) {
            if (tree.left < 0) {
              std::memcpy(out, group.inputs[tree.member] + in, static_cast<size_t>(bytes));
              out += bytes;
              return;
            }
            const DType dtype = group.collective->dtype;
            const auto element = static_cast<int64_t>(size_of(dtype));
            contribution.reduction->add(group.inputs, node, in / element, bytes / element, out);
            out += bytes / element * static_cast<int64_t>(accumulator_bytes(dtype));
          });
    }
  }

  /// Computes the share of this process and sends the results.
  void add(const ReduceRound& round, uint64_t sequence) {
    if (!round.sum) return;
    for (const RemoteMessage& message : round.sum->contributions) message.buffer->wait_received();
    add(*round.sum);
    if (!round.results_out.empty() && round.results_out[0].message.staged) {
      std::byte* out = round.results_out[0].message.staged;
      round.sum->elements->visit_runs(
          [&](const ReducedGroup& group, size_t, int64_t, int64_t place, int64_t bytes) {
            std::memcpy(out, group.results[0][0] + place, static_cast<size_t>(bytes));
            out += bytes;
          });
    }
    for (const ResultMessage& out : round.results_out) out.message.send(sequence);
  }

  void add(const OwnedSum& sum) {
    int64_t done = 0;  // number of elements of the message that are done
    sum.elements->visit_runs(
        [&](const ReducedGroup& group, size_t result, int64_t in, int64_t place, int64_t bytes) {
          for (size_t i = 0; i < sum.operands.size(); ++i) {
            const OwnedSum::Operand& operand = sum.operands[i];
            operands_[i] = operand.block ? operand.block + done * operand.element_bytes
                                         : group.inputs[operand.member] + in;
          }
          const int64_t elements = bytes / static_cast<int64_t>(size_of(group.collective->dtype));
          sum.reduction->reduce(operands_, 0, elements, group.results[result][0] + place);
          done += elements;
        });
  }

  /// Waits for the messages of a round that are in slots, and unpacks those that were received.
  static void finish(const ReduceRound& round) {
    for (const ResultMessage& in : round.results_in) {
      if (!in.message.staged) continue;
      in.message.buffer->wait_received();
      const std::byte* from = in.message.staged;
      in.elements->visit_runs([&](const ReducedGroup& group, size_t, int64_t, int64_t place, int64_t bytes) {
        std::memcpy(group.results[0][0] + place, from, static_cast<size_t>(bytes));
        from += bytes;
      });
    }
    for (const Contribution& contribution : round.contributions) {
      if (contribution.message.staged) contribution.message.buffer->wait_sent();
    }
    for (const ResultMessage& out : round.results_out) {
      if (out.message.staged) out.message.buffer->wait_sent();
    }
  }

  void copy_results() const {
    for (const Copy& copy : copies_) std::copy_n(copy.from, copy.bytes, copy.to);
  }

  struct Copy {
    const std::byte* from;
    std::byte* to;
    int64_t bytes;
  };
  std::vector<RemotePart> parts_;
  std::vector<ReduceBucket> buckets_;
  // The objects to which the rounds refer.
  std::vector<std::unique_ptr<std::vector<TreeNode>>> trees_;
  std::vector<std::unique_ptr<TreeReduction>> reductions_;
  std::vector<std::unique_ptr<std::vector<OwnedElements>>> owned_;
  std::vector<std::unique_ptr<OwnedMessage>> messages_;
  std::vector<ReduceRound> rounds_;
  std::vector<Copy> copies_;
  std::vector<const std::byte*> operands_;
};

}  // namespace

std::unique_ptr<RemoteCollective> prepare_reduce_job(Staging& staging, CommunicationThread& thread,
                                                     std::vector<RemotePart> parts, std::string name) {
  return std::make_unique<ReduceJob>(staging, thread, std::move(parts), std::move(name));
}

}  // namespace mtf
