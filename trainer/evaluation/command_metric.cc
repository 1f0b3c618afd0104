#include "trainer/evaluation/command_metric.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>

#include "engine/base/append_file.h"
#include "engine/base/child_process.h"
#include "engine/base/parse_number.h"
#include "engine/base/printable.h"
#include "engine/base/replace_all.h"
#include "engine/base/signals.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// A directory that is removed with all its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::error_code error;
    path_ = (fs::temp_directory_path(error) / "mtf-metric-XXXXXX").string();
    if (error)
      throw Error(ErrorKind::kSystem,
                  fmt::format("there is no directory for temporary files: {}", error.message()),
                  "one that TMPDIR names");
    if (::mkdtemp(path_.data()) == nullptr) throw_not_written(path_, errno);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;

  /// Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& text) const {
    std::string path = (fs::path(path_) / name).string();
    if (const int error = write_file(path, std::as_bytes(std::span(text)))) throw_not_written(path, error);
    return path;
  }

 private:
  std::string path_;
};

std::optional<double> number_in_last_line(std::string_view output) {
  output = strip(output);
  const size_t line = output.rfind('\n');
  const std::string_view last = strip(line == std::string_view::npos ? output : output.substr(line + 1));
  const std::optional<double> number = parse_number<double>(last);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

constexpr std::chrono::milliseconds kGoesOnInterval{100};
/// The time that a command has to end after SIGTERM.
constexpr std::chrono::seconds kToEnd{5};

/// A pipe from which a child process's output is read.
class OutputPipe {
 public:
  OutputPipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw Error(ErrorKind::kSystem, fmt::format("no pipe can be made: {}", system_message(errno)));
  }
  ~OutputPipe() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  /// The child's end.
  int input() const { return ends_[1]; }
  /// Closes the child's end in this process.
  void close_input() { ::close(std::exchange(ends_[1], -1)); }

  /// Appends what is written within `patience` to `output`. Returns false at the end: all writers have closed it.
  bool read(std::chrono::milliseconds patience, std::string& output) {
    pollfd poll{ends_[0], POLLIN, 0};
    if (::poll(&poll, 1, static_cast<int>(patience.count())) <= 0) return true;
    std::array<char, 4096> buffer{};
    const ssize_t size = ::read(ends_[0], buffer.data(), buffer.size());
    if (size > 0) output.append(buffer.data(), static_cast<size_t>(size));
    return size > 0 || (size < 0 && errno == EINTR);
  }

 private:
  std::array<int, 2> ends_{};
};

/// A shell that runs a command; its standard input is empty.
class Shell {
 public:
  explicit Shell(const std::string& command)
      : child_({.command = {"/bin/sh", "-c", command},
                .environment = environment(),
                .standard_input = nothing_.descriptor,
                .standard_output = pipe_.input(),
                .own_group = StopSignals::are_handled()}) {
    pipe_.close_input();
  }
  /// Ends what still runs.
  ~Shell() {
    if (!child_.runs()) return;
    child_.send(SIGTERM);
    child_.send(SIGCONT);  // a stopped process takes no other signal
    const auto end = std::chrono::steady_clock::now() + kToEnd;
    while (!ends() && std::chrono::steady_clock::now() < end) {
    }
    child_.send(SIGKILL);
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  /// Waits for the end of the command and of its output, for about kGoesOnInterval. False if it still runs.
  bool ends() {
    const auto end = std::chrono::steady_clock::now() + kGoesOnInterval;
    for (auto left = kGoesOnInterval; left.count() > 0;
         left =
             std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())) {
      if (!is_read_) {
        is_read_ = !pipe_.read(left, output_);
      } else if (child_.look()) {
        return true;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return false;
  }
  const ProcessEnd& end() const { return *child_.end(); }
  const std::string& output() const { return output_; }

 private:
  struct Nothing {
    int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ~Nothing() { ::close(descriptor); }
  };

  static std::vector<std::string> environment() {
    std::vector<std::string> variables;
    for (char** variable = ::environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
    return variables;
  }

  Nothing nothing_;
  OutputPipe pipe_;
  ChildProcess child_;
  std::string output_;
  bool is_read_ = false;  ///< output_ is complete
};

}  // namespace

std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    const size_t begin = lines.size();
    lines += text;
    std::replace_if(
        lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.end(),
        [](char c) { return c == '\n' || c == '\r'; }, ' ');
    lines += '\n';
  }
  return lines;
}

std::optional<double> run_command_metric(const CommandMetric& metric, const PredictedTexts& texts,
                                         const std::string& dataset, const std::function<bool()>& goes_on) {
  const TemporaryDirectory directory;
  std::vector<std::string> references;
  for (size_t i = 0; i < texts.references.size(); ++i)
    references.push_back(
        directory.file(fmt::format("references-{}.txt", i + 1), lines_of(texts.references[i])));
  std::string command = metric.command;
  replace_all(command, "{predictions}", directory.file("predictions.txt", lines_of(texts.predictions)));
  replace_all(command, "{references}", fmt::format("{}", fmt::join(references, " ")));
  Shell shell(command);
  while (!shell.ends()) {
    if (!goes_on()) return std::nullopt;
  }
  const std::string place =
      fmt::format("evaluate.datasets.{}.metrics: `{}`", dataset, printable(metric.command));
  if (shell.end().exit_code() != 0)
    throw Error(ErrorKind::kData, fmt::format("{} {}", place, shell.end().to_string()),
                "its messages are above");
  if (const std::optional<double> number = number_in_last_line(shell.output())) return number;
  throw Error(ErrorKind::kData, fmt::format("{} printed no number in its last line", place),
              "one number, such as 0.731");
}

}  // namespace mtf
