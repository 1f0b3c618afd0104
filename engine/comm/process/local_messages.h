// Messages between processes of one machine, from memory to memory: the sender tells where its bytes are, and the receiver
// copies them (process_vm_readv of Linux). Each process has a mailbox, a page that the others map, into which they write what
// they send; who waits sleeps on a word of it. Neither sockets nor a thread carry the bytes, unless a process has other
// peers, too, whose messages it may wait for meanwhile.
//
//   std::unique_ptr<LocalMessages> messages = make_local_messages(rank, size);
//   bool is_local = messages->open(peer, card_of_peer);       // cards are exchanged by other means
//   messages->receive(ends, peer, tag, to, bytes);
//   int peer = messages->wait(ends, LocalMessages::Way::kReceived);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mtf {

class LocalMessages {
 public:
  /// What the other processes must know to read from the memory of this one.
  struct Card {
    int64_t process = 0;      ///< its id
    int64_t descriptor = -1;  ///< of its mailbox; -1: it has none
    uint64_t address = 0;     ///< of `token` in its memory
    /// Random: another process of this id, on another machine, has another one there.
    std::array<char, 16> token = {};
  };
  enum class Way { kSent, kReceived };
  /// The peers of the messages of one buffer that have ended and that nobody has waited for yet.
  struct Ends {
    std::vector<int> sent, received;
    int error = 0;  ///< errno if the memory of a sender could not be read
  };

  virtual ~LocalMessages() = default;
  virtual Card card() const = 0;
  /// Maps the mailbox of a peer. Returns false if it is on another machine, or if its memory may not be read: it belongs to
  /// another user, or the system forbids it. Messages to it must not be sent here then.
  virtual bool open(int peer, const Card& card) = 0;
  /// Begins to move messages while nobody waits here, for processes that have peers elsewhere, too.
  virtual void move_in_background() = 0;

  /// As those of a MessageBuffer; `ends` must stay where it is until its messages have ended, or until forget().
  virtual void send(Ends& ends, int peer, uint64_t tag, const std::byte* from, size_t bytes) = 0;
  virtual void receive(Ends& ends, int peer, uint64_t tag, std::byte* to, size_t bytes) = 0;
  /// Waits for one more message of `ends` and returns its peer; returns -1 after wake(). Throws std::system_error if the memory
  /// of a sender cannot be read, which is so when it has ended.
  virtual int wait(Ends& ends, Way way) = 0;
  /// Makes all threads that wait return.
  virtual void wake() = 0;
  /// Takes back the messages of `ends` that have not ended.
  virtual void forget(Ends& ends) = 0;
};

std::unique_ptr<LocalMessages> make_local_messages(int rank, int size);

}  // namespace mtf
