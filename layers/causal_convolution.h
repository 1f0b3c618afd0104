// Causal depthwise convolution along the rows of a Transformer: each channel sees its own entries, at and before its
// position.
#pragma once

#include <cstdint>
#include <string>

#include "layers/context.h"

namespace mtf {

/// y[t] = sum over i < width of x[t - i] * NAME_i, where entries before the row, and those of other segments, are zeros.
/// x: [batch, length, channels..]; in a step of decoding [batch, beam, channels..], and y is that of the token in hand.
/// length: what x calls the sequence's length. Variables NAME_0, NAME_1, ...: [channels..], at first 0.5 for i = 0
/// and 0.5 / width for the others. So et al., Primer, 2021, section 3.2.
Tensor causal_convolution(Context& context, const std::string& name, const Tensor& x, const Shape& channels,
                          int64_t width, const std::string& length);

}  // namespace mtf
