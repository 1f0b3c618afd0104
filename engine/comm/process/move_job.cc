#include "engine/comm/process/move_job.h"

#include <cstring>
#include <utility>

#include "engine/comm/move_plan.h"
#include "engine/core/check.h"

namespace mtf {
namespace {

/// A stretch of one member's input, and the places that it goes to.
struct MovedStretch {
  struct Target {
    std::span<std::byte> result;
    RunPlaces places;
  };
  Stretch runs;
  int64_t member = 0;
  RunPlaces places;                   ///< in the input
  std::span<const std::byte> source;  ///< where the input is in this process
  std::vector<Target> targets;        ///< where the results are in this process
};

struct MovedMessage {
  RemoteMessage message;
  const std::vector<MovedStretch>* stretches = nullptr;  ///< of the peer
  std::vector<MessageSlice> slices;

  void pack() const {
    std::byte* out = message.staged;
    for (const MessageSlice& slice : slices) {
      const MovedStretch& s = (*stretches)[slice.sequence];
      mtf::pack(s.runs, s.places, s.source.data(), slice.begin, slice.end, out);
      out += slice.end - slice.begin;
    }
  }
  void unpack() const {
    const std::byte* in = message.staged;
    for (const MessageSlice& slice : slices) {
      const MovedStretch& s = (*stretches)[slice.sequence];
      for (const MovedStretch::Target& target : s.targets) {
        mtf::unpack(s.runs, target.places, target.result.data(), slice.begin, slice.end, in);
      }
      in += slice.end - slice.begin;
    }
  }
};

class MoveJob final : public RemoteJob {
 public:
  MoveJob(Staging& staging, CommunicationThread& thread, const std::vector<RemotePart>& parts,
          std::string name)
      : RemoteJob(staging, thread, parts.empty() ? DType::kBool : parts[0].collective.dtype, std::move(name)),
        to_(staging.transport().size()),
        from_(staging.transport().size()) {
    for (const RemotePart& part : parts) {
      const MovePlan plan = plan_moves(part.collective);
      for (const RemoteGroup& group : part.groups) add(plan, group);
    }
    for (int peer = 0; peer < staging.transport().size(); ++peer) make_messages(peer);
  }

  void run(uint64_t sequence) override {
    for (std::span<std::byte> result : zeroed_) std::ranges::fill(result, std::byte{});
    const auto rounds = static_cast<int64_t>(std::max(sent_.size(), received_.size()));
    for (int64_t round = 0; round < rounds; ++round) {
      if (round >= 2) finish(round - 2);
      post(round, sequence);
      if (round == 0) copy_own();
    }
    if (rounds == 0) copy_own();
    for (int64_t round = std::max<int64_t>(0, rounds - 2); round < rounds; ++round) finish(round);
    wait_in_place();
  }

 private:
  using Messages = std::vector<std::vector<MovedMessage>>;  ///< by round

  void add(const MovePlan& plan, const RemoteGroup& group) {
    for (const RemoteGroup::Consumer& consumer : group.consumers) {
      const bool mine = consumer.process == process();
      // Of this group: stretches that the consumer gets from others or from itself.
      const std::vector<size_t> first = sizes(from_), first_to = sizes(to_);
      for (size_t i = 0; i < consumer.members.size(); ++i) {
        const std::vector<std::byte*> none;
        const std::vector<std::byte*>& results = mine ? group.results[i] : none;
        for (const MovePiece& piece : plan.of(consumer.members[i])) {
          const int supplier = consumer.suppliers[piece.source];
          if (!mine && supplier != process()) continue;
          if (piece.count * piece.length * plan.rows == 0) continue;
          std::vector<MovedStretch>& stretches = mine ? from_[supplier] : to_[consumer.process];
          const size_t begin = mine ? first[supplier] : first_to[consumer.process];
          add(plan, piece, group.inputs[piece.source], results, stretches, begin);
        }
        for (std::byte* result : results) {
          if (plan.zero) zeroed_.push_back({result, static_cast<size_t>(plan.rows * plan.result_row)});
        }
      }
    }
  }

  static std::vector<size_t> sizes(const std::vector<std::vector<MovedStretch>>& lists) {
    std::vector<size_t> result;
    for (const auto& list : lists) result.push_back(list.size());
    return result;
  }

