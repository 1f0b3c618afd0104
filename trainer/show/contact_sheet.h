// A picture of several images, each with lines of text below it.
//
//   const Image sheet = contact_sheet({{image, {"sneaker"}}, {other, {"0.71 bag", "0.29 coat"}}});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image.h"

namespace mtf {

struct SheetTile {
  Image image;  ///< three channels; all images have the same size
  std::vector<std::string> lines;
};

/// Returns the tiles in rows, images of few pixels enlarged, as RGB. Texts that are too long end in `..`.
Image contact_sheet(const std::vector<SheetTile>& tiles);

/// A place in an image: row and column of its first pixel.
struct PixelPlace {
  int64_t row = 0;
  int64_t col = 0;
};

/// The size of a character with the space after it, in pixels.
inline constexpr int64_t kCharacterCols = 6, kCharacterRows = 9;

/// Draws a text in dark letters of 5 x 7 pixels, each of scale x scale pixels. Characters outside of ASCII are drawn
/// as `?`.
void draw_text(Image& image, PixelPlace place, std::string_view text, int64_t scale);

}  // namespace mtf
