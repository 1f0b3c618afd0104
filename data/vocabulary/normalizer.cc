#include "data/vocabulary/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "engine/base/check.h"
#include "engine/base/replace_all.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

std::string normalized_by_unicode(const NormalizeUnicode& form, std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const auto instance = [&] {
    if (form.is_compatible)
      return form.is_composed ? icu::Normalizer2::getNFKCInstance(error)
                              : icu::Normalizer2::getNFKDInstance(error);
    return form.is_composed ? icu::Normalizer2::getNFCInstance(error)
                            : icu::Normalizer2::getNFDInstance(error);
  };
  const icu::Normalizer2* const normalizer = instance();
  MTF_CHECK(U_SUCCESS(error), "a normaliser: {}", u_errorName(error));
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                            nullptr, error);
  MTF_CHECK(U_SUCCESS(error), "normalisation: {}", u_errorName(error));
  return result;
}

std::string_view without_blanks(const StripBlanks& ends, std::string_view text) {
  const auto is_blank = [](char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; };
  size_t begin = text.size(), end = 0;  // the part without blanks around it
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    if (is_blank(next_character(text, next))) continue;
    begin = std::min(begin, at);
    end = next;
  }
  if (end == 0) return ends.at_begin || ends.at_end ? std::string_view() : text;
  if (!ends.at_end) end = text.size();
  return text.substr(ends.at_begin ? begin : 0, end - (ends.at_begin ? begin : 0));
}

std::string with_matches_replaced(const ReplacePattern& step, std::string_view text) {
  std::string result;
  PatternMatcher(*step.pattern).find(text, [&](size_t begin, size_t end, bool is_match) {
    result += is_match ? std::string_view(step.content) : text.substr(begin, end - begin);
  });
  return result;
}

struct StepApplier {
  std::string text;

  void operator()(const NormalizeUnicode& step) { text = normalized_by_unicode(step, text); }
  void operator()(const MapCharacters& step) { text = step.map->apply(text); }
  void operator()(const StripBlanks& step) { text = std::string(without_blanks(step, text)); }
  void operator()(const PrependText& step) {
    if (!text.empty()) text.insert(0, step.text);
  }
  void operator()(const ReplaceText& step) { replace_all(text, step.text, step.content); }
  void operator()(const ReplacePattern& step) { text = with_matches_replaced(step, text); }
};

}  // namespace

std::string normalize(std::span<const NormalizerStep> steps, std::string_view text) {
  StepApplier applier{std::string(text)};
  for (const NormalizerStep& step : steps) std::visit(applier, step);
  return std::move(applier.text);
}

}  // namespace mtf
