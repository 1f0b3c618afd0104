#include "data/text/text_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/base/counted.h"

namespace mtf {
namespace {

std::string number(int64_t count) { return with_thousands(static_cast<double>(count)); }

std::string percent(int64_t part, int64_t whole) {
  return fmt::format("{:.1f} %",
                     whole == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

std::string RowRules::limit_text() const {
  const bool same = limit.inputs == limit.targets || limit.inputs == 0 || limit.targets == 0;
  return same ? counted(std::max(limit.inputs, limit.targets), "token")
              : fmt::format("{} / {} tokens", limit.inputs, limit.targets);
}

double TextReport::padding(Side side) const {
  const auto places = static_cast<double>(rows * rules.row[side]);
  return places == 0 ? 0 : 1 - static_cast<double>(tokens[side]) / places;
}

std::string TextReport::to_string() const {
  std::string full;
  for (const Side side : kSides) {
    if (rules.row[side] > 0)
      full += fmt::format("{}{} {:.1f} % full", full.empty() ? "" : ", ", mtf::name_of(side),
                          100 * (1 - padding(side)));
  }
  std::string text =
      rows > 0 ? fmt::format("{} in {} ({})", counted(examples, "example"), counted(rows, "row"), full)
               : fmt::format("none of {} is left", counted(examples, "example"));
  std::vector<std::string> notes;
  if (empty > 0)
    notes.push_back(
        fmt::format("{} {}", number(empty),
                    rules.keep_empty          ? "without text"
                    : rules.cuts_joined_pairs ? "without text, or without targets once cut, dropped"
                    : rules.has_preferences   ? "with an answer of which nothing is learned dropped"
                    : rules.has_answers       ? "without text, or without anything that is learned, dropped"
                                              : "without text dropped"));
  if (too_long > 0) {
    const char* const treated = rules.too_long == TooLong::kDrop  ? "dropped"
                                : rules.too_long == TooLong::kCut ? "cut off"
                                                                  : "split";
    notes.push_back(fmt::format("{} ({}) longer than {} {}", number(too_long), percent(too_long, examples),
                                rules.limit_text(), treated));
  }
  if (too_unequal > 0)
    notes.push_back(fmt::format("{} ({}) with lengths beyond 1:{} dropped", number(too_unequal),
                                percent(too_unequal, examples), *rules.max_ratio));
  if (blank_lines > 0) notes.push_back(counted(blank_lines, "blank line"));
  if (!notes.empty()) text += fmt::format("; {}", fmt::join(notes, ", "));
  return name.empty() ? text : fmt::format("{}: {}", name, text);
}

}  // namespace mtf
