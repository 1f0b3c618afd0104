// Errors that a user can understand: what is wrong, where, and what would be right.
//
//   throw Error(ErrorKind::kData, "images.idx: 3 bytes are missing at the end", "download the file again");
//   diagnostics.error(mark, "unknown key `stepz`", "`steps`");   // collect all, then
//   diagnostics.throw_if_errors();                               // report them together
//
// A broken invariant of the program itself is MTF_CHECK (check.h), which aborts.
#pragma once

#include <exception>
#include <map>
#include <string>
#include <vector>

namespace mtf {

/// Decides the exit code: kUsage and kConfig (of any problem) 2; kDiverged 3; kPeerLost 75; the others 1.
enum class ErrorKind { kUsage, kConfig, kData, kCheckpoint, kSystem, kMemory, kDiverged, kPeerLost };

/// A place in a YAML file or on the command line. Lines and columns count from 1; line 0: no position in a
/// file.
struct Mark {
  std::string file;  ///< path of a file, or "argument 3"
  int line = 0;
  int column = 0;
  int length = 1;       ///< characters under the caret
  std::string text;     ///< the line itself (of a long one what is near) or the argument; may be empty
  int text_column = 1;  ///< of the first character of `text`

  /// "FILE:LINE:COL", or "argument 3".
  std::string to_string() const;
  bool known() const { return !file.empty(); }
};

/// One thing that is wrong. Printed as `PLACE: message; hint`, then the line with a caret, then `details`.
struct Problem {
  ErrorKind kind = ErrorKind::kConfig;
  Mark mark;
  std::string message;
  std::string hint;     ///< what would be right; may be empty
  std::string details;  ///< further lines, such as the tensors that a layout rule concerns; may be empty

  std::string to_string() const;
};

/// Carries one or more problems to main(), which prints what() and returns exit_code().
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, std::string hint = {});
  Error(ErrorKind kind, Mark mark, std::string message, std::string hint = {});
  explicit Error(std::vector<Problem> problems);

  const char* what() const noexcept override { return text_.c_str(); }
  const std::vector<Problem>& problems() const { return problems_; }
  ErrorKind kind() const { return problems_.front().kind; }
  int exit_code() const;

  /// More problems than this are counted, not printed.
  static constexpr size_t kMostPrinted = 20;

 private:
  std::vector<Problem> problems_;
  std::string text_;
};

/// The system's words for an error number: "No space left on device".
std::string system_message(int error);

/// Collects errors and warnings of a phase so that all of a run are reported together.
class Diagnostics {
 public:
  void error(Mark mark, std::string message, std::string hint = {}, std::string details = {});
  void add(Problem problem) { errors_.push_back(std::move(problem)); }
  void add(const Error& error);
  void warning(Mark mark, std::string message);
  void note(const std::string& message);
  /// Problems are ordered by the files (and arguments) in the order in which they are named here.
  void add_source(const std::string& file);

  bool has_errors() const { return !errors_.empty(); }
  const std::vector<Problem>& errors() const { return errors_; }
  const std::vector<Problem>& warnings() const { return warnings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// Throws one Error with all problems, ordered by place, each once.
  void throw_if_errors() const;

 private:
  std::vector<Problem> errors_;
  std::vector<Problem> warnings_;
  std::vector<std::string> notes_;
  std::map<std::string, int> sources_;  ///< their order
};

}  // namespace mtf
