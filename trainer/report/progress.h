// Shows a run's messages and progress on standard error: a line every few seconds, or a progress bar on a
// terminal. Everything except the bar is also written to log.txt in the run's directory. Errors of output are
// ignored, so that they do not end a run.
//
//   Progress progress({.log_file = "runs/mnist/log.txt"});
//   progress.info("training on 60,000 examples");
//   progress.update({.step = 100, .total = 3000, .loss = 0.31, .examples_per_second = 25000});
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/counted.h"

namespace spdlog {
class logger;
}

namespace mtf {

/// The progress of a run.
struct ProgressState {
  int64_t step = 0;   ///< number of completed steps
  int64_t total = 0;  ///< number of steps of the whole run; 0: not known
  double epoch = 0;
  double loss = 0;
  double examples_per_second = 0;
  std::optional<double> tokens_per_second = {};  ///< shown instead of examples, for models that read texts
  std::optional<double> utilization = {};        ///< model-FLOPs utilization, 0 .. 1
  int64_t memory_bytes = 0;                      ///< memory of this process; 0: not known
  std::optional<double> seconds_left = {};
};

/// The progress of preparing data before a run.
struct WorkState {
  std::string_view what;  ///< "tokenising"
  int64_t done = 0;
  int64_t total = 0;  ///< 0: not known
};

struct ProgressOptions {
  std::string log_file;  ///< empty: no log file
  bool append = false;   ///< true: appends to the log file; false: truncates it
  bool quiet = false;    ///< prints nothing to standard error
};

class Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;

  void info(const std::string& message);
  void warning(const std::string& message);
  /// Write a message, or an error, only to the log file.
  void record(const std::string& message);
  void record_error(const std::string& message);
  /// Shows the state if the last drawing is old enough; the first call always does. It is cheap to call in
  /// each step.
  void update(const ProgressState& state);
  /// Shows the progress of preparing data in the same way, but not in the first interval, so short work is
  /// not shown.
  void update(const WorkState& state);
  /// Removes the progress bar.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void say(const std::string& line);
  void clear_bar();
  void draw(const ProgressState& state);
  void show_bar(const std::string& bar);
  bool is_due(Clock::time_point since) const;

  ProgressOptions options_;
  bool terminal_;
  bool bar_visible_ = false;
  const Clock::time_point begin_ = Clock::now();
  std::optional<Clock::time_point> drawn_;
  std::unique_ptr<spdlog::logger> log_;
};

/// Returns "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  38.2 % MFU  1.21 GB  11 s left".
std::string progress_line(const ProgressState& state);
/// Returns the line after a bar, in at most `columns` >= 1 characters. If it is too long, first the bar is
/// omitted, then memory, utilization, epoch, speed, time left and loss.
std::string progress_bar(const ProgressState& state, int columns);
/// Returns "tokenising  42 %"; work_bar() puts a bar before it if `columns` suffice.
std::string work_line(const WorkState& state);
std::string work_bar(const WorkState& state, int columns);
/// Returns "950 ms", "45 s", "3 min 05 s" or "2 h 10 min".
std::string duration_text(double seconds);
/// Returns "3.211 MB", with four digits and units of powers of 1000.
std::string bytes_text(double bytes);

}  // namespace mtf