  /// Bytes that one of the stretches from `begin` on has already travel once.
  static void add(const MovePlan& plan, const MovePiece& piece, const std::byte* input,
                  const std::vector<std::byte*>& results, std::vector<MovedStretch>& stretches,
                  size_t begin) {
    MovedStretch stretch;
    stretch.runs = {plan.rows, piece.count, piece.length};
    stretch.member = piece.source;
    stretch.places = {piece.source_begin, plan.source_row, piece.source_step};
    auto known = std::find_if(stretches.begin() + static_cast<ptrdiff_t>(begin), stretches.end(),
                              [&](const MovedStretch& other) {
                                return other.member == stretch.member && other.runs == stretch.runs &&
                                       other.places == stretch.places;
                              });
    if (known == stretches.end()) {
      if (input) stretch.source = {input, static_cast<size_t>(plan.rows * plan.source_row)};
      stretches.push_back(std::move(stretch));
      known = stretches.end() - 1;
    }
    for (std::byte* result : results) {
      known->targets.push_back({{result, static_cast<size_t>(plan.rows * plan.result_row)},
                                {piece.begin, plan.result_row, piece.step}});
    }
  }

  void make_messages(int peer) {
    if (peer == process()) return;
    make_messages(to_[peer], sent_, [&](MovedMessage& moved, int64_t bytes, int64_t round) {
      moved.message = next_sent(peer, MessagePhase::kMove, bytes);
      const MovedStretch& s = (*moved.stretches)[moved.slices[0].sequence];
      const auto place = s.runs.contiguous(s.places, moved.slices[0].begin, moved.slices[0].end);
      if (moved.slices.size() == 1 && place) {
        send_in_place(moved.message, s.source, *place);
      } else {
        stage(moved.message, Use::kContributionOut, peer, round);
      }
    });
    make_messages(from_[peer], received_, [&](MovedMessage& moved, int64_t bytes, int64_t round) {
      moved.message = next_received(peer, MessagePhase::kMove, bytes);
      const MovedStretch& s = (*moved.stretches)[moved.slices[0].sequence];
      const MovedStretch::Target& target = s.targets[0];
      const auto place = s.runs.contiguous(target.places, moved.slices[0].begin, moved.slices[0].end);
      if (moved.slices.size() == 1 && s.targets.size() == 1 && place) {
        receive_in_place(moved.message, target.result, *place);
      } else {
        stage(moved.message, Use::kContributionIn, peer, round);
      }
    });
  }

  template <class Place>
  void make_messages(const std::vector<MovedStretch>& stretches, Messages& messages, const Place& place) {
    std::vector<int64_t> lengths;
    for (const MovedStretch& stretch : stretches) lengths.push_back(stretch.runs.bytes());
    int64_t round = 0;
    for (std::vector<MessageSlice>& slices : cut_messages(lengths, slot_bytes(), kAloneBytes)) {
      int64_t bytes = 0;
      for (const MessageSlice& slice : slices) bytes += slice.end - slice.begin;
      MovedMessage moved{{}, &stretches, std::move(slices)};
      place(moved, bytes, round);
      if (static_cast<int64_t>(messages.size()) == round) messages.emplace_back();
      messages[round++].push_back(std::move(moved));
    }
  }

  static std::span<const MovedMessage> at(const Messages& messages, int64_t round) {
    if (round < static_cast<int64_t>(messages.size())) return messages[round];
    return {};
  }

  void post(int64_t round, uint64_t sequence) {
    for (const MovedMessage& moved : at(received_, round)) moved.message.receive(sequence);
    for (const MovedMessage& moved : at(sent_, round)) {
      if (moved.message.staged) moved.pack();
      moved.message.send(sequence);
    }
  }

  /// Empties the slots of a round.
  void finish(int64_t round) {
    for (const MovedMessage& moved : at(received_, round)) {
      if (!moved.message.staged) continue;
      moved.message.buffer->wait_received();
      moved.unpack();
    }
    for (const MovedMessage& moved : at(sent_, round)) {
      if (moved.message.staged) moved.message.buffer->wait_sent();
    }
  }

  /// What this process supplies to itself.
  void copy_own() {
    for (const MovedStretch& s : from_[process()]) {
      for (const MovedStretch::Target& target : s.targets) {
        s.runs.visit_runs(0, s.runs.bytes(), [&](int64_t run, int64_t, int64_t bytes) {
          std::memcpy(target.result.data() + s.runs.place(target.places, run),
                      s.source.data() + s.runs.place(s.places, run), static_cast<size_t>(bytes));
        });
      }
    }
  }

  std::vector<std::vector<MovedStretch>> to_, from_;  ///< by peer, in the order in which they travel
  std::vector<std::span<std::byte>> zeroed_;
  Messages sent_, received_;
};

}  // namespace

std::unique_ptr<RemoteCollective> prepare_move_job(Staging& staging, CommunicationThread& thread,
                                                   const std::vector<RemotePart>& parts, std::string name) {
  return std::make_unique<MoveJob>(staging, thread, parts, std::move(name));
}

}  // namespace mtf
