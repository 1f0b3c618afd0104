// Normalisation over one dimension with learned scale (and bias).
#pragma once

#include <string>

#include "layers/context.h"

namespace mtf {

/// (x - mean) * rsqrt(variance + epsilon) * scale + bias over `dimension`. Variables SCOPE/layer_norm_scale
/// (ones) and SCOPE/layer_norm_bias (zeros): [dimension]. Ba et al., Layer Normalization, 2016, eq. 3.
Tensor layer_norm(Context& context, const Tensor& x, const std::string& dimension, double epsilon = 1e-6);

/// x * rsqrt(mean(x^2) + epsilon) * scale over `dimension`. Variable SCOPE/scale (ones): [dimension]. Zhang
/// and Sennrich, Root Mean Square Layer Normalization, 2019, eq. 4.
Tensor rms_norm(Context& context, const Tensor& x, const std::string& dimension, double epsilon = 1e-6);

/// The dimension that a normalisation without `over` works on: the one that the layer before made. Throws
/// Error when it made several.
std::string normalized_dimension(const Context& context, const LayerTensor& x, const config::Name& over);

}  // namespace mtf
