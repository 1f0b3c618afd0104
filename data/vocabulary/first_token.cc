#include "data/vocabulary/first_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/vocabulary/special_tokens.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr std::string_view kFirst = ":first:";

/// The ids of a text behind its first token; none of an empty text.
std::vector<int32_t> begun(std::vector<int32_t> ids, int32_t token) {
  if (!ids.empty()) ids.insert(ids.begin(), token);
  return ids;
}

}  // namespace

std::unique_ptr<Vocabulary> with_first_token(std::unique_ptr<Vocabulary> vocabulary,
                                             const std::optional<std::string>& token, const Mark& mark) {
  if (!token) return vocabulary;
  const int32_t id = required_piece(*token, *vocabulary, mark);
  if (id == kPadId || id == kEosId)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`first_token` is {}, which is {}", *token,
                            id == kPadId ? "padding" : "the end of texts"),
                "the token of a language, or null");
  return std::make_unique<FirstTokenVocabulary>(std::move(vocabulary), id);
}

std::string_view without_first_token(std::string_view fingerprint) {
  return fingerprint.substr(0, fingerprint.rfind(kFirst));
}

FirstTokenVocabulary::FirstTokenVocabulary(std::unique_ptr<Vocabulary> vocabulary, int32_t token)
    : vocabulary_(std::move(vocabulary)), token_(token) {}

std::vector<int32_t> FirstTokenVocabulary::encode(std::string_view text) const {
  return begun(vocabulary_->encode(text), token_);
}

class FirstTokenVocabulary::Sampler final : public SubwordSampler {
 public:
  Sampler(int32_t token, std::unique_ptr<SubwordSampler> sampler)
      : token_(token), sampler_(std::move(sampler)) {}

  std::vector<int32_t> encode(std::string_view text, Draws& draws) const override {
    return begun(sampler_->encode(text, draws), token_);
  }

 private:
  int32_t token_;
  std::unique_ptr<SubwordSampler> sampler_;
};

std::unique_ptr<SubwordSampler> FirstTokenVocabulary::sampler(const SubwordSampling& sampling) const {
  std::unique_ptr<SubwordSampler> of_texts = vocabulary_->sampler(sampling);
  return of_texts ? std::make_unique<Sampler>(token_, std::move(of_texts)) : nullptr;
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
