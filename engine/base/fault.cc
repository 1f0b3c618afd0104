#include "engine/base/fault.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/parse_number.h"

namespace mtf {
namespace {

constexpr const char* variable = "MTF_FAULT";

/// Stands for the exception among the error numbers, which are positive.
constexpr int kBadAlloc = -1;

constexpr std::array<std::pair<std::string_view, int>, 7> error_names = {{{"ENOSPC", ENOSPC},
                                                                          {"EIO", EIO},
                                                                          {"EROFS", EROFS},
                                                                          {"EACCES", EACCES},
                                                                          {"EFBIG", EFBIG},
                                                                          {"EINVAL", EINVAL},
                                                                          {"bad_alloc", kBadAlloc}}};

/// The value of the variable, parsed.
struct Fault {
  std::string name;
  int64_t passing = 1;  ///< which passing of the place fails, counted from 1
  int error = 0;        ///< 0: the process is killed
};

[[noreturn]] void refuse(std::string_view text, const std::string& legal) {
  fmt::print(stderr, "{}={}: {}\n", variable, text, legal);
  std::_Exit(2);
}

/// Parses NAME[@K][=ERROR].
Fault parse_fault(std::string_view text) {
  Fault fault;
  std::string_view rest = text;
  if (const size_t equal = rest.find('='); equal != std::string_view::npos) {
    const std::string_view error = rest.substr(equal + 1);
    const auto* entry = std::ranges::find(error_names, error, &std::pair<std::string_view, int>::first);
    if (entry == error_names.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, number] : error_names) names.push_back(name);
      refuse(text, fmt::format("errors are {}", fmt::join(names, ", ")));
    }
    fault.error = entry->second;
    rest = rest.substr(0, equal);
  }
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    const auto passing = parse_number<int64_t>(rest.substr(at + 1));
    if (!passing || *passing < 1) refuse(text, "after @ stands a number of at least 1");
    fault.passing = *passing;
    rest = rest.substr(0, at);
  }
  if (std::ranges::find(fault_points(), rest) == fault_points().end())
    refuse(text, fmt::format("places are {}", fmt::join(fault_points(), ", ")));
  fault.name = rest;
  return fault;
}

/// Counts how often the place that MTF_FAULT names was passed. A new value of the variable restarts the
/// count, so that one test program can try several values.
class PassingCounter {
 public:
  /// Returns the fault if this is the passing that `text` asks for.
  std::optional<Fault> pass(const char* text, std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (text_ != text) {
      fault_ = parse_fault(text);
      text_ = text;
      passed_ = 0;
    }
    if (name != fault_.name || ++passed_ != fault_.passing) return std::nullopt;
    return fault_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  Fault fault_;
  int64_t passed_ = 0;
};

}  // namespace

const std::vector<std::string_view>& fault_points() {
  static const std::vector<std::string_view> names = {
      "checkpoint.begin",  "checkpoint.create",   "checkpoint.write", "checkpoint.written",
      "checkpoint.file",   "checkpoint.manifest", "checkpoint.sync",  "checkpoint.rename",
      "checkpoint.parent", "checkpoint.remove",   "save.done",        "metrics.line",
      "directory.lock",    "resume.config",       "resume.cut"};
  return names;
}

int fault_point(std::string_view name) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return 0;
  MTF_CHECK(std::ranges::find(fault_points(), name) != fault_points().end(), "no fault point {}", name);
  static PassingCounter counter;
  const std::optional<Fault> fault = counter.pass(text, name);
  if (!fault) return 0;
  if (fault->error == kBadAlloc) throw std::bad_alloc();
  if (fault->error != 0) return fault->error;
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace mtf
