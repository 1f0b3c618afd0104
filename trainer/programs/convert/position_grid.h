// Positions of an image's patches, resampled for an image of another size.
//
//   const std::vector<float> larger = resampled_positions(values, 1, {16, 16}, {24, 24}, false);
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/programs/convert/image_processor.h"

namespace mtf {

/// The vectors of a grid of `to` patches, interpolated from those of `from` patches (Keys's bicubic convolution along rows and
/// columns, where the centres of the outer patches keep their distance from the border). The first `tokens` of the vectors are those
/// of no patch and stay. This is what PyTorch's `interpolate(mode="bicubic", align_corners=False)` makes; `antialias` as there:
/// a smaller grid is a mean over as many patches as one of its own covers.
std::vector<float> resampled_positions(const std::vector<float>& vectors, int64_t tokens,
                                       const ImageSize& from, const ImageSize& to, bool antialias);

}  // namespace mtf
