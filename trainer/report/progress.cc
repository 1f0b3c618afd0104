#include "trainer/report/progress.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/print_message.h"
#include "engine/base/seconds_since.h"

namespace mtf {
namespace {

/// Seconds between two lines, and between two drawings of the bar.
constexpr double kLineSeconds = 5, kBarSeconds = 0.1;

std::unique_ptr<spdlog::logger> make_log(const ProgressOptions& options) {
  if (options.log_file.empty()) return nullptr;
  try {
    auto log = std::make_unique<spdlog::logger>(
        "run", std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.log_file, !options.append));
    log->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    log->flush_on(spdlog::level::info);
    log->set_error_handler([](const std::string&) {});  // otherwise spdlog prints its errors itself
    return log;
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorKind::kSystem, error.what());
  }
}

/// True if standard error is a terminal that supports "carriage return" and "erase to end of line".
bool stderr_is_terminal() {
  const char* type = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
}

/// Returns the current width; it is called before each drawing, since windows are resized.
int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// A part of the progress line. On a narrow terminal parts of the highest rank are omitted first.
struct Part {
  int rank;
  std::string text;
};

constexpr int kRanks = 7;

std::vector<Part> parts_of(const ProgressState& state) {
  std::vector<Part> parts{
      {0, state.total > 0 ? fmt::format("step {}/{}", state.step, state.total)
                          : fmt::format("step {}", state.step)},
      {4, fmt::format("epoch {:.2f}", state.epoch)},
      {1, fmt::format("loss {:.4f}", state.loss)},
      {3, state.tokens_per_second ? with_thousands(*state.tokens_per_second) + " tokens/s"
                                  : with_thousands(state.examples_per_second) + " examples/s"}};
  if (state.utilization) parts.push_back({5, fmt::format("{:.1f} % MFU", 100 * *state.utilization)});
  if (state.memory_bytes > 0) parts.push_back({6, bytes_text(static_cast<double>(state.memory_bytes))});
  if (state.seconds_left) parts.push_back({2, duration_text(*state.seconds_left) + " left"});
  return parts;
}

/// Returns "[###.......] " in at most `room` columns; empty if they do not suffice or the total is not known.
std::string bar_of(int64_t done, int64_t total, int64_t room) {
  room -= 3;
  if (total <= 0 || room < 10) return {};
  // The width is rounded, so that it does not change with the length of the numbers.
  const auto width = std::min<int64_t>(room / 10 * 10, 40);
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const auto full = static_cast<int64_t>(share * static_cast<double>(width));
  return fmt::format("[{}{}] ", std::string(full, '#'), std::string(width - full, '.'));
}

/// Joins the parts with a rank below `ranks`.
std::string joined(const std::vector<Part>& parts, int ranks) {
  std::string line;
  for (const Part& part : parts) {
    if (part.rank < ranks) line += (line.empty() ? "" : "  ") + part.text;
  }
  return line;
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : options_(options), terminal_(!options.quiet && stderr_is_terminal()), log_(make_log(options)) {}

Progress::~Progress() { clear_bar(); }

void Progress::info(const std::string& message) {
  say(message);
  if (log_) log_->info(message);
}

void Progress::warning(const std::string& message) {
  say("warning: " + message);
  if (log_) log_->warn(message);
}

void Progress::record(const std::string& message) {
  if (log_) log_->info(message);
}

void Progress::record_error(const std::string& message) {
  if (log_) log_->error(message);
}

bool Progress::is_due(Clock::time_point since) const {
  return seconds_since(since) >= (terminal_ ? kBarSeconds : kLineSeconds);
}

void Progress::update(const ProgressState& state) {
  if (drawn_ && !is_due(*drawn_)) return;
  drawn_ = Clock::now();
  draw(state);
}

void Progress::update(const WorkState& state) {
  if (!is_due(drawn_.value_or(begin_))) return;
  drawn_ = Clock::now();
  if (!terminal_) return info(work_line(state));
  show_bar(work_bar(state, std::max(1, terminal_width() - 1)));
}

void Progress::finish() { clear_bar(); }

void Progress::say(const std::string& line) {
  if (options_.quiet) return;
  clear_bar();
  print_message("{}\n", line);
}

void Progress::clear_bar() {
  if (!bar_visible_) return;
  print_message("\r\033[K");
  bar_visible_ = false;
}

void Progress::draw(const ProgressState& state) {
  if (!terminal_) return info(progress_line(state));
  // The last column stays empty, since some terminals wrap the line when it is written.
  show_bar(progress_bar(state, std::max(1, terminal_width() - 1)));
}

void Progress::show_bar(const std::string& bar) {
  print_message("\r{}\033[K", bar);
  bar_visible_ = true;
}

std::string progress_line(const ProgressState& state) { return joined(parts_of(state), kRanks); }

std::string progress_bar(const ProgressState& state, int columns) {
  const std::vector<Part> parts = parts_of(state);
  std::string line = joined(parts, kRanks);
  if (const std::string bar = bar_of(state.step, state.total, columns - std::ssize(line)); !bar.empty())
    return bar + line;
  for (int ranks = kRanks - 1; ranks > 0 && std::ssize(line) > columns; --ranks) line = joined(parts, ranks);
  return line.substr(0, columns);
}

std::string work_line(const WorkState& state) {
  if (state.total <= 0) return std::string(state.what);
  return fmt::format("{}  {} %", state.what, std::clamp<int64_t>(100 * state.done / state.total, 0, 100));
}

std::string work_bar(const WorkState& state, int columns) {
  const std::string line = work_line(state);
  return (bar_of(state.done, state.total, columns - std::ssize(line)) + line).substr(0, columns);
}

std::string bytes_text(double bytes) {
  constexpr std::string_view units[] = {"B", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
  return fmt::format("{:.4g} {}", bytes, units[unit]);
}

std::string duration_text(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace mtf
