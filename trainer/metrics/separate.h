// Blanks around ASCII punctuation, by the rules of the NIST script mteval-v13a, which are also those of the
// Tercom normaliser.
//
//   separate_periods(separate_symbols(" (3.5%, 7-8). "))   // its words: ( 3.5 % , 7 - 8 ) .
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// All ASCII punctuation and symbols but ' , - and . stand alone.
std::string separate_symbols(std::string_view text);

/// Periods and commas stand alone but between two digits; a dash does after a digit.
std::string separate_periods(std::string_view text);

/// &quot; &amp; &lt; and &gt; become the characters that they stand for, in this order: &amp;lt; becomes <.
void unescape(std::string& text);

}  // namespace mtf
