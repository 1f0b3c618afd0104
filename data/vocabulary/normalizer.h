// What a tokenizer.json does to the characters of a text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "data/vocabulary/tokenizer_file.h"

namespace mtf {

/// Returns `text`, which is valid UTF-8, after all steps.
std::string normalize(std::span<const NormalizerStep> steps, std::string_view text);

}  // namespace mtf
