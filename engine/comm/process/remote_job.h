// The common base of collectives between processes: their place in the queue of the communication thread,
// their messages, and the memory for these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/communication_thread.h"
#include "engine/comm/process/message_plan.h"
#include "engine/comm/process/transport.h"

namespace mtf {

/// Returns the size in bytes of the largest message: at most 4 MiB may be in transit to (or from) all peers
/// together.
int64_t largest_message(int processes);

/// Memory into which messages are packed and from which they are unpacked. All collectives of a process share
/// it: they run one after the other, and no message outlasts its collective.
class Staging {
 public:
  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<MessageBuffer> buffer;
  };

  explicit Staging(Transport& transport);
  Transport& transport() const { return transport_; }
  /// Returns the size of a slot, which is that of the largest message; it is the same in all processes.
  int64_t slot_bytes() const { return slot_bytes_; }
  Slot& slot(size_t index);
  /// Returns the largest part of the memory that a process accesses if no collective has more than `bytes`.
  static int64_t most_bytes(int processes, int64_t bytes);

 private:
  Transport& transport_;
  int64_t slot_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

/// A message as seen by one of its ends.
struct RemoteMessage {
  int peer = 0;
  int64_t bytes = 0;
  uint32_t mark = 0;
  MessageBuffer* buffer = nullptr;
  size_t offset = 0;
  std::byte* staged = nullptr;  ///< memory of its slot; null: the message is in its place

  void send(uint64_t sequence) const { buffer->send(peer, message_tag(sequence, mark), offset, bytes); }
  void receive(uint64_t sequence) const { buffer->receive(peer, message_tag(sequence, mark), offset, bytes); }
};

class RemoteJob : public RemoteCollective, public CommunicationJob {
 public:
  RemoteJob(Staging& staging, CommunicationThread& thread, DType dtype, std::string name);
  void start() final { ticket_ = thread_.start(*this); }
  void wait() final { thread_.wait(ticket_); }
  double bytes_sent() const final { return static_cast<double>(bytes_); }
  const std::string& name() const final { return name_; }
  int64_t bytes() const final { return bytes_; }

 protected:
  /// The use of a slot; each use has two slots that alternate.
  enum class Use { kContributionIn, kContributionOut, kResultIn, kResultOut };

  int process() const { return staging_.transport().rank(); }
  int64_t slot_bytes() const { return staging_.slot_bytes(); }
  /// Return the next message to or from `peer`; both ends must call them in the same order.
  RemoteMessage next_sent(int peer, MessagePhase phase, int64_t bytes);
  RemoteMessage next_received(int peer, MessagePhase phase, int64_t bytes);
  /// Decide where a message is: in a slot, or at `offset` of a value. Messages in their place are waited for
  /// at the end of the run.
  void stage(RemoteMessage& message, Use use, int peer, int64_t round);
  void send_in_place(RemoteMessage& message, std::span<const std::byte> value, int64_t offset);
  void receive_in_place(RemoteMessage& message, std::span<std::byte> value, int64_t offset);
  /// Waits for all messages of one run that are in their place.
  void wait_in_place();

 private:
  struct InPlace {
    std::unique_ptr<MessageBuffer> buffer;
    int64_t sent = 0, received = 0;  ///< number of messages in one run
  };
  InPlace& in_place(std::span<std::byte> value);

  Staging& staging_;
  CommunicationThread& thread_;
  DType dtype_;
  std::string name_;
  uint64_t ticket_ = 0;
  int64_t bytes_ = 0;
  std::vector<int64_t> sent_, received_;  ///< number of messages so far for each peer
  std::map<std::tuple<Use, int, int64_t>, Staging::Slot*> slots_;
  std::map<std::pair<const std::byte*, size_t>, InPlace> in_place_;  ///< by address and size of the value
};

}  // namespace mtf
