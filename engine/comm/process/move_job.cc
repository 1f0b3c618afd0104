#include "engine/comm/process/move_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/comm/process/moved_segments.h"

namespace mtf {
namespace {

struct MovedMessage {
  RemoteMessage message;
  const std::vector<MovedSegment>* segments = nullptr;  ///< the segments of the peer
  std::vector<MessageSlice> slices;

  void pack() const {
    std::byte* out = message.staged;
    for (const MessageSlice& slice : slices) {
      const MovedSegment& s = (*segments)[slice.sequence];
      mtf::pack(s.runs, s.places, s.source.data(), slice.begin, slice.end, out);
      out += slice.end - slice.begin;
    }
  }
  void unpack() const {
    const std::byte* in = message.staged;
    for (const MessageSlice& slice : slices) {
      const MovedSegment& s = (*segments)[slice.sequence];
      for (const MovedSegment::Target& target : s.targets) {
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
        segments_(moved_segments(parts, staging.transport().rank(), staging.transport().size())) {
    for (int peer = 0; peer < staging.transport().size(); ++peer) make_messages(peer);
  }

  void run(uint64_t sequence) override {
    write_zeros();
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
  using Messages = std::vector<std::vector<MovedMessage>>;  ///< messages of each round

  void make_messages(int peer) {
    if (peer == process()) return;
    make_messages(segments_.to[peer], sent_, [&](MovedMessage& moved, int64_t bytes, int64_t round) {
      moved.message = next_sent(peer, MessagePhase::kMove, bytes);
      const MovedSegment& s = (*moved.segments)[moved.slices[0].sequence];
      const auto place = s.runs.contiguous(s.places, moved.slices[0].begin, moved.slices[0].end);
      if (moved.slices.size() == 1 && place) {
        send_in_place(moved.message, s.source, *place);
      } else {
        stage(moved.message, Use::kContributionOut, peer, round);
      }
    });
    make_messages(segments_.from[peer], received_, [&](MovedMessage& moved, int64_t bytes, int64_t round) {
      moved.message = next_received(peer, MessagePhase::kMove, bytes);
      const MovedSegment& s = (*moved.segments)[moved.slices[0].sequence];
      const MovedSegment::Target& target = s.targets[0];
      const auto place = s.runs.contiguous(target.places, moved.slices[0].begin, moved.slices[0].end);
      if (moved.slices.size() == 1 && s.targets.size() == 1 && place) {
        receive_in_place(moved.message, target.result, *place);
      } else {
        stage(moved.message, Use::kContributionIn, peer, round);
      }
    });
  }

  template <class Place>
  void make_messages(const std::vector<MovedSegment>& segments, Messages& messages, const Place& place) {
    std::vector<int64_t> lengths;
    for (const MovedSegment& segment : segments) lengths.push_back(segment.runs.bytes());
    int64_t round = 0;
    for (std::vector<MessageSlice>& slices : cut_messages(lengths, slot_bytes(), kAloneBytes)) {
      int64_t bytes = 0;
      for (const MessageSlice& slice : slices) bytes += slice.end - slice.begin;
      MovedMessage moved{{}, &segments, std::move(slices)};
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

  /// Waits for the messages of a round that are in slots, and unpacks those that were received.
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

  void write_zeros() const {
    for (const auto& zeros : segments_.zeros) {
      zeros.runs.visit_runs(0, zeros.runs.bytes(), [&](int64_t run, int64_t, int64_t bytes) {
        std::fill_n(zeros.target.result.data() + zeros.runs.place(zeros.target.places, run), bytes,
                    std::byte{});
      });
    }
  }

  /// Copies what this process supplies to itself.
  void copy_own() {
    for (const MovedSegment& s : segments_.from[process()]) {
      for (const MovedSegment::Target& target : s.targets) {
        s.runs.visit_runs(0, s.runs.bytes(), [&](int64_t run, int64_t, int64_t bytes) {
          std::memcpy(target.result.data() + s.runs.place(target.places, run),
                      s.source.data() + s.runs.place(s.places, run), static_cast<size_t>(bytes));
        });
      }
    }
  }

  const MovedSegments segments_;
  Messages sent_, received_;
};

}  // namespace

std::unique_ptr<RemoteCollective> prepare_move_job(Staging& staging, CommunicationThread& thread,
                                                   const std::vector<RemotePart>& parts, std::string name) {
  return std::make_unique<MoveJob>(staging, thread, parts, std::move(name));
}

}  // namespace mtf
