// Embeddings of positions.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/config/schema.h"
#include "layers/context.h"

namespace mtf {

enum class Positions { kLearned, kSinusoid, kSinusoidHuggingFace, kNone };
config::EnumNames enum_names(Positions);
config::CommonNames common_names(Positions);

/// The vectors of `position` (int32 [.., length]; null: the index along `length`) -> [.., length, model]. `first` is what
/// position 0 counts as.
/// Learned: variable positional_embedding [max_length, model] ~ N(1) in the current scope, whose first `first` rows are never
/// read; positions outside give zeros. Throws Error when the index would be.
Tensor learned_positions(Context& context, const Tensor& position, const Dimension& length,
                         int64_t max_length, const Dimension& model, int64_t first = 0);
/// Rows of the table that sinusoid_positions() makes for given positions: as many as `length` has entries.
inline constexpr std::string_view kSinusoidLength = "sinusoid_length";
/// True for both kinds of sinusoids.
bool are_sinusoids(Positions positions);
/// sin and cos of position * 10000^(-i / n), all sines first; n is model/2 - 1 with kSinusoid, as in tensor2tensor, and
/// model/2 with kSinusoidHuggingFace. Vaswani et al., 2017, §3.5.
Tensor sinusoid_positions(Context& context, Positions kind, const Tensor& position, const Dimension& length,
                          const Dimension& model, int64_t first = 0);

}  // namespace mtf
