// Emulated streams and events. Work stays in its stream until the host waits for it, so work that nobody has
// waited for has not happened yet. With MTF_EMULATED_STREAMS=early in the environment all streams but the
// compute stream run their work at once, before the work of the compute stream that they do not wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda::emulator {

class EmulatedDevice;
class EmulatedStream;
using Work = std::function<void()>;
/// When work runs: once the host waits for it, or as soon as it is enqueued or replayed.
enum class When { kAwaited, kAtOnce };
struct RecordedWork {
  Work work;
  When when;
};

/// The work of a recording, which is kept instead of being run: that of one stream, and of the streams that
/// wait for it.
class Capture {
 public:
  explicit Capture(EmulatedStream& origin);
  /// Lets the streams run their work again.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Returns the work. Aborts if the first stream does not wait for all work of the others.
  std::vector<RecordedWork> finish();

 private:
  friend class EmulatedStream;
  friend class EmulatedEvent;
  /// By stream, the number of pieces of its work that are complete.
  using Past = std::map<EmulatedStream*, int64_t>;

  uint64_t number_;
  EmulatedStream& origin_;
  std::map<EmulatedStream*, Past> streams_;  ///< what each stream has waited for, and its own work
  std::vector<RecordedWork> work_;
};

/// The object to which Stream::handle points.
class EmulatedStream {
 public:
  /// With `early`, work runs as soon as it is enqueued.
  EmulatedStream(EmulatedDevice& device, bool early);
  ~EmulatedStream();
  EmulatedStream(const EmulatedStream&) = delete;
  EmulatedStream& operator=(const EmulatedStream&) = delete;

  /// Aborts if the handle is not that of a stream.
  static EmulatedStream& of(Stream stream);
  Stream handle() { return {this}; }
  EmulatedDevice& device() const { return device_; }

  void enqueue(Work work, When when = When::kAwaited);
  bool captured() const { return capture_ != nullptr; }
  /// Runs the work up to the first `count` pieces that were ever enqueued.
  void run_until(int64_t count);
  void run_all() { run_until(enqueued_); }

 private:
  friend class Capture;
  friend class EmulatedEvent;

  EmulatedDevice& device_;
  const bool early_;
  std::deque<Work> waiting_;
  int64_t enqueued_ = 0;
  Capture* capture_ = nullptr;
};

/// Runs all work of all devices.
void run_all_streams();

std::unique_ptr<Event> make_emulated_event(EmulatedDevice& device);

}  // namespace mtf::cuda::emulator
