// Errors for the user: an Error says what is wrong, where, and what would be right.
//
//   throw Error(ErrorKind::kData, "images.idx: 3 bytes are missing at the end", "download the file again");
//   diagnostics.error(mark, "unknown key `stepz`", "`steps`");   // collects problems;
//   diagnostics.throw_if_errors();                               // reports them together
//
// Broken invariants of the program itself are checked by MTF_CHECK (check.h), which aborts.
#pragma once

#include <exception>
#include <map>
#include <string>
#include <vector>

namespace mtf {

/// The kind of an error decides the exit code: 2 for kUsage and (if any problem has it) kConfig, 3 for
/// kDiverged, 75 for kPeerLost, 1 for the others. kNoDevice: the machine has no GPU, or no driver.
enum class ErrorKind {
  kUsage,
  kConfig,
  kData,
  kCheckpoint,
  kSystem,
  kMemory,
  kDiverged,
  kPeerLost,
  kNoDevice
};

/// A place in a YAML file or on the command line. Lines and columns count from 1; line 0 means that the place
/// has no position in a file.
struct Mark {
  std::string file;  ///< the path of a file, or "argument 3"
  int line = 0;
  int column = 0;
  int length = 1;       ///< number of characters that are underlined
  std::string text;     ///< the line (of a long one, the part around the place) or the argument; may be empty
  int text_column = 1;  ///< the column of the first character of `text`

  /// Returns "FILE:LINE:COL", or "argument 3".
  std::string to_string() const;
  bool known() const { return !file.empty(); }
};

/// One problem. It is printed as `PLACE: message; hint`, then the line with a caret below it, then `details`.
struct Problem {
  ErrorKind kind = ErrorKind::kConfig;
  Mark mark;
  std::string message;
  std::string hint;     ///< says what would be right; may be empty
  std::string details;  ///< further lines, such as the tensors that a layout rule concerns; may be empty

  std::string to_string() const;
};

/// An exception with one or more problems. main() prints what() and returns exit_code().
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, std::string hint = {});
  Error(ErrorKind kind, Mark mark, std::string message, std::string hint = {});
  explicit Error(std::vector<Problem> problems);

  const char* what() const noexcept override { return text_.c_str(); }
  const std::vector<Problem>& problems() const { return problems_; }
  ErrorKind kind() const { return problems_.front().kind; }
  int exit_code() const;

  /// The number of problems that what() prints; further ones are only counted.
  static constexpr size_t kMostPrinted = 20;

 private:
  std::vector<Problem> problems_;
  std::string text_;
};

/// Returns the system's message for an error number, such as "No space left on device".
std::string system_message(int error);

/// Collects the errors and warnings of a phase, so that all of them are reported together.
class Diagnostics {
 public:
  void error(Mark mark, std::string message, std::string hint = {}, std::string details = {});
  void add(Problem problem) { errors_.push_back(std::move(problem)); }
  void add(const Error& error);
  void warning(Mark mark, std::string message);
  void note(const std::string& message);
  /// Names a file or an argument. Problems are ordered by their sources, in the order of these calls.
  void add_source(const std::string& file);

  bool has_errors() const { return !errors_.empty(); }
  const std::vector<Problem>& errors() const { return errors_; }
  const std::vector<Problem>& warnings() const { return warnings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// Throws one Error with all problems, ordered by their marks and without duplicates; returns if there is
  /// none.
  void throw_if_errors() const;

 private:
  std::vector<Problem> errors_;
  std::vector<Problem> warnings_;
  std::vector<std::string> notes_;
  std::map<std::string, int> sources_;  ///< position of each source in the order of add_source()
};

}  // namespace mtf
