#include "trainer/evaluation/confusion_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/printable.h"
#include "trainer/html/page.h"
#include "trainer/report/progress.h"
#include "trainer/session/example_images.h"

namespace mtf {
namespace {

constexpr int64_t kMostNumbered = 30;  ///< classes whose cells have numbers
constexpr int64_t kMostRows = 100;
constexpr int64_t kMostNamed = 100;  ///< rows that all have names; of more, every tenth has
constexpr size_t kMostMistakes = 25;
constexpr int kLevels = 16;  ///< shades of each colour
constexpr int kLongestName = 24;
constexpr double kCharacter = 0.6;  ///< width of a character, as part of the size of its font

constexpr std::string_view kStyle =
    "text{font-family:system-ui,\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif;fill:#1c2230}"
    ".paper{fill:#ffffff}.frame{fill:none;stroke:#8b93a3}.muted{fill:#5a6374}.on{fill:#ffffff}"
    ".right{fill:#2456c6}.wrong{fill:#c2500f}.middle{text-anchor:middle}.end{text-anchor:end}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e9ef}.paper{fill:#1b1f26}.muted{fill:#9da7b8}"
    ".on{fill:#ffffff}.right{fill:#4f80ea}.wrong{fill:#d9702f}}";

/// Text that may stand in XML: one line of at most kLongestName characters.
std::string short_name(std::string_view name) {
  std::string text = printable(name);
  if (character_count(text) > kLongestName)
    text = text.substr(0, byte_of_character(text, kLongestName - 1)) + "…";
  return text;
}

/// Some neighbouring classes, or one, share a row and a column.
struct Grid {
  int64_t classes_of_row = 1;
  int64_t rows = 0;
  double cell = 0;    ///< pixels
  double margin = 0;  ///< pixels for names, at the left and above
  double top = 0;     ///< where the first row begins
  int64_t named = 1;  ///< rows 0, named, 2 * named, ... have names
  double font = 0;    ///< size of the names
};

std::string row_name(const Grid& grid, const std::vector<std::string>& names, int64_t row) {
  return short_name(class_text(names, row * grid.classes_of_row));
}

Grid grid_of(int64_t classes, const std::vector<std::string>& names) {
  constexpr double kSide = 680, kLeastCell = 8, kMostCell = 56, kTitle = 52, kLargestFont = 13;
  Grid grid;
  grid.classes_of_row = (classes + kMostRows - 1) / kMostRows;
  grid.rows = (classes + grid.classes_of_row - 1) / grid.classes_of_row;
  grid.cell = std::clamp(std::floor(kSide / static_cast<double>(grid.rows)), kLeastCell, kMostCell);
  grid.named = classes <= kMostNamed ? 1 : 10;
  grid.font = std::min(kLargestFont, grid.cell * static_cast<double>(grid.named));
  int longest = 1;
  for (int64_t row = 0; row < grid.rows; row += grid.named)
    longest = std::max(longest, display_width(row_name(grid, names, row)));
  grid.margin = std::ceil(grid.font * kCharacter * longest) + 34;
  grid.top = kTitle + grid.margin;
  return grid;
}

/// Draws one picture.
class Drawing {
 public:
  Drawing(const ConfusionMatrix& matrix, const std::vector<std::string>& names)
      : matrix_(matrix), names_(names), grid_(grid_of(matrix.classes(), names)) {
    for (const ConfusionCell& cell : matrix.cells()) {
      const int64_t row = cell.label / grid_.classes_of_row, col = cell.prediction / grid_.classes_of_row;
      counts_[{row, col}] += cell.count;
      sums_[row] += cell.count;
    }
  }

  std::string svg(std::string_view title) {
    draw_names();
    if (matrix_.classes() <= kMostNumbered)
      draw_numbers();
    else
      draw_shades();
    const double side = grid_.cell * static_cast<double>(grid_.rows);
    add("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", grid_.margin - 0.5,
        grid_.top - 0.5, side + 1, side + 1);
    double width = grid_.margin + side + 16;
    if (matrix_.classes() > kMostNumbered) width += list_mistakes(width + 16);
    const std::string heading = escaped_html(printable(title));
    width = std::max(width, 16 + 15 * kCharacter * display_width(printable(title)));
    const double height = std::max(grid_.top + side + 16, 460.0 * (matrix_.classes() > kMostNumbered));
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" role=\"img\"><title>{2}</title><style>{3}</style>\n"
        "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n<text x=\"8\" y=\"24\" "
        "font-size=\"15\">{2}</text>\n"
        "{4}</svg>\n",
        width, height, heading, kStyle, body_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(body_), text, std::forward<Values>(values)...);
    body_ += '\n';
  }
  double x(int64_t col) const { return grid_.margin + grid_.cell * static_cast<double>(col); }
  double y(int64_t row) const { return grid_.top + grid_.cell * static_cast<double>(row); }
  double share(int64_t row, int64_t count) const {
    return static_cast<double>(count) / static_cast<double>(sums_.at(row));
  }

