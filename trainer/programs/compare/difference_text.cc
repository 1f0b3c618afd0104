#include "trainer/programs/compare/difference_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtf {

double relative_difference(double a, double b, double scale) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b) / std::max({std::abs(a), std::abs(b), scale});
}

std::string against(double a, double b) {
  constexpr int fewest_digits = 4, all_digits = 17;
  for (int digits = fewest_digits; digits < all_digits; ++digits) {
    const std::string x = fmt::format("{:.{}g}", a, digits), y = fmt::format("{:.{}g}", b, digits);
    if (x != y) return fmt::format("{} against {}", x, y);
  }
  return fmt::format("{:.{}g} against {:.{}g}", a, all_digits, b, all_digits);
}

std::string relative_text(double relative) { return fmt::format("{:.1e}", relative); }

std::string table(std::string_view alignment, const std::vector<std::vector<std::string>>& rows) {
  constexpr size_t widest = 48;
  std::vector<size_t> widths(alignment.size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].size() <= widest) widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += alignment[i] == '>' ? fmt::format(" {:>{}} ", row[i], widths[i])
                                  : fmt::format(" {:<{}} ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace mtf
