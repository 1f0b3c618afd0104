#include "trainer/decode/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <filesystem>
#include <thread>
#include <utility>

#include "engine/base/process.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "{step}";
/// The number of bytes that a ready pipe accepts without blocking.
constexpr size_t kAtOnce = PIPE_BUF;
/// The size of the buffer at which lines are written without a call of flush().
constexpr size_t kMostKept = 1 << 16;
/// The intervals at which `waits` is called, and at which a pipe without reader is opened again.
constexpr std::chrono::milliseconds kReaderNotice(500), kReaderRetry(20);

/// True for a pipe, a terminal or another device, which is written in place.
bool is_device(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// Returns the target of symbolic links, which need not be there, or `path` itself if it is none.
std::string without_link(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path target = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code is_no_link;
    const fs::path next = fs::read_symlink(target, is_no_link);
    if (is_no_link) break;
    target = target.parent_path() / next;
  }
  return target.string();
}

}  // namespace

void check_output_names(const std::string& output, size_t checkpoints, const Mark& mark) {
  if (checkpoints < 2 || output.find(kStep) != std::string::npos) return;
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("{} checkpoints would write into one output, {}", checkpoints,
                          output == "-" ? "standard output" : output),
              "a name with {step} in it, such as `out.{step}.txt`");
}

std::string name_at_step(std::string name, int64_t step) {
  if (const size_t at = name.find(kStep); at != std::string::npos)
    name.replace(at, kStep.size(), fmt::format("{}", step));
  return name;
}

TextOutput::TextOutput(const std::string& path, int64_t step, std::function<void()> waits)
    : path_(name_at_step(path, step)), waits_(std::move(waits)), descriptor_(STDOUT_FILENO) {
  if (path == "-") return;
  std::error_code ignored;
  if (fs::is_directory(path_, ignored))
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: it is a directory", path_), "a file");
  if (is_device(path_)) {
    open_device();
    descriptor_ = device_->get();
  } else {
    part_ = std::make_unique<PartFile>(without_link(path_));
    descriptor_ = part_->descriptor();
  }
}

/// Opens the device. A pipe can be opened for writing only when it has a reader.
void TextOutput::open_device() {
  auto last_notice = std::chrono::steady_clock::now();
  while (true) {
    device_ = std::make_unique<File>(path_, O_WRONLY | O_NONBLOCK);
    if (device_->open()) return;
    std::error_code ignored;
    if (device_->error() != ENXIO || !fs::is_fifo(path_, ignored))
      throw Error(ErrorKind::kSystem,
                  fmt::format("cannot write {}: {}", path_, system_message(device_->error())));
    std::this_thread::sleep_for(kReaderRetry);
    if (std::chrono::steady_clock::now() < last_notice + kReaderNotice) continue;
    waits_();
    last_notice = std::chrono::steady_clock::now();
  }
}

/// Returns when a write of kAtOnce bytes will not block, or will fail.
void TextOutput::wait_for_reader() const {
  pollfd output{descriptor_, POLLOUT, 0};
  for (int ready = 0; ready == 0 || (ready < 0 && errno == EINTR);) {
    ready = ::poll(&output, 1, static_cast<int>(kReaderNotice.count()));
    if (ready == 0) waits_();
  }
}

void TextOutput::check(bool good) const {
  if (good) return;
  const int error = errno;
  if (error == EPIPE) end_by_broken_pipe();
  throw Error(
      ErrorKind::kSystem,
      fmt::format("cannot write {}: {}", path_ == "-" ? "to standard output" : path_, system_message(error)));
}

void TextOutput::line(std::string_view text) {
  text_.append(text).push_back('\n');
  if (text_.size() >= kMostKept) flush();
}

void TextOutput::flush() {
  for (std::string_view rest = text_; !rest.empty();) {
    wait_for_reader();
    const ssize_t written = ::write(descriptor_, rest.data(), std::min(rest.size(), kAtOnce));
    const bool again = written < 0 && (errno == EINTR || errno == EAGAIN);
    check(written >= 0 || again);
    if (!again) rest.remove_prefix(static_cast<size_t>(written));
  }
  text_.clear();
}

void TextOutput::close() {
  flush();
  if (part_) check(part_->finish());
  device_.reset();
}

}  // namespace mtf
