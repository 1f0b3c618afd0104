// Records the last collectives of this process, for the watchdog and for reports of failures.
//
//   FlightRecord record(1000);
//   record.queued(sequence, name, bytes); record.begun(sequence); record.waits(peer); record.ended(sequence);
//   write(path, record.to_json());
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mtf {

/// Thread safe. After the first `capacity` entries it only allocates memory for names that are longer than
/// before.
class FlightRecord {
 public:
  using Clock = std::chrono::steady_clock;

  /// The collective that is running.
  struct Current {
    uint64_t sequence = 0;
    std::string name;
    int64_t bytes = 0;
    Clock::time_point begun;
    int waits_for = -1;  ///< rank of the peer whose message it waits for; -1: none
    Clock::time_point waits_since;
  };

  explicit FlightRecord(size_t capacity);

  /// The following calls record the progress of a collective. Sequence numbers increase by one.
  void queued(uint64_t sequence, const std::string& name, int64_t bytes);
  void begun(uint64_t sequence);
  void ended(uint64_t sequence);
  /// The communication thread waits for a message of `peer` (-1: no longer).
  void waits(int peer);
  /// Returns the running collective, or nothing.
  std::optional<Current> current() const;
  /// Returns the last entries, the oldest first, with sequence, name, bytes, state (queued, running, done),
  /// seconds since the creation of the record, and the peer whose message is awaited.
  std::string to_json() const;

 private:
  struct Entry {
    uint64_t sequence = 0;
    std::string name;
    int64_t bytes = 0;
    std::optional<Clock::time_point> queued, begun, ended;
  };
  /// Returns null if the entry is not in the record, or no longer.
  Entry* find(uint64_t sequence);
  Entry& at(uint64_t sequence) { return entries_[sequence % entries_.size()]; }

  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t running_ = 0;
  bool is_running_ = false;
  int waits_for_ = -1;
  Clock::time_point waits_since_;
};

}  // namespace mtf
