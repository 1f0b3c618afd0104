#include "trainer/show/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/check.h"
#include "trainer/show/font.h"

namespace mtf {
namespace {

constexpr uint8_t kPaper = 255, kInk = 32, kFrame = 200;
constexpr int64_t kMargin = 6;
constexpr int64_t kLeastSide = 96;        ///< images are enlarged to about so many pixels
constexpr int64_t kLargeSide = 160;       ///< and from there on their texts are twice as large
constexpr int64_t kLeastCharacters = 16;  ///< characters of a line
constexpr double kSheetShape = 1.4;       ///< columns of pixels for each row

/// The sizes of a sheet, in pixels.
struct SheetPlan {
  int64_t enlargement = 1;
  int64_t text = 1;  ///< size of the pixels of letters
  int64_t cell_rows = 0, cell_cols = 0;
  int64_t across = 1, down = 1;  ///< tiles
};

SheetPlan plan_of(const std::vector<SheetTile>& tiles) {
  SheetPlan plan;
  const Image& image = tiles.front().image;
  const int64_t side = std::max(image.rows, image.cols);
  plan.enlargement = std::max<int64_t>(1, (kLeastSide + side / 2) / side);
  plan.text = side * plan.enlargement >= kLargeSide ? 2 : 1;
  size_t lines = 0;
  for (const SheetTile& tile : tiles) lines = std::max(lines, tile.lines.size());
  const int64_t text_cols = lines == 0 ? 0 : kLeastCharacters * kCharacterCols * plan.text;
  plan.cell_cols = std::max(image.cols * plan.enlargement, text_cols) + 2 * kMargin;
  plan.cell_rows =
      image.rows * plan.enlargement + static_cast<int64_t>(lines) * kCharacterRows * plan.text + 3 * kMargin;
  const double ratio =
      kSheetShape * static_cast<double>(plan.cell_rows) / static_cast<double>(plan.cell_cols);
  const auto count = std::ssize(tiles);
  plan.across = std::clamp<int64_t>(std::llround(std::sqrt(ratio * static_cast<double>(count))), 1, count);
  plan.down = (count + plan.across - 1) / plan.across;
  return plan;
}

void paint(Image& sheet, int64_t row, int64_t col, const uint8_t* color) {
  std::copy_n(color, 3, sheet.row(row) + col * 3);
}

/// Draws the image with a frame of one pixel, its own first pixel at `place`.
void draw_image(Image& sheet, PixelPlace place, const Image& image, int64_t enlargement) {
  const int64_t rows = image.rows * enlargement, cols = image.cols * enlargement;
  constexpr std::array<uint8_t, 3> frame = {kFrame, kFrame, kFrame};
  for (int64_t r = -1; r <= rows; ++r) {
    for (int64_t c = -1; c <= cols; ++c) {
      const bool inside = r >= 0 && c >= 0 && r < rows && c < cols;
      paint(sheet, place.row + r, place.col + c,
            inside ? image.row(r / enlargement) + c / enlargement * 3 : frame.data());
    }
  }
}

/// Text in ASCII: other characters are `?`.
std::string in_ascii(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) continue;  // goes on with a character of several bytes
    result += byte >= kFirstCharacter && byte < kFirstCharacter + kCharacters.size() ? c : '?';
  }
  return result;
}

}  // namespace

void draw_text(Image& image, PixelPlace place, std::string_view text, int64_t scale) {
  constexpr std::array<uint8_t, 3> ink = {kInk, kInk, kInk};
  int64_t left = place.col;
  for (const char c : in_ascii(text)) {
    const CharacterColumns& columns = kCharacters[static_cast<size_t>(c - kFirstCharacter)];
    for (int64_t y = 0; y < kGlyphRows * scale; ++y) {
      for (int64_t x = 0; x < kGlyphCols * scale; ++x) {
        const bool is_ink = columns[static_cast<size_t>(x / scale)] >> (y / scale) & 1;
        const int64_t row = place.row + y, col = left + x;
        if (is_ink && row < image.rows && col < image.cols) paint(image, row, col, ink.data());
      }
    }
    left += kCharacterCols * scale;
  }
}

Image contact_sheet(const std::vector<SheetTile>& tiles) {
  MTF_CHECK(!tiles.empty(), "a sheet without images");
  const SheetPlan plan = plan_of(tiles);
  Image sheet{plan.down * plan.cell_rows, plan.across * plan.cell_cols, 3, {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.rows * sheet.cols * 3), kPaper);
  const auto most = static_cast<size_t>((plan.cell_cols - 2 * kMargin) / (kCharacterCols * plan.text));
  for (int64_t i = 0; i < std::ssize(tiles); ++i) {
    const SheetTile& tile = tiles[static_cast<size_t>(i)];
    MTF_CHECK(tile.image.channels == 3 && tile.image.rows == tiles[0].image.rows &&
                  tile.image.cols == tiles[0].image.cols,
              "tiles of unlike sizes");
    PixelPlace place{i / plan.across * plan.cell_rows + kMargin, i % plan.across * plan.cell_cols + kMargin};
    draw_image(sheet, place, tile.image, plan.enlargement);
    place.row += tile.image.rows * plan.enlargement + kMargin;
    for (const std::string& line : tile.lines) {
      std::string text = in_ascii(line);
      if (text.size() > most) text = text.substr(0, most - 2) + "..";
      draw_text(sheet, place, text, plan.text);
      place.row += kCharacterRows * plan.text;
    }
  }
  return sheet;
}

}  // namespace mtf
