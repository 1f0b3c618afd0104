// Encodes images to files.
#pragma once

#include <cstddef>
#include <vector>

#include "data/images/image.h"

namespace mtf {

/// Returns a PNG file of an image of one or three channels.
std::vector<std::byte> encode_png(const Image& image);

}  // namespace mtf
