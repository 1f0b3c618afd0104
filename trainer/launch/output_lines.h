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

/// A descriptor that is written to until its reader is gone.
class OutputSink {
 public:
  explicit OutputSink(int descriptor);

  int descriptor() const { return descriptor_; }
  bool is_terminal() const { return is_terminal_; }
  /// Nobody reads any more.
  bool closed() const { return closed_; }
  void write(std::string_view text);
  /// A line that does not come from rank 0: on a terminal it takes the place of a progress bar, which rank 0
  /// draws again.
  void write_line(std::string line);

 private:
  int descriptor_;
  bool is_terminal_;
  bool closed_ = false;
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
