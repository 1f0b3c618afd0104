// What ran when in this process: spans of time on tracks, one track for each thread or queue of a device.
//
//   Profile profile;
//   ProfileTrack* track = profile.track("worker 0");                  // before the first step
//   const ProfileLabel* label = profile.label("einsum decoder", ProfileCategory::kCompute);
//   profile.start();
//   {
//     const ProfileSpan span(track, label);
//     kernel->run(...);
//   }
//   profile.stop();
//   for (const ProfileTrack* track : profile.tracks()) ... track->spans()
//
// Where nothing is profiled there is no Profile: tracks are null, and a span costs a comparison. Before
// start() and after stop() it costs two. Memory is bounded: a full track counts what it drops.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace mtf {

enum class ProfileCategory : uint8_t { kStep, kCompute, kCommunication, kData, kCheckpoint, kEvaluation };
/// "step", "compute", "communication", ...
std::string_view name_of(ProfileCategory category);

/// What a span is called.
struct ProfileLabel {
  std::string name;
  ProfileCategory category = ProfileCategory::kCompute;
  std::string detail;  ///< such as the instruction's text; empty: none
};

/// A tool outside of the process that is told of spans as they happen (NVTX), in the thread where they do.
class ProfileObserver {
 public:
  virtual ~ProfileObserver() = default;
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual void begin(const ProfileLabel& label) = 0;
  virtual void end() = 0;
};

/// One thread at a time adds spans. Lives as long as its Profile.
class ProfileTrack {
 public:
  struct Span {
    const ProfileLabel* label;
    int64_t begin, end;  ///< Profile::now()
    int64_t part;        ///< of what the label names: a mesh coordinate, a step; -1: all of it
  };

  ProfileTrack(std::string name, int64_t capacity, const std::atomic<bool>& on,
               ProfileObserver* const& observer)
      : name_(std::move(name)), capacity_(capacity), on_(on), observer_(observer) {}

  const std::string& name() const { return name_; }
  bool is_on() const { return on_.load(std::memory_order_acquire); }
  /// While the profile is on. Spans that contain one another may come in any order; others do not overlap.
  void add(const ProfileLabel* label, int64_t begin, int64_t end, int64_t part = -1);
  std::span<const Span> spans() const { return {spans_.get(), static_cast<size_t>(count_.load())}; }
  int64_t dropped() const { return dropped_.load(); }

 private:
  friend class Profile;
  friend class ProfileSpan;
  void reserve();

  const std::string name_;
  const int64_t capacity_;
  const std::atomic<bool>& on_;
  ProfileObserver* const& observer_;
  std::unique_ptr<Span[]> spans_;
  std::atomic<int64_t> count_{0}, dropped_{0};
};

/// The track of the thread that runs the steps.
inline constexpr const char* kMainTrack = "main thread";

class Profile {
 public:
  /// `capacity`: spans that each track keeps.
  explicit Profile(int64_t capacity = 1 << 18) : capacity_(capacity) {}

  /// The track of this name, made when it is first asked for. Thread safe, as is label().
  ProfileTrack* track(const std::string& name);
  /// The same for the same arguments; lives as long as the profile. Allocates only the first time.
  const ProfileLabel* label(std::string_view name, ProfileCategory category, std::string_view detail = {});
  /// Null: none. Before start(); outlives the profile.
  void set_observer(ProfileObserver* observer) { observer_ = observer; }

  void start();
  void stop();
  bool is_on() const { return on_.load(std::memory_order_acquire); }
  /// In the order in which they were made. What they hold is complete once their threads rest after stop().
  std::vector<const ProfileTrack*> tracks() const;

  /// Nanoseconds of a clock that all processes of a machine share.
  static int64_t now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

 private:
  /// Finds labels by their parts, which need not be strings of their own.
  struct Before {
    using is_transparent = void;
    using Parts = std::tuple<std::string_view, ProfileCategory, std::string_view>;
    static Parts parts(const ProfileLabel& label) { return {label.name, label.category, label.detail}; }
    static const Parts& parts(const Parts& parts) { return parts; }
    bool operator()(const auto& a, const auto& b) const { return parts(a) < parts(b); }
  };

  const int64_t capacity_;
  std::atomic<bool> on_{false};
  ProfileObserver* observer_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ProfileTrack>> tracks_;
  std::set<ProfileLabel, Before> labels_;
};

/// The time from construction to destruction. Nothing where `track` or `label` is null.
class ProfileSpan {
 public:
  ProfileSpan(ProfileTrack* track, const ProfileLabel* label, int64_t part = -1) {
    if (track == nullptr || label == nullptr || !track->is_on()) return;
    track_ = track;
    label_ = label;
    part_ = part;
    if (track->observer_ != nullptr) track->observer_->begin(*label);
    begin_ = Profile::now();
  }
  ~ProfileSpan() {
    if (track_ != nullptr) finish();
  }
  ProfileSpan(const ProfileSpan&) = delete;
  ProfileSpan& operator=(const ProfileSpan&) = delete;

 private:
  void finish();

  ProfileTrack* track_ = nullptr;
  const ProfileLabel* label_ = nullptr;
  int64_t part_ = -1;
  int64_t begin_ = 0;
};

/// A span for what happens a few times in a step: track and label are looked up. `profile` may be null.
inline ProfileSpan span_on(Profile* profile, const std::string& track, std::string_view name,
                           ProfileCategory category, int64_t part = -1) {
  if (profile == nullptr || !profile->is_on()) return {nullptr, nullptr};
  return {profile->track(track), profile->label(name, category), part};
}

}  // namespace mtf
