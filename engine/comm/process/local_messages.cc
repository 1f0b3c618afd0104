#include "engine/comm/process/local_messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/comm/security/secret.h"

namespace mtf {
namespace {

constexpr int kSlots = 64;

/// The states of a message. Its receiver takes what is posted; its sender frees what was read.
enum State : uint32_t { kFree, kPosted, kTaken, kRead };

/// A message that its receiver has not read yet.
struct Slot {
  std::atomic<uint32_t> state;
  uint64_t tag, address, bytes;  ///< address: in the memory of the sender
};

/// The messages from one process to another.
struct Lane {
  std::atomic<uint64_t> posted;  ///< how many there were so far
  Slot slots[kSlots];
};

/// Memory of a process that the other processes map, followed by a lane from each of them: zeros at first.
struct alignas(64) Mailbox {
  std::atomic<uint32_t> bell;  ///< changes whenever there is something to look at
  std::atomic<uint32_t> wait_for_messages,
      wait_for_readers;  ///< threads of the owner that sleep until the bell rings
};
static_assert(sizeof(Mailbox) == 64);

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

size_t mailbox_bytes(int size) { return sizeof(Mailbox) + sizeof(Lane) * static_cast<size_t>(size); }
Lane& lane_of(Mailbox& mailbox, int64_t sender) { return reinterpret_cast<Lane*>(&mailbox + 1)[sender]; }

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

/// What the bell of a mailbox tells: a message, or that one was read. It wakes only those whom this concerns.
enum class Ring { kMessage, kRead, kAll };

void ring(Mailbox& mailbox, Ring what) {
  mailbox.bell.fetch_add(1);
  const bool sleeps =
      mailbox.wait_for_readers.load() > 0 || (what != Ring::kRead && mailbox.wait_for_messages.load() > 0);
  if (sleeps || what == Ring::kAll) futex(mailbox.bell, FUTEX_WAKE, INT_MAX);
}

/// Memory of a mailbox, here or in another process.
class MappedMailbox {
 public:
  MappedMailbox() = default;
  MappedMailbox(int descriptor, int size) : bytes_(mailbox_bytes(size)) {
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory != MAP_FAILED) memory_ = memory;
  }
  MappedMailbox(MappedMailbox&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  MappedMailbox& operator=(MappedMailbox&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedMailbox() {
    if (memory_ != nullptr) ::munmap(memory_, bytes_);
  }
  explicit operator bool() const { return memory_ != nullptr; }
  Mailbox& operator*() const { return *static_cast<Mailbox*>(memory_); }
  Mailbox* operator->() const { return static_cast<Mailbox*>(memory_); }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// Returns 0, or errno.
int read_memory(pid_t process, uint64_t address, void* to, size_t bytes) {
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(address), bytes};
  const ssize_t read = bytes == 0 ? 0 : ::process_vm_readv(process, &local, 1, &remote, 1, 0);
  if (read < 0) return errno;
  return static_cast<size_t>(read) == bytes ? 0 : EFAULT;
}

class Mover final : public LocalMessages {
 public:
  Mover(int rank, int size) : rank_(rank), size_(size), peers_(static_cast<size_t>(size)) {
    // Yama lets a process read the memory of its descendants only. Processes of one launcher are its descendants.
    ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(::getppid()), 0, 0, 0);
    descriptor_ = ::memfd_create("mtf-train messages", MFD_CLOEXEC);
    if (descriptor_ < 0) return;
    if (::ftruncate(descriptor_, static_cast<off_t>(mailbox_bytes(size))) == 0)
      own_ = MappedMailbox(descriptor_, size);
    card_ = {::getpid(), own_ ? descriptor_ : -1, reinterpret_cast<uint64_t>(&card_.token), {}};
    random_bytes(card_.token.size()).copy(card_.token.data(), card_.token.size());
  }
  ~Mover() override {
    if (background_.joinable()) {
      background_.request_stop();
      wake();
      background_.join();
    }
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  Card card() const override { return card_; }

  bool open(int peer, const Card& card) override {
    if (card.descriptor < 0 || card_.descriptor < 0) return false;
    decltype(card.token) token = {};
    const auto process = static_cast<pid_t>(card.process);
    if (read_memory(process, card.address, token.data(), token.size()) != 0 || token != card.token)
      return false;
    const int descriptor =
        ::open(fmt::format("/proc/{}/fd/{}", card.process, card.descriptor).c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return false;
    Peer& there = at(peer);
    there.process = process;
    there.mailbox = MappedMailbox(descriptor, size_);
    ::close(descriptor);
    return static_cast<bool>(there.mailbox);
  }

  void move_in_background() override {
    background_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) sleep_until([&] { return stop.stop_requested(); }, Way::kSent);
    });
  }

