// How Tercom, the reference program for TER, prepares text.
#pragma once

#include <string>
#include <string_view>

namespace mtf {

struct TercomOptions {
  bool normalized = false;      ///< punctuation stands alone, as with 13a; &quot; and the like are resolved
  bool no_punctuation = false;  ///< . , ? : ; ! " ( ) are removed
  bool asian_support = false;   ///< the two for Chinese and Japanese too; ideographs stand alone
  bool case_sensitive = false;
};

/// `line` with white space between the words. White space at the end of the line is ignored.
std::string tercom_tokenize(std::string_view line, const TercomOptions& options);

}  // namespace mtf
