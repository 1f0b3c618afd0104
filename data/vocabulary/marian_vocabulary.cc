#include "data/vocabulary/marian_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/input_file.h"
#include "data/vocabulary/first_token.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "data/vocabulary/sentencepiece_sampler.h"
#include "engine/base/hash.h"
#include "engine/base/replace_all.h"

namespace mtf {
namespace {

constexpr std::string_view kFingerprint = "marian:";

/// The bytes of a language at the beginning of a text, such as ">>deu<<"; 0: there is none.
size_t length_of_language(std::string_view text) {
  constexpr std::string_view begin = ">>", end = "<<";
  if (!text.starts_with(begin)) return 0;
  const size_t found = text.find(end);
  return found == std::string_view::npos ? 0 : found + end.size();
}

}  // namespace

MarianVocabulary::MarianVocabulary(std::string_view model, const std::string& name, MarianTokens tokens,
                                   std::optional<int64_t> size)
    : pieces_(model, name),
      tokens_(std::move(tokens)),
      file_ids_(file_ids_of(tokens_.file_ids(size))),
      ids_(file_ids_.size()) {
  for (size_t id = 0; id < file_ids_.size(); ++id)
    ids_[static_cast<size_t>(file_ids_[id])] = static_cast<int32_t>(id);
  unknown_ = ids_[static_cast<size_t>(tokens_.unknown())];
  for (int32_t id = 0; id < pieces_.size(); ++id) ids_of_pieces_.push_back(id_of(pieces_.piece(id)));
  fingerprint_ =
      fmt::format("{}{}:{}:{}", kFingerprint, tokens_.hash(), file_ids_.size(), hash128_hex(model));
}

int32_t MarianVocabulary::id_of(std::string_view token) const {
  const std::optional<int32_t> of_file = tokens_.id(token);
  return of_file ? ids_[static_cast<size_t>(*of_file)] : unknown_;
}

size_t MarianVocabulary::language_before(std::string_view text) const {
  const size_t added = tokens_.added_before(text);
  return added > 0 ? added : length_of_language(text);
}

std::vector<int32_t> MarianVocabulary::take_language(std::string_view& text) const {
  const size_t language = language_before(text);
  if (language == 0) return {};
  const int32_t id = id_of(text.substr(0, language));
  text.remove_prefix(language);
  return {id};
}

std::vector<int32_t> MarianVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids = take_language(text);
  const std::vector<int32_t> pieces = pieces_.encode(text);
  const auto is_unknown = [this](int32_t id) { return pieces_.is_unknown(id); };
  if (std::ranges::any_of(pieces,
                          is_unknown)) {  // vocab.json may have what this model of SentencePiece has not
    for (const std::string& piece : pieces_.pieces(text)) ids.push_back(id_of(piece));
  } else {
    for (const int32_t id : pieces) ids.push_back(ids_of_pieces_[static_cast<size_t>(id)]);
  }
  std::erase(ids, kPadId);
  return ids;
}

class MarianVocabulary::Sampler final : public SubwordSampler {
 public:
  Sampler(const MarianVocabulary& vocabulary, std::unique_ptr<SentencePieceSampler> pieces)
      : vocabulary_(vocabulary), pieces_(std::move(pieces)) {}

  std::vector<int32_t> encode(std::string_view text, Draws& draws) const override {
    std::vector<int32_t> ids = vocabulary_.take_language(text);
    for (const std::string& piece : pieces_->pieces(text, draws)) ids.push_back(vocabulary_.id_of(piece));
    std::erase(ids, kPadId);
    return ids;
  }

 private:
  const MarianVocabulary& vocabulary_;
  std::unique_ptr<SentencePieceSampler> pieces_;
};

std::unique_ptr<SubwordSampler> MarianVocabulary::sampler(const SubwordSampling& sampling) const {
  std::unique_ptr<SentencePieceSampler> of_pieces = SentencePieceSampler::make(pieces_, sampling);
  return of_pieces ? std::make_unique<Sampler>(*this, std::move(of_pieces)) : nullptr;
}

std::string MarianVocabulary::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids.first(static_cast<size_t>(std::ranges::find(ids, kEosId) - ids.begin()))) {
    if (has(id) && id != kPadId && !piece(id).empty()) tokens.push_back(piece(id));
  }
  std::string text = pieces_.join(tokens);
  replace_all(text, kEscapedBlank, " ");  // tokens that this model of SentencePiece has not keep it
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::string MarianVocabulary::piece(int32_t id) const {
  return has(id) ? tokens_.token(file_ids_[static_cast<size_t>(id)]) : "";
}

bool MarianVocabulary::continues_word(int32_t id) const {
  if (!has(id) || id == kPadId || id == kEosId || id == unknown_) return false;
  const std::string token = piece(id);
  return !token.starts_with(kEscapedBlank) && language_before(token) != token.size();
}

std::string_view numbering_of(std::string_view fingerprint) {
  const std::string_view all = without_first_token(fingerprint);
  return all.starts_with(kFingerprint) ? all.substr(0, all.rfind(':')) : all;
}

std::unique_ptr<Vocabulary> read_marian_vocabulary(const std::string& path, MarianTokens tokens,
                                                   std::optional<int64_t> size) {
  return std::make_unique<MarianVocabulary>(read_file(path, "a SentencePiece model", kLargestVocabularyFile),
                                            path, std::move(tokens), size);
}

}  // namespace mtf