  void send(Ends& ends, int peer, uint64_t tag, const std::byte* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    at(peer).unposted.push_back({&ends, tag, from, bytes});
    post(at(peer));
  }

  void receive(Ends& ends, int peer, uint64_t tag, std::byte* to, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    at(peer).receives.push_back({&ends, tag, to, bytes});
    at(peer).has_new_receive = true;
    if (background_.joinable()) ring(*own_, Ring::kMessage);
  }

  int wait(Ends& ends, Way way) override {
    std::vector<int>& ended = way == Way::kSent ? ends.sent : ends.received;
    int peer = -1;
    sleep_until(
        [&] {
          if (ends.error != 0) throw std::system_error(ends.error, std::generic_category());
          if (ended.empty()) return false;
          peer = ended.back();
          ended.pop_back();
          return true;
        },
        way);
    return peer;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      ++wakes_;
    }
    if (own_) ring(*own_, Ring::kAll);
  }

  void forget(Ends& ends) override {
    const std::lock_guard lock(mutex_);
    for (Peer& peer : peers_) {
      std::erase_if(peer.receives, [&](const Receive& receive) { return receive.ends == &ends; });
      std::erase_if(peer.unposted, [&](const Unposted& send) { return send.ends == &ends; });
      for (int i = 0; i < kSlots; ++i) {
        if (peer.sends[static_cast<size_t>(i)] != &ends) continue;
        take_back(lane_to(peer).slots[i]);
        peer.sends[static_cast<size_t>(i)] = nullptr;
      }
    }
  }

 private:
  struct Unposted {
    Ends* ends;
    uint64_t tag;
    const std::byte* from;
    size_t bytes;
  };
  struct Receive {
    Ends* ends;
    uint64_t tag;
    std::byte* to;
    size_t bytes;
  };
  struct Peer {
    pid_t process = 0;
    MappedMailbox mailbox;
    std::array<Ends*, kSlots> sends =
        {};                         ///< those of each slot of the lane to the peer; null: the slot is free
    std::deque<Unposted> unposted;  ///< sends for which no slot is free
    std::vector<Receive> receives;
    uint64_t seen = 0;  ///< messages of the peer that were looked at
    bool has_new_receive = false;
  };

  int number(const Peer& peer) const { return static_cast<int>(&peer - peers_.data()); }
  Peer& at(int peer) { return peers_[static_cast<size_t>(peer)]; }
  Lane& lane_to(const Peer& peer) const { return lane_of(*peer.mailbox, rank_); }

  /// Moves what can be moved, until `is_done` returns true or until wake(); sleeps while there is nothing to do.
  template <class Done>
  void sleep_until(const Done& is_done, Way way) {
    std::atomic<uint32_t>& sleepers = way == Way::kSent ? own_->wait_for_readers : own_->wait_for_messages;
    uint64_t wakes = 0;
    for (bool is_first = true;; is_first = false) {
      const uint32_t bell = own_->bell.load();
      {
        const std::lock_guard lock(mutex_);
        if (std::exchange(wakes, wakes_) != wakes_ && !is_first) return;
        move();
        if (is_done()) return;
      }
      sleepers.fetch_add(1);
      futex(own_->bell, FUTEX_WAIT, bell);
      sleepers.fetch_sub(1);
    }
  }

