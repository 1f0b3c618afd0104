#include "trainer/programs/launch/output_lines.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace mtf {
namespace {

/// Longer lines are broken, so that a program that never ends its line does not fill the memory.
constexpr size_t kLongestLine = size_t{1} << 20;

}  // namespace

OutputSink::OutputSink(int descriptor) : descriptor_(descriptor), is_terminal_(::isatty(descriptor) == 1) {}

void OutputSink::write(std::string_view text) {
  if (closed_) return;
  waiting_ += text;
  flush();
}

void OutputSink::flush() {
  size_t done = 0;
  while (done < waiting_.size()) {
    // A writable pipe accepts PIPE_BUF bytes without blocking.
    const size_t bytes = std::min<size_t>(waiting_.size() - done, PIPE_BUF);
    pollfd ready{descriptor_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    const ssize_t written = ::write(descriptor_, waiting_.data() + done, bytes);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
      return close();
    }
  }
  waiting_.erase(0, done);
}

void OutputSink::close() {
  closed_ = true;
  waiting_.clear();
}

void OutputSink::write_line(std::string line) {
  constexpr std::string_view kClearLine = "\r\x1b[K";
  if (is_terminal_) line.insert(0, kClearLine);
  line += '\n';
  write(line);
}

void LinePrefixer::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos && line_.size() < kLongestLine) return;
    sink_->write_line(prefix_ + std::exchange(line_, {}));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}

void LinePrefixer::end() {
  if (!line_.empty()) sink_->write_line(prefix_ + std::exchange(line_, {}));
}

}  // namespace mtf
