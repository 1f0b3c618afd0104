#include "engine/core/profile.h"

#include <utility>

namespace mtf {

std::string_view name_of(ProfileCategory category) {
  switch (category) {
    case ProfileCategory::kStep:
      return "step";
    case ProfileCategory::kCompute:
      return "compute";
    case ProfileCategory::kCommunication:
      return "communication";
    case ProfileCategory::kData:
      return "data";
    case ProfileCategory::kCheckpoint:
      return "checkpoint";
    case ProfileCategory::kEvaluation:
      return "evaluation";
  }
  return {};
}

void ProfileTrack::add(const ProfileLabel* label, int64_t begin, int64_t end, int64_t part) {
  const int64_t count = count_.load(std::memory_order_relaxed);
  if (spans_ == nullptr || count == capacity_) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  spans_[count] = {label, begin, end, part};
  count_.store(count + 1, std::memory_order_release);
}

/// The memory is not initialised, so that pages without spans are never touched.
void ProfileTrack::reserve() {
  if (spans_ == nullptr) spans_ = std::make_unique_for_overwrite<Span[]>(static_cast<size_t>(capacity_));
}

ProfileTrack* Profile::track(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const auto& track : tracks_) {
    if (track->name() == name) return track.get();
  }
  tracks_.push_back(std::make_unique<ProfileTrack>(name, capacity_, on_, observer_));
  if (is_on()) tracks_.back()->reserve();
  return tracks_.back().get();
}

const ProfileLabel* Profile::label(std::string_view name, ProfileCategory category, std::string_view detail) {
  const std::lock_guard lock(mutex_);
  const auto found = labels_.find(Before::Parts(name, category, detail));
  if (found != labels_.end()) return &*found;
  return &*labels_.insert({std::string(name), category, std::string(detail)}).first;
}

void Profile::start() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& track : tracks_) track->reserve();
  }
  if (observer_ != nullptr) observer_->start();
  on_.store(true, std::memory_order_release);
}

void Profile::stop() {
  if (!on_.exchange(false) || observer_ == nullptr) return;
  observer_->stop();
}

std::vector<const ProfileTrack*> Profile::tracks() const {
  const std::lock_guard lock(mutex_);
  std::vector<const ProfileTrack*> tracks;
  for (const auto& track : tracks_) tracks.push_back(track.get());
  return tracks;
}

void ProfileSpan::finish() {
  track_->add(label_, begin_, Profile::now(), part_);
  if (track_->observer_ != nullptr) track_->observer_->end();
}

}  // namespace mtf
