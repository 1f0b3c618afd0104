#include "engine/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace mtf {

std::string Mark::to_string() const { return line > 0 ? fmt::format("{}:{}:{}", file, line, column) : file; }

std::string Problem::to_string() const {
  std::string result = mark.known() ? mark.to_string() + ": " + message : message;
  if (!hint.empty()) result += "; " + hint;
  if (!mark.text.empty() && mark.line > 0) {
    const std::string prefix = fmt::format("{:>5} | ", mark.line);
    result +=
        fmt::format("\n{}{}\n{:>{}} | {:>{}}", prefix, mark.text, "", 5, "", std::max(0, mark.column - 1));
    result += "^" + std::string(std::max(0, mark.length - 1), '~');
  }
  if (!details.empty()) result += "\n" + details;
  return result;
}

Error::Error(ErrorKind kind, std::string message, std::string hint)
    : Error(kind, Mark{}, std::move(message), std::move(hint)) {}

Error::Error(ErrorKind kind, Mark mark, std::string message, std::string hint)
    : Error(std::vector<Problem>{{kind, std::move(mark), std::move(message), std::move(hint), {}}}) {}

Error::Error(std::vector<Problem> problems) : problems_(std::move(problems)) {
  for (const Problem& problem : problems_) text_ += (text_.empty() ? "" : "\n") + problem.to_string();
}

int Error::exit_code() const {
  switch (kind()) {
    case ErrorKind::kUsage:
    case ErrorKind::kConfig:
      return 2;
    case ErrorKind::kDiverged:
      return 3;
    case ErrorKind::kPeerLost:
      return 75;
    default:
      return 1;
  }
}

void Diagnostics::error(Mark mark, std::string message, std::string hint, std::string details) {
  errors_.push_back(
      {ErrorKind::kConfig, std::move(mark), std::move(message), std::move(hint), std::move(details)});
}

void Diagnostics::add(const Error& error) {
  for (const Problem& problem : error.problems()) errors_.push_back(problem);
}

void Diagnostics::warning(Mark mark, std::string message) {
  warnings_.push_back({ErrorKind::kConfig, std::move(mark), std::move(message), {}, {}});
}

void Diagnostics::note(std::string message) { notes_.push_back(std::move(message)); }

void Diagnostics::throw_if_errors() const {
  if (errors_.empty()) return;
  std::vector<Problem> sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.mark.file, a.mark.line, a.mark.column) <
           std::tie(b.mark.file, b.mark.line, b.mark.column);
  });
  throw Error(std::move(sorted));
}

}  // namespace mtf
