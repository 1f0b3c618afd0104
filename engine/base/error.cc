#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <string_view>
#include <system_error>
#include <tuple>

#include "engine/base/printable.h"

namespace mtf {

std::string Mark::to_string() const { return line > 0 ? fmt::format("{}:{}:{}", file, line, column) : file; }

namespace {

/// The part of a line that a Problem shows, and where it is underlined.
struct Excerpt {
  std::string text;
  int caret = 0;  ///< number of columns before the caret
  int width = 1;  ///< number of columns that are underlined
};

/// Returns at most kShown characters of the line around the place.
Excerpt excerpt_of(const Mark& mark) {
  constexpr int kShown = 110, kBefore = 60;
  const std::string line = printable_columns(mark.text);
  const int all = character_count(line);
  const int place = std::clamp(mark.column - mark.text_column, 0, all);
  const bool fits = all <= kShown;
  const int first = fits || place + mark.length < kShown ? 0 : std::min(place - kBefore, all - kShown);
  const int begin = std::max(0, first), end = fits ? all : std::min(all, begin + kShown);
  const auto part = [&line](int from, int to) {
    const size_t byte = byte_of_character(line, from);
    return line.substr(byte, byte_of_character(line, to) - byte);
  };
  Excerpt excerpt{part(begin, end), display_width(part(begin, place)), 1};
  excerpt.width = std::max(1, display_width(part(place, std::min(place + mark.length, end))));
  const bool cut_left = begin > 0 || mark.text_column > 1, cut_right = end < all;
  if (cut_left) excerpt.text = "…" + excerpt.text.substr(byte_of_character(excerpt.text, 1));
  if (cut_right) excerpt.text += "…";
  return excerpt;
}

/// Returns the line with its number, and the caret below it.
std::string shown_line(const Mark& mark) {
  const Excerpt excerpt = excerpt_of(mark);
  const std::string number = mark.line > 0 ? std::to_string(mark.line) : "";
  const size_t margin = std::max<size_t>(5, number.size());
  return fmt::format("{:>{}} | {}\n{:>{}} | {:>{}}^{}", number, margin, excerpt.text, "", margin, "",
                     excerpt.caret, std::string(excerpt.width - 1, '~'));
}

}  // namespace

std::string Problem::to_string() const {
  std::string result = shortened(printable(mark.known() ? mark.to_string() + ": " + message : message));
  if (!hint.empty()) result += "; " + shortened(printable(hint));
  if (!mark.text.empty() && mark.column > 0) result += "\n" + shown_line(mark);
  if (!details.empty()) result += "\n" + printable_lines(details);
  return result;
}

Error::Error(ErrorKind kind, std::string message, std::string hint)
    : Error(kind, Mark{}, std::move(message), std::move(hint)) {}

Error::Error(ErrorKind kind, Mark mark, std::string message, std::string hint)
    : Error(std::vector<Problem>{{kind, std::move(mark), std::move(message), std::move(hint), {}}}) {}

Error::Error(std::vector<Problem> problems) : problems_(std::move(problems)) {
  for (const Problem& problem : problems_) {
    if (!text_.empty()) text_ += "\n";
    if (&problem - problems_.data() == kMostPrinted) {
      text_ += fmt::format("and {} more", problems_.size() - kMostPrinted);
      break;
    }
    text_ += problem.to_string();
  }
}

int Error::exit_code() const {
  const auto is_config = [](const Problem& problem) { return problem.kind == ErrorKind::kConfig; };
  if (std::ranges::any_of(problems_, is_config)) return 2;
  switch (kind()) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kDiverged:
      return 3;
    case ErrorKind::kPeerLost:
      return 75;
    default:
      return 1;
  }
}

std::string system_message(int error) { return std::generic_category().message(error); }

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

void Diagnostics::note(const std::string& message) { notes_.push_back(printable_lines(message)); }

void Diagnostics::add_source(const std::string& file) {
  sources_.emplace(file, static_cast<int>(sources_.size()));
}

void Diagnostics::throw_if_errors() const {
  if (errors_.empty()) return;
  struct Placed {
    std::tuple<int, std::string_view, int, int> place;
    const Problem* problem;
  };
  std::vector<Placed> placed;
  for (const Problem& problem : errors_) {
    const Mark& mark = problem.mark;
    const auto source = sources_.find(mark.file);
    const int rank = source != sources_.end() ? source->second : mark.known() ? INT_MAX : -1;
    placed.push_back({{rank, mark.file, mark.line, mark.column}, &problem});
  }
  std::ranges::stable_sort(placed, {}, &Placed::place);
  std::vector<Problem> sorted;
  const Placed* previous = nullptr;
  for (const Placed& next : placed) {
    const bool again =
        previous && previous->place == next.place && previous->problem->message == next.problem->message;
    if (!again) sorted.push_back(*next.problem);
    previous = &next;
  }
  throw Error(std::move(sorted));
}

}  // namespace mtf
