#include "engine/comm/process/watchdog.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {

namespace {

std::string payload_text(int64_t bytes) {
  return bytes < 100'000 ? fmt::format("{} bytes", bytes)
                         : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

Watchdog::Watchdog(const FlightRecord& record, Store& store, int rank, std::vector<std::string> peers,
                   Milliseconds collective_timeout, std::function<void(const std::string& line)> log)
    : record_(record),
      store_(store),
      rank_(rank),
      peers_(std::move(peers)),
      timeout_(collective_timeout),
      log_(std::move(log)),
      thread_(std::clamp(timeout_ / 40, Milliseconds(5), Milliseconds(1000)), [this] {
        try {
          look();
        } catch (const std::exception&) {
          // The store is lost with the process that serves it, which those who wait for that process report.
        }
        return true;
      }) {}

void Watchdog::look() {
  const std::optional<FlightRecord::Current> current = record_.current();
  const bool waits = current && current->waits_for >= 0;
  const auto time =
      waits ? FlightRecord::Clock::now() - current->waits_since : FlightRecord::Clock::duration(0);
  if (!waits || time < timeout_ / 2) {
    if (published_) publish_wait(store_, rank_, {});
    published_ = false;
    return;
  }
  if (current->sequence != sequence_) {
    sequence_ = current->sequence;
    lines_ = 0;
    differing_.clear();
  }
  const PublishedWait wait{current->sequence, current->name, current->bytes, current->waits_for};
  // The second line comes before the timeout, because the process may end then.
  const int due = time < timeout_ * 9 / 10 ? 1 : 2;
  if (lines_ < due) {
    lines_ = due;
    publish_wait(store_, rank_, wait);
    published_ = true;
    log_(fmt::format("{} waits {:.3g} s for {} in {} (collective {}, {})", peers_[static_cast<size_t>(rank_)],
                     std::chrono::duration<double>(time).count(), peers_[static_cast<size_t>(wait.peer)],
                     wait.name, wait.sequence, payload_text(wait.bytes)));
  }
  compare(wait);
}

void Watchdog::compare(const PublishedWait& wait) {
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    if (other == rank_ || differing_.contains(other)) continue;
    const std::optional<PublishedWait> theirs = read_wait(store_, other);
    if (!theirs) continue;
    const auto text = disagreement(peers_[static_cast<size_t>(other)], other, *theirs,
                                   peers_[static_cast<size_t>(rank_)], rank_, wait);
    if (!text) continue;
    differing_.insert(other);
    log_(*text);
  }
}

}  // namespace mtf
