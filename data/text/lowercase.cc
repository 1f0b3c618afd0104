#include "data/text/lowercase.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>

#include "engine/base/check.h"

namespace mtf {

std::string to_lower_case(std::string_view text) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode error = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, error);
  MTF_CHECK(U_SUCCESS(error), "lower case: {}", u_errorName(error));
  return result;
}

}  // namespace mtf
