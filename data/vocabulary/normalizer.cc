#include "data/vocabulary/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <cstdint>
#include <utility>
#include <variant>

#include "engine/base/check.h"
#include "engine/base/replace_all.h"

namespace mtf {
namespace {

std::string composed(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const normalizer = icu::Normalizer2::getNFCInstance(error);
  MTF_CHECK(U_SUCCESS(error), "NFC: {}", u_errorName(error));
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                            nullptr, error);
  MTF_CHECK(U_SUCCESS(error), "NFC: {}", u_errorName(error));
  return result;
}

struct StepApplier {
  std::string text;

  void operator()(const ComposeCharacters&) { text = composed(text); }
  void operator()(const PrependText& step) {
    if (!text.empty()) text.insert(0, step.text);
  }
  void operator()(const ReplaceText& step) { replace_all(text, step.text, step.content); }
};

}  // namespace

std::string normalize(std::span<const NormalizerStep> steps, std::string_view text) {
  StepApplier applier{std::string(text)};
  for (const NormalizerStep& step : steps) std::visit(applier, step);
  return std::move(applier.text);
}

}  // namespace mtf
