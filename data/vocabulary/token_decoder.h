// Puts texts together from tokens, as a tokenizer.json says.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/tokenizer_file.h"

namespace mtf {

/// Returns the text of the tokens after all steps. Bytes that are no UTF-8 become U+FFFD.
std::string join_tokens(std::span<const DecoderStep> steps, std::vector<std::string> tokens);

}  // namespace mtf
