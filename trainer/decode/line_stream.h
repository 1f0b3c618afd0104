// Reads lines on a background thread, so that all lines that are available can be taken together.
//
//   LineStream lines("-", {});
//   for (std::vector<std::string> some = lines.take(1024); !some.empty(); some = lines.take(1024)) ...
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/line_splitter.h"
#include "trainer/config/config.h"

namespace mtf {

/// True for standard input ("-"), a pipe, a socket or a character device, which can be read only once and are
/// read as input arrives.
bool is_stream(const std::string& path);
/// Returns the name of an input in messages: the path, or "standard input".
std::string input_name(const std::string& path);
/// Returns the number of lines of a file. Throws Error (kData) with all lines that are not UTF-8, or with the first that
/// exceeds the limit. A stream can be read only once, so that its lines are checked as they come: nothing.
std::optional<int64_t> check_lines(const std::string& path, const TextLimit& limit);
/// Asks for a line on standard error if the input is standard input and that is a terminal.
void prompt_on_terminal(const std::string& path);

/// A key of the configuration and the path of its file; "" if there is none.
struct NamedInput {
  std::string_view key;
  std::string path;
};
/// Throws Error (kConfig) when a stream would be read twice, as both files or for several checkpoints, or
/// when a file cannot be read.
void check_inputs(const Config& config, const NamedInput& first, const NamedInput& second,
                  size_t checkpoints);

class LineStream {
 public:
  /// `path` names a file, plain or .gz, or a stream. Throws Error (kData) when a file cannot be opened.
  LineStream(const std::string& path, const TextLimit& limit);
  ~LineStream();
  LineStream(const LineStream&) = delete;

  /// Waits for a line, then returns the available lines, at most `most`; an empty vector at the end. Lines
  /// end with "\n" or "\r\n", which is removed. While it waits it calls `waits` twice a second. Throws Error
  /// when the input cannot be opened or read, or when a line exceeds the limit or is not UTF-8, after the lines before it
  /// were returned. On a terminal a line that is not UTF-8 is refused, and the next one asked for.
  std::vector<std::string> take(
      size_t most, const std::function<void()>& waits = [] {});

 private:
  /// The queue is shared with the thread, which may still wait for input when the LineStream is destroyed.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> lines;
    size_t bytes = 0;  ///< size of these lines
    bool ended = false, stopped = false;
    std::exception_ptr error;

    /// Waits until the queue is not full and adds a line; false if no more lines are wanted.
    bool add(std::string_view line);
    /// True if reading ahead must pause.
    bool full() const;
  };

  std::shared_ptr<Queue> queue_;
};

}  // namespace mtf
