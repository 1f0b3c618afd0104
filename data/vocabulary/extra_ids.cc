#include "data/vocabulary/extra_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

namespace mtf {
namespace {

constexpr std::string_view kFront = "<extra_id_";
/// What stands before their number in a fingerprint.
constexpr std::string_view kInFingerprint = " extra_ids ";

/// The sentinel with which a text begins.
struct Sentinel {
  int64_t number;
  size_t bytes;  ///< of the text
};

/// `text` begins with kFront.
std::optional<Sentinel> sentinel_at(std::string_view text) {
  int64_t number = 0;
  const char* const digits = text.data() + kFront.size();
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(digits, end, number);
  if (error != std::errc() || number < 0 || last == end || *last != '>') return std::nullopt;
  return Sentinel{number, static_cast<size_t>(last + 1 - text.data())};
}

}  // namespace

std::string extra_piece(int64_t number) { return fmt::format("{}{}>", kFront, number); }

std::unique_ptr<Vocabulary> with_extra_ids(std::unique_ptr<Vocabulary> vocabulary, int64_t extra) {
  if (extra == 0) return vocabulary;
  return std::make_unique<ExtendedVocabulary>(std::move(vocabulary), extra);
}

std::string_view without_extra_ids(std::string_view fingerprint) {
  return fingerprint.substr(0, fingerprint.rfind(kInFingerprint));
}

ExtendedVocabulary::ExtendedVocabulary(std::unique_ptr<Vocabulary> vocabulary, int64_t extra)
    : vocabulary_(std::move(vocabulary)), extra_(extra) {}

template <class Encode>
std::vector<int32_t> ExtendedVocabulary::encode_between(std::string_view text, const Encode& encode) const {
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view part) {
    if (!part.empty()) std::ranges::copy(encode(part), std::back_inserter(ids));
  };
  size_t begin = 0;
  for (size_t at = text.find(kFront); at != std::string_view::npos; at = text.find(kFront, at + 1)) {
    const std::optional<Sentinel> sentinel = sentinel_at(text.substr(at));
    if (!sentinel || sentinel->number >= extra_) continue;
    add(text.substr(begin, at - begin));
    ids.push_back(static_cast<int32_t>(size() - 1 - sentinel->number));
    begin = at + sentinel->bytes;
  }
  add(text.substr(begin));
  return ids;
}

std::vector<int32_t> ExtendedVocabulary::encode(std::string_view text) const {
  return encode_between(text, [this](std::string_view part) { return vocabulary_->encode(part); });
}

class ExtendedVocabulary::Sampler final : public SubwordSampler {
 public:
  Sampler(const ExtendedVocabulary& vocabulary, std::unique_ptr<SubwordSampler> sampler)
      : vocabulary_(vocabulary), sampler_(std::move(sampler)) {}

  std::vector<int32_t> encode(std::string_view text, Draws& draws) const override {
    return vocabulary_.encode_between(text,
                                      [&](std::string_view part) { return sampler_->encode(part, draws); });
  }

 private:
  const ExtendedVocabulary& vocabulary_;
  std::unique_ptr<SubwordSampler> sampler_;
};

std::unique_ptr<SubwordSampler> ExtendedVocabulary::sampler(const SubwordSampling& sampling) const {
  std::unique_ptr<SubwordSampler> of_texts = vocabulary_->sampler(sampling);
  return of_texts ? std::make_unique<Sampler>(*this, std::move(of_texts)) : nullptr;
}

std::string ExtendedVocabulary::decode(std::span<const int32_t> ids) const {
  ids = ids.first(static_cast<size_t>(std::ranges::find(ids, kEosId) - ids.begin()));
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!text.empty() && !part.empty()) text += ' ';
    text += part;
  };
  for (size_t begin = 0; begin < ids.size();) {
    const auto extra = std::ranges::find_if(ids.subspan(begin), [this](int32_t id) { return is_extra(id); });
    const auto count = static_cast<size_t>(extra - ids.subspan(begin).begin());
    add(vocabulary_->decode(ids.subspan(begin, count)));
    begin += count;
    if (begin < ids.size()) add(piece(ids[begin++]));
  }
  return text;
}

std::string ExtendedVocabulary::piece(int32_t id) const {
  return is_extra(id) ? extra_piece(size() - 1 - id) : vocabulary_->piece(id);
}

std::string ExtendedVocabulary::fingerprint() const {
  return fmt::format("{}{}{}", vocabulary_->fingerprint(), kInFingerprint, extra_);
}

}  // namespace mtf
