#include "data/vocabulary/first_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/vocabulary/special_tokens.h"

namespace mtf {
namespace {

constexpr std::string_view kFirst = ":first:";

}  // namespace

std::unique_ptr<Vocabulary> with_first_token(std::unique_ptr<Vocabulary> vocabulary,
                                             const std::optional<std::string>& token, const Mark& mark) {
  if (!token) return vocabulary;
  const int32_t id = required_piece(*token, *vocabulary, mark);
  return std::make_unique<FirstTokenVocabulary>(std::move(vocabulary), id);
}

std::string_view without_first_token(std::string_view fingerprint) {
  return fingerprint.substr(0, fingerprint.rfind(kFirst));
}

FirstTokenVocabulary::FirstTokenVocabulary(std::unique_ptr<Vocabulary> vocabulary, int32_t token)
    : vocabulary_(std::move(vocabulary)), token_(token) {}

std::vector<int32_t> FirstTokenVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids = vocabulary_->encode(text);
  if (!ids.empty()) ids.insert(ids.begin(), token_);
  return ids;
}

std::string FirstTokenVocabulary::decode(std::span<const int32_t> ids) const {
  std::vector<int32_t> others;
  std::ranges::copy_if(ids, std::back_inserter(others), [this](int32_t id) { return id != token_; });
  return vocabulary_->decode(others);
}

std::string FirstTokenVocabulary::fingerprint() const {
  return fmt::format("{}{}{}", vocabulary_->fingerprint(), kFirst, token_);
}

}  // namespace mtf
