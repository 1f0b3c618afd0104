#include "engine/comm/process/flight_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/check.h"
#include "engine/base/json.h"

namespace mtf {

FlightRecord::FlightRecord(size_t capacity) : entries_(capacity) {
  MTF_CHECK(capacity > 0, "a flight record without entries");
}

FlightRecord::Entry* FlightRecord::find(uint64_t sequence) {
  Entry& entry = at(sequence);
  return entry.queued && entry.sequence == sequence ? &entry : nullptr;
}

void FlightRecord::queued(uint64_t sequence, const std::string& name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Entry& entry = at(sequence);
  entry.sequence = sequence;
  entry.name = name;
  entry.bytes = bytes;
  entry.queued = Clock::now();
  entry.begun.reset();
  entry.ended.reset();
}

void FlightRecord::begun(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find(sequence)) entry->begun = Clock::now();
  running_ = sequence;
  is_running_ = true;
  waits_for_ = -1;
}

void FlightRecord::ended(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find(sequence)) entry->ended = Clock::now();
  is_running_ = false;
  waits_for_ = -1;
}

void FlightRecord::waits(int peer) {
  const std::lock_guard lock(mutex_);
  waits_for_ = peer;
  if (peer >= 0) waits_since_ = Clock::now();
}

std::optional<FlightRecord::Current> FlightRecord::current() const {
  const std::lock_guard lock(mutex_);
  if (!is_running_) return {};
  Current current;
  current.sequence = running_;
  current.waits_for = waits_for_;
  current.waits_since = waits_since_;
  if (const Entry& entry = entries_[running_ % entries_.size()]; entry.sequence == running_) {
    current.name = entry.name;
    current.bytes = entry.bytes;
    current.begun = entry.begun.value_or(Clock::time_point{});
  }
  return current;
}

std::string FlightRecord::to_json() const {
  const std::lock_guard lock(mutex_);
  const auto seconds = [&](Clock::time_point time) {
    return std::chrono::duration<double>(time - start_).count();
  };
  std::vector<const Entry*> used;
  for (const Entry& entry : entries_)
    if (entry.queued) used.push_back(&entry);
  std::ranges::sort(used, {}, &Entry::sequence);
  nlohmann::ordered_json collectives = nlohmann::ordered_json::array();
  for (const Entry* entry : used) {
    nlohmann::ordered_json& json = collectives.emplace_back();
    json["sequence"] = entry->sequence;
    json["name"] = entry->name;
    json["bytes"] = entry->bytes;
    json["state"] = entry->ended ? "done" : entry->begun ? "running" : "queued";
    json["queued"] = seconds(*entry->queued);
    if (entry->begun) json["begun"] = seconds(*entry->begun);
    if (entry->ended) json["ended"] = seconds(*entry->ended);
    if (is_running_ && entry->sequence == running_ && waits_for_ >= 0) {
      json["waits_for"] = waits_for_;
      json["waits_since"] = seconds(waits_since_);
    }
  }
  const nlohmann::ordered_json record{{"now", seconds(Clock::now())}, {"collectives", collectives}};
  return json_text(record, 1);
}

}  // namespace mtf
