// Numbers, punctuation and symbols that Unicode has gained since version 15, the one that ICU 72 knows.
// sacreBLEU sees them, because the Python package `regex` follows Unicode closely.
#pragma once

#include "trainer/metrics/unicode.h"

namespace mtf {

/// kOther for all but the additions.
CharacterClass class_of_addition(char32_t character);

}  // namespace mtf
