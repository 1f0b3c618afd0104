// Scalars for TensorBoard: `tensorboard --logdir runs` draws them.
//
//   EventFile events("runs/mnist", 0);   // of a run at step 0
//   events.write(100, {{"train/loss", 0.31}, {"train/learning_rate", 0.01}});
//
// The format: records (data/text/tfrecord.h) of TensorFlow's Event message (event.cc), in files
// named events.out.tfevents.<seconds>.<host>.<pid>.0. A run that continues writes a file of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/append_file.h"
#include "trainer/report/metrics.h"

namespace mtf {

class EventFile {
 public:
  /// The file is created by the first write. `step`: what was read of later steps does not count any more; a
  /// TensorBoard that is looking on forgets it.
  EventFile(std::string directory, int64_t step) : directory_(std::move(directory)), begin_(step + 1) {}

  /// Each (tag, value) as a scalar summary, at the time of the call. Whole or not at all, not kept back in
  /// memory. Throws Error (kSystem) when it cannot be written.
  void write(int64_t step, const Metrics& scalars);

 private:
  std::string directory_;
  int64_t begin_;  ///< the first step of the file
  std::optional<AppendFile> file_;
};

/// Whether an event stays; `tag`: its first.
using KeepEvent = std::function<bool(int64_t step, std::string_view tag)>;

/// Cuts all event files of `directory`: scalars that are not to be kept and torn ends go, and files that then
/// hold no scalar. Killed at any moment, it leaves files that a second call mends. Throws Error (kSystem).
void cut_event_files(const std::string& directory, const KeepEvent& keep);

}  // namespace mtf
