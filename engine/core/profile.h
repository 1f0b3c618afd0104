// A profile records what runs in this process and when: spans of time on tracks, one track for each thread or
// device queue.
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
// If nothing is profiled there is no Profile: tracks are null, and a span costs one comparison; before
// start() and after stop() it costs two. Memory is bounded: a full track only counts the spans that it drops.
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
/// Returns "step", "compute", "communication", ...
std::string_view name_of(ProfileCategory category);

/// The name and category of a span.
struct ProfileLabel {
  std::string name;
  ProfileCategory category = ProfileCategory::kCompute;
  std::string detail;  ///< for example the text of an instruction; may be empty
};

/// An external tool (NVTX) that is notified of spans as they happen, in the thread in which they happen.
class ProfileObserver {
 public:
  virtual ~ProfileObserver() = default;
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual void begin(const ProfileLabel& label) = 0;
  virtual void end() = 0;
};

/// The spans of one thread or queue. Only one thread at a time may add spans. A track lives as long as its
/// Profile.
class ProfileTrack {
 public:
  struct Span {
    const ProfileLabel* label;
    int64_t begin, end;  ///< by Profile::now()
    int64_t part;        ///< a mesh coordinate or a step that the span concerns; -1: none in particular
  };

  ProfileTrack(std::string name, int64_t capacity, const std::atomic<bool>& on,
               ProfileObserver* const& observer)
      : name_(std::move(name)), capacity_(capacity), on_(on), observer_(observer) {}

  const std::string& name() const { return name_; }
  bool is_on() const { return on_.load(std::memory_order_acquire); }
  /// Adds a span; it is dropped if the profile was never started. Spans may contain one another, in any
  /// order, but must not overlap partially.
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

/// The name of the track of the thread that runs the steps.
inline constexpr const char* kMainTrack = "main thread";
/// The name of the track of what a device does.
inline constexpr const char* kDeviceTrack = "device";

class Profile {
 public:
  /// `capacity` is the number of spans that each track keeps.
  explicit Profile(int64_t capacity = 1 << 18) : capacity_(capacity) {}

  /// Returns the track of this name, which the first call creates. Thread safe, as is label().
  ProfileTrack* track(const std::string& name);
  /// Returns the label with these parts, which lives as long as the profile. Only the first call with the
  /// same parts allocates.
  const ProfileLabel* label(std::string_view name, ProfileCategory category, std::string_view detail = {});
  /// Sets the observer, or none (null). Must be called before start(); the observer must outlive the profile.
  void set_observer(ProfileObserver* observer) { observer_ = observer; }

  void start();
  void stop();
  bool is_on() const { return on_.load(std::memory_order_acquire); }
  /// Returns the tracks in the order of their creation. Their spans are complete once the threads have
  /// stopped adding after stop().
  std::vector<const ProfileTrack*> tracks() const;

  /// Returns the time in nanoseconds, by a clock that all processes of a machine share.
  static int64_t now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

 private:
  /// Compares labels by their parts, so that a label is found without making strings.
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

/// Records the time from its construction to its destruction; does nothing if `track` or `label` is null.
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

/// Returns a span whose track and label are looked up, for events that happen only a few times per step.
/// `profile` may be null.
inline ProfileSpan span_on(Profile* profile, const std::string& track, std::string_view name,
                           ProfileCategory category, int64_t part = -1) {
  if (profile == nullptr || !profile->is_on()) return {nullptr, nullptr};
  return {profile->track(track), profile->label(name, category), part};
}

}  // namespace mtf
