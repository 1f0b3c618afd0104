// Lines that a thread of its own reads, so that those that are there can be taken together.
//
//   LineStream lines("-");
//   for (std::vector<std::string> some = lines.take(1024); !some.empty(); some = lines.take(1024)) ...
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/line_splitter.h"
#include "trainer/config/config.h"

namespace mtf {

/// Standard input ("-"), a pipe or another device: can be read once, and is read as it comes.
bool is_stream(const std::string& path);
/// For messages: the path, or "standard input".
std::string input_name(const std::string& path);

/// A key of the configuration and the file that it names; "": none.
struct NamedInput {
  std::string_view key;
  std::string path;
};
/// Throws Error (kConfig) where a stream would be read twice: as both files, or for several checkpoints.
void check_inputs(const Config& config, const NamedInput& first, const NamedInput& second,
                  size_t checkpoints);

class LineStream {
 public:
  /// `path`: a file, plain or .gz, or a stream. Throws Error (kData) when a file cannot be opened.
  LineStream(const std::string& path, const TextLimit& limit);
  ~LineStream();
  LineStream(const LineStream&) = delete;

  /// Waits for a line, then takes those that are there, at most `most`; none at the end. Lines end with "\n"
  /// or "\r\n", which are not part of them. Twice a second of waiting it calls `waits`. Throws Error when the
  /// stream cannot be opened or the file cannot be read on, and for a line above the limit.
  std::vector<std::string> take(
      size_t most, const std::function<void()>& waits = [] {});

 private:
  /// Shared with the thread, which may wait for input when nobody wants it any more.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> lines;
    size_t bytes = 0;  ///< of these lines
    bool ended = false, stopped = false;
    std::exception_ptr error;

    /// False: nobody wants lines any more.
    bool add(std::string_view line);
    /// No more is read ahead.
    bool full() const;
  };

  std::shared_ptr<Queue> queue_;
};

}  // namespace mtf
