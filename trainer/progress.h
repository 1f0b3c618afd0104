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
  std::optional<double> seconds_left = {};
};

struct ProgressOptions {
  std::string log_file;  ///< empty: none
  bool append = false;   ///< log.txt goes on after what it has; false: it is written anew
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
  /// To log.txt alone.
  void record(const std::string& message);
  /// Cheap: draws only when the last drawing is old enough. The first call draws.
  void update(const ProgressState& state);
  /// Removes the bar.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void say(const std::string& line);
  void clear_bar();
  void draw(const ProgressState& state);

  ProgressOptions options_;
  bool terminal_;
  bool bar_visible_ = false;
  std::optional<Clock::time_point> drawn_;
  std::unique_ptr<spdlog::logger> log_;
};

/// "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  11 s left".
std::string progress_line(const ProgressState& state);
/// The same with a bar before it, in at most `columns` >= 1 characters: where they do not suffice, first the
/// bar goes, then epoch, speed, time left and loss.
std::string progress_bar(const ProgressState& state, int columns);
/// "950 ms", "45 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);
/// "3.211 MB": four digits, units of powers of 1000.
std::string bytes_text(double bytes);
/// 25000 -> "25,000".
std::string with_thousands(double number);

}  // namespace mtf
