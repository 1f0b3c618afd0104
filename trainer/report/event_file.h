// Writes scalars and histograms for TensorBoard: `tensorboard --logdir runs` displays them.
//
//   EventFile events("runs/mnist", 0);   // for a run at step 0
//   events.write(100, {{"train/loss", 0.31}, {"train/learning_rate", 0.01}});
//
// The files are named events.out.tfevents.<seconds>.<host>.<pid>.0 and contain records (data/text/tfrecord.h)
// of TensorFlow's Event message (event.h). A run that resumes writes a new file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/append_file.h"
#include "trainer/report/metrics.h"

namespace mtf {

class EventFile {
 public:
  /// `step` is the step from which the run begins or resumes; a running TensorBoard discards later steps that
  /// it has read. The file is created by the first write.
  EventFile(std::string directory, int64_t step) : directory_(std::move(directory)), begin_(step + 1) {}

  /// Writes each (tag, value) as a scalar summary, and each list as a histogram of all its numbers, immediately and in one
  /// system call, into a new file where somebody has removed that of the run. Throws Error (kSystem) when that fails.
  void write(int64_t step, const Metrics& scalars, const std::vector<MetricList>& lists = {});

 private:
  std::string directory_;
  int64_t begin_;  ///< first step of the file
  std::optional<AppendFile> file_;
};

/// Returns true if an event is kept; `tag` is the event's first tag.
using KeepEvent = std::function<bool(int64_t step, std::string_view tag)>;

/// Removes from all event files of `directory` the scalars that are not to be kept and incomplete ends, and
/// deletes files without scalars. If it is killed, a second call repairs the files. Throws Error (kSystem).
void cut_event_files(const std::string& directory, const KeepEvent& keep);

}  // namespace mtf
