#include "trainer/progress.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/core/error.h"

namespace mtf {
namespace {

std::unique_ptr<spdlog::logger> make_log(const std::string& file) {
  if (file.empty()) return nullptr;
  try {
    auto log = std::make_unique<spdlog::logger>(
        "run", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file, true));
    log->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    log->flush_on(spdlog::level::info);
    return log;
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorKind::kSystem, error.what());
  }
}

int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : options_(options), terminal_(isatty(STDERR_FILENO) == 1), log_(make_log(options.log_file)) {}

Progress::~Progress() { clear_bar(); }

void Progress::info(const std::string& message) {
  clear_bar();
  fmt::print(stderr, "{}\n", message);
  if (log_) log_->info(message);
}

void Progress::warning(const std::string& message) {
  clear_bar();
  fmt::print(stderr, "warning: {}\n", message);
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

void Progress::clear_bar() {
  if (!bar_visible_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  bar_visible_ = false;
}

void Progress::draw(const ProgressState& state) {
  const std::string line = progress_line(state);
  if (!terminal_) return info(line);
  std::string bar;
  const int space = terminal_width() - static_cast<int>(line.size()) - 4;
  if (state.total > 0 && space >= 10) {
    const int width = std::min(space, 40);
    const int done = static_cast<int>(width * std::min<int64_t>(state.step, state.total) / state.total);
    bar = fmt::format("[{}{}] ", std::string(done, '#'), std::string(width - done, '.'));
  }
  const std::string text = (bar + line).substr(0, std::max(1, terminal_width() - 1));
  fmt::print(stderr, "\r{}\033[K", text);
  std::fflush(stderr);
  bar_visible_ = true;
}

std::string progress_line(const ProgressState& state) {
  std::string line = state.total > 0 ? fmt::format("step {}/{}", state.step, state.total)
                                     : fmt::format("step {}", state.step);
  line += fmt::format("  epoch {:.2f}  loss {:.4f}  {} examples/s", state.epoch, state.loss,
                      with_thousands(state.examples_per_second));
  if (state.seconds_left) line += fmt::format("  {} left", duration_text(*state.seconds_left));
  return line;
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
