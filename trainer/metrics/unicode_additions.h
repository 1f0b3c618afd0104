// Numbers, punctuation and symbols that Unicode has added since version 15, which ICU 72 implements.
// sacreBLEU recognises them, since the Python package `regex` implements newer versions.
#pragma once

#include "trainer/metrics/unicode.h"

namespace mtf {

/// Returns the class of an added character; kOther for all others.
CharacterClass class_of_addition(char32_t character);

}  // namespace mtf
