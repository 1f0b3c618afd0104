#include "tests/emulated_gpu/streams.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/check.h"
#include "tests/emulated_gpu/emulated_device.h"
#include "tests/emulated_gpu/memory.h"

namespace mtf::cuda::emulator {
namespace {

/// The most work that waits in a stream; if there is more, the host waits for half of it.
constexpr size_t kMostWaiting = 1024;

std::set<EmulatedStream*>& all_streams() {
  static std::set<EmulatedStream*> streams;
  return streams;
}

}  // namespace

Capture::Capture(EmulatedStream& origin) : origin_(origin) {
  static uint64_t captures = 0;
  number_ = ++captures;
  streams_[&origin];
  origin.capture_ = this;
}

Capture::~Capture() {
  for (const auto& [stream, past] : streams_) stream->capture_ = nullptr;
}

std::vector<RecordedWork> Capture::finish() {
  Past& seen = streams_[&origin_];
  for (auto& [stream, past] : streams_) {
    MTF_CHECK(seen[stream] == past[stream],
              "the compute stream does not wait for all that another stream does in the recording");
  }
  return std::move(work_);
}

EmulatedStream::EmulatedStream(EmulatedDevice& device, bool early) : device_(device), early_(early) {
  all_streams().insert(this);
}

EmulatedStream::~EmulatedStream() { all_streams().erase(this); }

EmulatedStream& EmulatedStream::of(Stream stream) {
  auto* found = static_cast<EmulatedStream*>(stream.handle);
  MTF_CHECK(all_streams().contains(found), "{} is no stream", stream.handle);
  return *found;
}

void EmulatedStream::enqueue(Work work, When when) {
  if (captured()) {
    ++capture_->streams_[this][this];
    capture_->work_.push_back({std::move(work), when});
    return;
  }
  if (waiting_.size() == kMostWaiting) run_until(enqueued_ - static_cast<int64_t>(kMostWaiting / 2));
  waiting_.push_back(std::move(work));
  ++enqueued_;
  if (early_ || when == When::kAtOnce) run_all();
}

void EmulatedStream::run_until(int64_t count) {
  if (enqueued_ - static_cast<int64_t>(waiting_.size()) >= count) return;
  const MemoryAccess access;
  while (enqueued_ - static_cast<int64_t>(waiting_.size()) < count) {
    const Work work = std::move(waiting_.front());
    waiting_.pop_front();
    if (!device_.faults().has_failed()) work();
  }
}

void run_all_streams() {
  for (EmulatedStream* stream : all_streams()) stream->run_all();
}

class EmulatedEvent final : public Event {
 public:
  explicit EmulatedEvent(EmulatedDevice& device) : device_(device) {}

  void record(Stream handle) override {
    const std::lock_guard lock(emulator_mutex());
    stream_ = &EmulatedStream::of(handle);
    count_ = stream_->enqueued_;
    capture_ = stream_->captured() ? stream_->capture_->number_ : 0;
    if (stream_->captured()) past_ = stream_->capture_->streams_[stream_];
  }

  void wait_in(Stream handle) override {
    const std::lock_guard lock(emulator_mutex());
    EmulatedStream& stream = EmulatedStream::of(handle);
    if (stream_ == nullptr) return;
    if (capture_ != 0) return wait_in_capture(stream);
    MTF_CHECK(!stream.captured(), "a recorded stream waits for an event from outside of the recording");
    if (&stream != stream_) stream.enqueue([other = stream_, count = count_] { other->run_until(count); });
  }

  void wait() override {
    const std::lock_guard lock(emulator_mutex());
    device_.check_not_recording("Event::wait()");
    MTF_CHECK(capture_ == 0, "the host waits for an event of a recording");
    if (stream_ != nullptr) stream_->run_until(count_);
    device_.faults().check("waiting for an event");
  }

 private:
  void wait_in_capture(EmulatedStream& stream) {
    Capture* capture = stream_->capture_;
    MTF_CHECK(capture != nullptr && capture->number_ == capture_, "the recording of an event has ended");
    MTF_CHECK(!stream.captured() || stream.capture_ == capture, "a stream of another recording");
    const bool joins = !stream.captured();
    stream.capture_ = capture;
    Capture::Past& past = capture->streams_[&stream];
    for (const auto& [other, count] : past_) past[other] = std::max(past[other], count);
    if (joins) ++past[&stream];  // its last work must be waited for even if there is none
  }

  EmulatedDevice& device_;
  EmulatedStream* stream_ = nullptr;
  int64_t count_ = 0;     ///< pieces of the stream's work before the event
  uint64_t capture_ = 0;  ///< number of the capture, or 0
  Capture::Past past_;
};

std::unique_ptr<Event> make_emulated_event(EmulatedDevice& device) {
  return std::make_unique<EmulatedEvent>(device);
}

}  // namespace mtf::cuda::emulator
