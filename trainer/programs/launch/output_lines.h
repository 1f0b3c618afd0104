// Merges the output of several processes on one descriptor, line by line, each with a prefix.
//
//   OutputSink sink(STDERR_FILENO);
//   LinePrefixer lines("[2] ", sink);
//   lines.add(bytes);      // writes complete lines
//   lines.end();           // writes the rest
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// An output descriptor, which is written to until its reader is gone. Writing never blocks; text that a slow
/// reader has not taken is buffered.
class OutputSink {
 public:
  explicit OutputSink(int descriptor);

  int descriptor() const { return descriptor_; }
  bool is_terminal() const { return is_terminal_; }
  /// True if the reader is gone.
  bool closed() const { return closed_; }
  /// The system's error number if text could not be written, otherwise 0.
  int error() const { return error_; }
  /// True if text is buffered. The caller should add no more than necessary, and call flush() when the
  /// descriptor is writable.
  bool waits() const { return !waiting_.empty(); }
  void write(std::string_view text);
  /// Writes as much buffered text as possible without blocking.
  void flush();
  /// Discards the buffered text and everything that is written later.
  void close();
  /// Writes a line that does not come from rank 0. On a terminal it overwrites a progress bar, which rank 0
  /// draws again.
  void write_line(std::string line);

 private:
  int descriptor_;
  bool is_terminal_;
  bool closed_ = false;
  int error_ = 0;
  std::string waiting_;
};

class LinePrefixer {
 public:
  LinePrefixer(std::string prefix, OutputSink& sink) : prefix_(std::move(prefix)), sink_(&sink) {}

  void add(std::string_view bytes);
  /// Writes an incomplete last line.
  void end();
  OutputSink& sink() const { return *sink_; }

 private:
  std::string prefix_;
  OutputSink* sink_;
  std::string line_;  ///< the incomplete line
};

}  // namespace mtf
