// What a person sees of a run on standard error: messages, a line every few seconds, or on a terminal a
// progress bar. Everything but the bar also goes to log.txt in the run's directory. A run does not end
// because nobody can read it: what cannot be shown or logged is lost.
//
//   Progress progress({.log_file = "runs/mnist/log.txt"});
//   progress.info("training on 60,000 examples");
//   progress.update({.step = 100, .total = 3000, .loss = 0.31, .examples_per_second = 25000});
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/counted.h"

namespace spdlog {
class logger;
}

namespace mtf {

/// Where a run stands.
struct ProgressState {
  int64_t step = 0;   ///< steps done
  int64_t total = 0;  ///< steps of the whole run; 0: not known
  double epoch = 0;
  double loss = 0;
  double examples_per_second = 0;
  std::optional<double> tokens_per_second = {};  ///< shown in place of examples: of models that read texts
  std::optional<double> utilization = {};        ///< model-FLOPs utilization, 0 .. 1
  int64_t memory_bytes = 0;                      ///< of this process; 0: not known
  std::optional<double> seconds_left = {};
};

/// Work on data before a run begins.
struct WorkState {
  std::string_view what;  ///< "tokenising"
  int64_t done = 0;
  int64_t total = 0;  ///< 0: not known
};

struct ProgressOptions {
  std::string log_file;  ///< empty: none
  bool append = false;   ///< log.txt goes on after what it has; false: it is written anew
  bool quiet = false;    ///< nothing on standard error
  double line_seconds = 5;
  double bar_seconds = 0.1;
};

class Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;

  void info(const std::string& message);
  void warning(const std::string& message);
  /// To the log file alone.
  void record(const std::string& message);
  /// Cheap: draws only when the last drawing is old enough. The first call draws.
  void update(const ProgressState& state);
  /// The same, but work that is done at once is not shown at all.
  void update(const WorkState& state);
  /// Removes the bar.
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

/// "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  38.2 % MFU  1.21 GB  11 s left".
std::string progress_line(const ProgressState& state);
/// The same with a bar before it, in at most `columns` >= 1 characters: where they do not suffice, first the
/// bar goes, then memory, utilization, epoch, speed, time left and loss.
std::string progress_bar(const ProgressState& state, int columns);
/// "tokenising  42 %", on a terminal with a bar before it where `columns` suffice.
std::string work_line(const WorkState& state);
std::string work_bar(const WorkState& state, int columns);
/// "950 ms", "45 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);
/// "3.211 MB": four digits, units of powers of 1000.
std::string bytes_text(double bytes);

}  // namespace mtf