  void draw_names() {
    const double side = grid_.cell * static_cast<double>(grid_.rows), middle = side / 2;
    add("<text class=\"muted middle\" font-size=\"12\" transform=\"translate(14 {}) rotate(-90)\">right "
        "class</text>",
        grid_.top + middle);
    add("<text class=\"muted middle\" font-size=\"12\" x=\"{}\" y=\"44\">prediction</text>",
        grid_.margin + middle);
    for (int64_t row = 0; row < grid_.rows; row += grid_.named) {
      const std::string name = escaped_html(row_name(grid_, names_, row));
      const double half = grid_.cell / 2 + grid_.font * 0.35;
      add("<text class=\"end\" font-size=\"{:.4g}\" x=\"{}\" y=\"{:.4g}\">{}</text>", grid_.font,
          grid_.margin - 6, y(row) + half, name);
      add("<text font-size=\"{:.4g}\" transform=\"translate({:.4g} {}) rotate(-90)\">{}</text>", grid_.font,
          x(row) + half, grid_.top - 6, name);
    }
  }

  /// A rectangle for each count, with its number.
  void draw_numbers() {
    for (const auto& [place, count] : counts_) {
      const auto [row, col] = place;
      const double part = share(row, count);
      const std::string number = with_thousands(static_cast<double>(count));
      const double font =
          std::min({14.0, grid_.cell * 0.45,
                    grid_.cell * 0.9 / (kCharacter * static_cast<double>(std::ssize(number)))});
      const std::string label = escaped_html(printable(class_text(names_, row))),
                        prediction = escaped_html(printable(class_text(names_, col)));
      add("<g><title>{}, predicted {}: {} ({:.1f} %)</title><rect class=\"{}\" fill-opacity=\"{:.3g}\" "
          "x=\"{}\" "
          "y=\"{}\" width=\"{}\" height=\"{}\"/><text class=\"middle{}\" font-size=\"{:.3g}\" x=\"{}\" "
          "y=\"{:.5g}\">{}</text></g>",
          label, prediction, number, part * 100, row == col ? "right" : "wrong", std::max(part, 0.04), x(col),
          y(row), grid_.cell, grid_.cell, part > 0.5 ? " on" : "", font, x(col) + grid_.cell / 2,
          y(row) + grid_.cell / 2 + font * 0.35, number);
    }
  }

  /// A path for each shade, with a square for each count: few bytes for many cells.
  void draw_shades() {
    std::map<std::pair<bool, int>, std::string> paths;
    for (const auto& [place, count] : counts_) {
      const auto [row, col] = place;
      const int level = std::clamp(static_cast<int>(std::ceil(share(row, count) * kLevels)), 1, kLevels);
      fmt::format_to(std::back_inserter(paths[{row == col, level}]), "M{} {}h1v1h-1z", col, row);
    }
    add("<g transform=\"translate({} {}) scale({})\">", grid_.margin, grid_.top, grid_.cell);
    for (const auto& [shade, path] : paths) {
      add("<path class=\"{}\" fill-opacity=\"{:.3g}\" d=\"{}\"/>", shade.first ? "right" : "wrong",
          static_cast<double>(shade.second) / kLevels, path);
    }
    add("</g>");
  }

  /// Lists the most frequent mistakes from `left` on and returns the width.
  double list_mistakes(double left) {
    constexpr double kFont = 12, kLine = 17;
    std::vector<ConfusionCell> mistakes = matrix_.cells();
    std::erase_if(mistakes, [](const ConfusionCell& cell) { return cell.label == cell.prediction; });
    std::ranges::stable_sort(mistakes, std::ranges::greater{}, &ConfusionCell::count);
    if (mistakes.size() > kMostMistakes) mistakes.resize(kMostMistakes);
    add("<text class=\"muted\" font-size=\"{}\" x=\"{}\" y=\"44\">most frequent mistakes</text>", kFont,
        left);
    int longest = character_count("most frequent mistakes");
    double line = 44;
    for (const ConfusionCell& cell : mistakes) {
      const std::string text = fmt::format(
          "{}  {}, predicted {}", with_thousands(static_cast<double>(cell.count)),
          short_name(class_text(names_, cell.label)), short_name(class_text(names_, cell.prediction)));
      longest = std::max(longest, display_width(text));
      add("<text font-size=\"{}\" x=\"{}\" y=\"{}\">{}</text>", kFont, left, line += kLine,
          escaped_html(text));
    }
    return 32 + kFont * kCharacter * longest;
  }

  const ConfusionMatrix& matrix_;
  const std::vector<std::string>& names_;
  const Grid grid_;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts_;  ///< by row and column
  std::map<int64_t, int64_t> sums_;                        ///< by row
  std::string body_;
};

}  // namespace

std::string confusion_svg(const ConfusionMatrix& matrix, const std::vector<std::string>& names,
                          std::string_view title) {
  return Drawing(matrix, names).svg(title);
}

}  // namespace mtf
