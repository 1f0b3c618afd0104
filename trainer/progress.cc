#include "trainer/progress.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace mtf {
namespace {

std::unique_ptr<spdlog::logger> make_log(const ProgressOptions& options) {
  if (options.log_file.empty()) return nullptr;
  try {
    auto log = std::make_unique<spdlog::logger>(
        "run", std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.log_file, !options.append));
    log->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    log->flush_on(spdlog::level::info);
    log->set_error_handler([](const std::string&) {});  // else it prints beside our one line of error
    return log;
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorKind::kSystem, error.what());
  }
}

/// A terminal that understands "to the beginning of the line" and "erase to its end".
bool stderr_is_terminal() {
  const char* type = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
}

/// Asked before each drawing: a window may change.
int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Not fmt::print, which throws when the disk is full or the terminal is gone.
void show(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

/// Of a line. Those of the highest rank go first when a terminal is narrow.
struct Part {
  int rank;
  std::string text;
};

constexpr int kRanks = 5;

std::vector<Part> parts_of(const ProgressState& state) {
  std::vector<Part> parts{{0, state.total > 0 ? fmt::format("step {}/{}", state.step, state.total)
                                              : fmt::format("step {}", state.step)},
                          {4, fmt::format("epoch {:.2f}", state.epoch)},
                          {1, fmt::format("loss {:.4f}", state.loss)},
                          {3, with_thousands(state.examples_per_second) + " examples/s"}};
  if (state.seconds_left) parts.push_back({2, duration_text(*state.seconds_left) + " left"});
  return parts;
}

/// The parts with a rank below `ranks`.
std::string joined(const std::vector<Part>& parts, int ranks) {
  std::string line;
  for (const Part& part : parts) {
    if (part.rank < ranks) line += (line.empty() ? "" : "  ") + part.text;
  }
  return line;
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : options_(options), terminal_(stderr_is_terminal()), log_(make_log(options)) {}

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
  if (log_) log_->error(message);
}

void Progress::update(const ProgressState& state) {
  const Clock::time_point now = Clock::now();
  const double interval = terminal_ ? options_.bar_seconds : options_.line_seconds;
  if (drawn_ && std::chrono::duration<double>(now - *drawn_).count() < interval) return;
  drawn_ = now;
  draw(state);
}

void Progress::finish() { clear_bar(); }

void Progress::say(const std::string& line) {
  clear_bar();
  show(line + '\n');
}

void Progress::clear_bar() {
  if (!bar_visible_) return;
  show("\r\033[K");
  bar_visible_ = false;
}

void Progress::draw(const ProgressState& state) {
  if (!terminal_) return info(progress_line(state));
  // The last column stays free: some terminals go to the next line when it is written.
  show(fmt::format("\r{}\033[K", progress_bar(state, std::max(1, terminal_width() - 1))));
  bar_visible_ = true;
}

std::string progress_line(const ProgressState& state) { return joined(parts_of(state), kRanks); }

std::string progress_bar(const ProgressState& state, int columns) {
  const std::vector<Part> parts = parts_of(state);
  std::string line = joined(parts, kRanks);
  const int room = columns - static_cast<int>(line.size()) - 3;
  if (state.total > 0 && room >= 10) {
    const int width = std::min(room / 10 * 10, 40);  // does not tremble with the length of the numbers
    const double share =
        std::clamp(static_cast<double>(state.step) / static_cast<double>(state.total), 0.0, 1.0);
    const int done = static_cast<int>(share * width);
    return fmt::format("[{}{}] {}", std::string(done, '#'), std::string(width - done, '.'), line);
  }
  for (int ranks = kRanks - 1; ranks > 0 && std::ssize(line) > columns; --ranks) line = joined(parts, ranks);
  return line.substr(0, columns);
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

std::string with_thousands(double number) {
  std::string digits = fmt::format("{:.0f}", number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (digits[0] == '-' ? 1 : 0); at -= 3)
    digits.insert(at, ",");
  return digits;
}

}  // namespace mtf
