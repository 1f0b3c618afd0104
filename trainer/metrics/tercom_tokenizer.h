// Tokenises text like Tercom, the reference program for TER.
#pragma once

#include <string>
#include <string_view>

namespace mtf {

struct TercomOptions {
  bool normalized = false;      ///< separates punctuation as 13a does, and resolves &quot; etc.
  bool no_punctuation = false;  ///< removes . , ? : ; ! " ( )
  bool asian_support = false;   ///< applies both also to Asian punctuation, and separates ideographs
  bool case_sensitive = false;
};

/// Returns `line` with white space between the words. White space at the end of the line is ignored.
std::string tercom_tokenize(std::string_view line, const TercomOptions& options);

}  // namespace mtf
