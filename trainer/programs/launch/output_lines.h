// Output of several processes on one descriptor: line by line, each with a prefix.
//
//   OutputSink sink(STDERR_FILENO);
//   LinePrefixer lines("[2] ", sink);
//   lines.add(bytes);      // what is a whole line is written
//   lines.end();           // and the rest
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// A descriptor that is written to until its reader is gone. Nothing waits for a reader that is slow.
class OutputSink {
 public:
  explicit OutputSink(int descriptor);

  int descriptor() const { return descriptor_; }
  bool is_terminal() const { return is_terminal_; }
  /// Nobody reads any more.
  bool closed() const { return closed_; }
  /// The reader has not taken all yet: the caller adds no more than it must, and calls flush() when the
  /// descriptor can be written to.
  bool waits() const { return !waiting_.empty(); }
  void write(std::string_view text);
  /// Writes as much as the reader takes at once.
  void flush();
  /// What is left is for nobody.
  void close();
  /// A line that does not come from rank 0: on a terminal it takes the place of a progress bar, which rank 0
  /// draws again.
  void write_line(std::string line);

 private:
  int descriptor_;
  bool is_terminal_;
  bool closed_ = false;
  std::string waiting_;
};

class LinePrefixer {
 public:
  LinePrefixer(std::string prefix, OutputSink& sink) : prefix_(std::move(prefix)), sink_(&sink) {}

  void add(std::string_view bytes);
  /// A last line without its end is one, too.
  void end();
  OutputSink& sink() const { return *sink_; }

 private:
  std::string prefix_;
  OutputSink* sink_;
  std::string line_;  ///< begun
};

}  // namespace mtf