  void move() {
    bool has_ended = false;
    for (Peer& peer : peers_) {
      if (!peer.mailbox) continue;
      has_ended |= end_sends(peer);
      post(peer);
      has_ended |= read(peer);
    }
    // Another thread may wait for what has ended.
    if (has_ended && own_->wait_for_messages.load() + own_->wait_for_readers.load() > 0)
      ring(*own_, Ring::kMessage);
  }

  bool end_sends(Peer& peer) {
    bool has_ended = false;
    for (int i = 0; i < kSlots; ++i) {
      Ends*& ends = peer.sends[static_cast<size_t>(i)];
      Slot& slot = lane_to(peer).slots[i];
      if (ends == nullptr || slot.state.load(std::memory_order_acquire) != kRead) continue;
      slot.state.store(kFree, std::memory_order_relaxed);
      std::exchange(ends, nullptr)->sent.push_back(number(peer));
      has_ended = true;
    }
    return has_ended;
  }

  void post(Peer& peer) {
    bool has_posted = false;
    for (int i = 0; i < kSlots && !peer.unposted.empty(); ++i) {
      if (peer.sends[static_cast<size_t>(i)] != nullptr) continue;
      const Unposted& send = peer.unposted.front();
      Slot& slot = lane_to(peer).slots[i];
      slot.tag = send.tag;
      slot.address = reinterpret_cast<uint64_t>(send.from);
      slot.bytes = send.bytes;
      slot.state.store(kPosted, std::memory_order_release);
      lane_to(peer).posted.fetch_add(1, std::memory_order_release);
      peer.sends[static_cast<size_t>(i)] = send.ends;
      peer.unposted.pop_front();
      has_posted = true;
    }
    if (has_posted) ring(*peer.mailbox, Ring::kMessage);
  }

  /// Reads the messages of a peer for which there are receives.
  bool read(Peer& peer) {
    Lane& lane = lane_of(*own_, number(peer));
    const uint64_t posted = lane.posted.load(std::memory_order_acquire);
    if (peer.receives.empty() || (posted == peer.seen && !peer.has_new_receive)) return false;
    peer.seen = posted;
    peer.has_new_receive = false;
    bool has_ended = false;
    for (Slot& slot : lane.slots) {
      if (slot.state.load(std::memory_order_acquire) != kPosted) continue;
      const auto receive =
          std::ranges::find_if(peer.receives, [&](const Receive& each) { return each.tag == slot.tag; });
      if (receive == peer.receives.end()) continue;
      uint32_t expected = kPosted;
      if (!slot.state.compare_exchange_strong(expected, kTaken)) continue;  // the sender has taken it back
      MTF_CHECK(slot.bytes == receive->bytes, "a message of {} bytes for a receive of {}", slot.bytes,
                receive->bytes);
      const int error = read_memory(peer.process, slot.address, receive->to, receive->bytes);
      if (error == 0) {
        slot.state.store(kRead, std::memory_order_release);
        receive->ends->received.push_back(number(peer));
        ring(*peer.mailbox, Ring::kRead);
      } else {
        receive->ends->error = error;
      }
      peer.receives.erase(receive);
      has_ended = true;
    }
    return has_ended;
  }

  /// Waits for a receiver that reads just now, unless it has died meanwhile.
  static void take_back(Slot& slot) {
    constexpr std::chrono::seconds kLongest(2);
    const auto begun = std::chrono::steady_clock::now();
    uint32_t state = kPosted;
    slot.state.compare_exchange_strong(state, kFree);
    while (state == kTaken && std::chrono::steady_clock::now() - begun < kLongest) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      state = slot.state.load(std::memory_order_acquire);
    }
    slot.state.store(kFree);
  }

  const int rank_, size_;
  int descriptor_ = -1;
  MappedMailbox own_;
  Card card_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  uint64_t wakes_ = 0;
  std::jthread background_;
};

}  // namespace

std::unique_ptr<LocalMessages> make_local_messages(int rank, int size) {
  return std::make_unique<Mover>(rank, size);
}

}  // namespace mtf
