// Puts the indefinite article before a name of a message.
//
//   with_article("mBART")   // "an mBART"
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Returns "a NAME" or "an NAME", as the name is spoken: one that begins with two capitals, or with a letter before a capital or
/// a digit, is spelled out (an XLM-RoBERTa, an M2M100), others are words (a RoBERTa).
std::string with_article(std::string_view name);

}  // namespace mtf
