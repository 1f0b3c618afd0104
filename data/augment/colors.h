// Changes of the colours of an image, which are from 0 to 1. Images of one channel are grey; other images than those of
// three channels have no hue and no saturation, and are left as they are by what changes these.
#pragma once

#include "data/augment/float_image.h"

namespace mtf {

/// x * factor, at most 1.
void change_brightness(FloatImage& image, float factor);
/// mean + factor * (x - mean), within 0..1; `mean` is that of the grey image.
void change_contrast(FloatImage& image, float factor);
/// grey + factor * (x - grey), within 0..1, where grey = 0.299 red + 0.587 green + 0.114 blue.
void change_saturation(FloatImage& image, float factor);
/// Turns the hue by a part of the whole circle.
void turn_hue(FloatImage& image, float turn);
/// smooth + factor * (x - smooth), within 0..1, where smooth is the mean of 3 x 3 pixels, the middle one with weight 5. The
/// pixels of the edge are left as they are.
void change_sharpness(FloatImage& image, float factor);
/// Keeps the first `bits` of the 8 bits of each number.
void posterize(FloatImage& image, int bits);
/// 1 - x where x is at least `threshold`.
void solarize(FloatImage& image, float threshold);
/// Stretches each channel so that its least number is 0 and its largest 1.
void stretch_contrast(FloatImage& image);
/// Maps each channel, as 8 bits, so that all numbers are about as frequent: to the part of the pixels that are darker, of
/// those that are not the brightest.
void equalize(FloatImage& image);

}  // namespace mtf
