// Inserts blanks around ASCII punctuation, by the rules of the NIST script mteval-v13a, which the Tercom
// normaliser shares.
//
//   separate_periods(separate_symbols(" (3.5%, 7-8). "))   // its words are: ( 3.5 % , 7 - 8 ) .
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Separates all ASCII punctuation and symbols except ' , - and . from their neighbours.
std::string separate_symbols(std::string_view text);

/// Separates periods and commas except between two digits, and dashes after a digit.
std::string separate_periods(std::string_view text);

/// Replaces &quot; &amp; &lt; and &gt; by their characters, in this order: &amp;lt; becomes <.
void unescape(std::string& text);

}  // namespace mtf
