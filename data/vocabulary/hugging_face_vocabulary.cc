#include "data/vocabulary/hugging_face_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/input_file.h"
#include "data/vocabulary/byte_characters.h"
#include "data/vocabulary/byte_piece.h"
#include "data/vocabulary/normalizer.h"
#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "data/vocabulary/token_decoder.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/printable.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// In bytes. A longer word is hardly found again.
constexpr size_t kLongestCachedWord = 64;

/// The tokens that are found in texts before normalisation, or those behind it, whose texts are normalised alike.
std::vector<AddedToken> added_tokens_of(const TokenizerFile& file, bool is_normalized) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : file.added_tokens) {
    if (token.is_normalized != is_normalized) continue;
    if (is_normalized) token.text = normalize(file.normalizer, token.text);
    if (!token.text.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

std::variant<BytePairMerges, UnigramPieces> open_model(TokenizerFile& file) {
  if (auto* const unigram = std::get_if<UnigramModel>(&file.model)) return UnigramPieces(std::move(*unigram));
  return BytePairMerges(std::get<BytePairModel>(std::move(file.model)));
}

TokenizerFile parse_file(std::string_view json, const std::string& name, const HuggingFaceRules& rules) {
  TokenizerFile file = parse_tokenizer_file(json, name);
  if (rules.size) file.drop_added_from(*rules.size);
  return file;
}

}  // namespace

HuggingFaceVocabulary::HuggingFaceVocabulary(std::string_view json, const std::string& name,
                                             const HuggingFaceRules& rules)
    : HuggingFaceVocabulary(parse_file(json, name, rules), name, rules) {
  fingerprint_ = fmt::format("hugging_face:{}:{}:{}:{}", hash128_hex(json), file_ids_[kPadId],
                             file_ids_[kEosId], size());
}

HuggingFaceVocabulary::HuggingFaceVocabulary(TokenizerFile file, const std::string& name,
                                             const HuggingFaceRules& rules)
    : tokens_(std::move(file.tokens)),
      normalizer_(file.normalizer),
      decoder_(std::move(file.decoder)),
      is_byte_level_(file.is_byte_level()),
      model_(open_model(file)),
      pre_tokenizer_(file.pre_tokenizer, name),
      added_tokens_(added_tokens_of(file, false)),
      normalized_tokens_(added_tokens_of(file, true)),
      words_(std::make_unique<WordCache>()) {
  number_ids(rules, name);
  is_added_.resize(file_ids_.size());
  for (const AddedToken& token : file.added_tokens) {
    is_added_[static_cast<size_t>(ids_[static_cast<size_t>(token.id)])] = true;
    if (token.is_normalized) tokens_[static_cast<size_t>(token.id)] = normalize(normalizer_, token.text);
  }
}

void HuggingFaceVocabulary::number_ids(const HuggingFaceRules& rules, const std::string& name) {
  const int64_t size = rules.size.value_or(std::ssize(tokens_));
  if (size < std::ssize(tokens_))
    throw Error(ErrorKind::kData,
                fmt::format("{} has tokens up to id {}, but `size` is {}", name, tokens_.size() - 1, size),
                fmt::format("`size: {}` or more, as the model has them, or no `size`", tokens_.size()));
  if (size < 2)
    throw Error(ErrorKind::kData, fmt::format("{} has fewer than two tokens", name),
                "one that ends a text, and others");
  FileIds special{.size = size, .end = required_id("end", rules.end, name)};
  if (rules.begin) special.begin = required_id("begin", *rules.begin, name);
  if (special.begin == special.end)
    throw Error(ErrorKind::kConfig, fmt::format("`begin` is `{}`, like `end`", printable(rules.end)),
                "`begin: null` where texts begin with the token that ends them");
  file_ids_ = file_ids_of(special);
  ids_.resize(static_cast<size_t>(size));
  for (size_t id = 0; id < file_ids_.size(); ++id) {
    if (file_ids_[id] != kNoFileId) ids_[static_cast<size_t>(file_ids_[id])] = static_cast<int32_t>(id);
  }
}

/// The id that the file gives to a token which the rules name under `key`.
int32_t HuggingFaceVocabulary::required_id(const std::string& key, const std::string& token,
                                           const std::string& name) const {
  const auto found = token.empty() ? tokens_.end() : std::ranges::find(tokens_, token);
  if (found != tokens_.end()) return static_cast<int32_t>(found - tokens_.begin());
  throw Error(ErrorKind::kConfig,
              fmt::format("{} has no token `{}`, which `{}` names", name, printable(token), key),
              "a token as tokenizer.json has it");
}

std::vector<int32_t> HuggingFaceVocabulary::encode(std::string_view text, const MergeDropout* dropout) const {
  const std::string valid = valid_utf8(text);
  WordDivision division(pre_tokenizer_);
  std::vector<int32_t> ids;
  const auto id_of = [&](const AddedToken& token) { return ids_[static_cast<size_t>(token.id)]; };
  for (const AddedTokens::Part& part : added_tokens_.divide(valid)) {
    if (part.token != nullptr) {
      ids.push_back(id_of(*part.token));
      continue;
    }
    const std::string normalized = normalize(normalizer_, part.text);
    for (const AddedTokens::Part& inner : normalized_tokens_.divide(normalized)) {
      const bool begins_text = part.text.data() == valid.data() && inner.text.data() == normalized.data();
      if (inner.token != nullptr) {
        ids.push_back(id_of(*inner.token));
      } else {
        append_words(inner.text, begins_text, division, dropout, ids);
      }
    }
  }
  std::erase(ids, kPadId);  // the begin of a text, which the program writes itself
  return ids;
}

void HuggingFaceVocabulary::append_words(std::string_view part, bool begins_text, WordDivision& division,
                                         const MergeDropout* dropout, std::vector<int32_t>& ids) const {
  for (const WordDivision::Word& word : division.divide(part, begins_text)) {
    for (std::string_view rest = word.text; !rest.empty();) {
      const size_t end = end_of_part(rest);
      append_word(rest.substr(0, end), dropout, ids);
      rest.remove_prefix(end);
    }
  }
}

/// Where the first part of a word ends that is encoded by itself.
size_t HuggingFaceVocabulary::end_of_part(std::string_view word) const {
  const auto* const merges = std::get_if<BytePairMerges>(&model_);
  return merges != nullptr ? merges->end_of_part(word) : word.size();
}

void HuggingFaceVocabulary::append_word(std::string_view word, const MergeDropout* dropout,
                                        std::vector<int32_t>& ids) const {
  const bool is_kept = word.size() <= kLongestCachedWord && dropout == nullptr;
  if (const auto known = is_kept ? words_->find(word) : std::nullopt) {
    ids.insert(ids.end(), known->ids.begin(), known->ids.end());
    return;
  }
  const size_t before = ids.size();
  if (const auto* const merges = std::get_if<BytePairMerges>(&model_)) {
    merges->encode(word, ids, dropout);
  } else {
    std::get<UnigramPieces>(model_).encode(word, ids);
  }
  const std::span<int32_t> of_word = std::span(ids).subspan(before);
  for (int32_t& id : of_word) id = ids_[static_cast<size_t>(id)];
  if (is_kept) words_->add(word, {.ids = of_word});
}

class HuggingFaceVocabulary::Sampler final : public SubwordSampler {
 public:
  Sampler(const HuggingFaceVocabulary& vocabulary, double dropout)
      : vocabulary_(vocabulary), dropout_(dropout) {}

  std::vector<int32_t> encode(std::string_view text, Draws& draws) const override {
    const MergeDropout dropout{dropout_, draws};
    return vocabulary_.encode(text, dropout_ > 0 ? &dropout : nullptr);
  }

 private:
  const HuggingFaceVocabulary& vocabulary_;
  double dropout_;
};

std::unique_ptr<SubwordSampler> HuggingFaceVocabulary::sampler(const SubwordSampling& sampling) const {
  if (sampling.kind != SegmentationKind::kMerges || !std::holds_alternative<BytePairMerges>(model_))
    return nullptr;
  return std::make_unique<Sampler>(*this, sampling.rate);
}

std::string HuggingFaceVocabulary::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids.first(static_cast<size_t>(std::ranges::find(ids, kEosId) - ids.begin()))) {
    if (has(id) && id != kPadId && !token_of(id).empty()) tokens.push_back(token_of(id));
  }
  return join_tokens(decoder_, std::move(tokens));
}

/// Empty where the file has no token.
const std::string& HuggingFaceVocabulary::token_of(int32_t id) const {
  static const std::string kNone;
  const int32_t of_file = file_ids_[static_cast<size_t>(id)];
  return of_file >= 0 && of_file < std::ssize(tokens_) ? tokens_[static_cast<size_t>(of_file)] : kNone;
}

std::string HuggingFaceVocabulary::piece(int32_t id) const {
  if (!has(id)) return {};
  if (file_ids_[static_cast<size_t>(id)] == kNoFileId) return "<pad>";
  if (!is_byte_level_ || is_added_[static_cast<size_t>(id)]) return token_of(id);
  const std::string bytes = bytes_of_characters(token_of(id));
  std::string piece;
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t length = utf8_length(rest);
    if (length == 0) {
      piece += piece_of_byte(rest[0]);
    } else {
      piece += rest.substr(0, length);
    }
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return piece;
}

bool HuggingFaceVocabulary::continues_word(int32_t id) const {
  if (!has(id) || id == kPadId || id == kEosId || is_added_[static_cast<size_t>(id)]) return false;
  const std::string text = piece(id);
  return text.find_first_of(" \t\r\n") != 0 && !text.starts_with(kEscapedBlank);
}

std::unique_ptr<Vocabulary> read_hugging_face_vocabulary(const std::string& path,
                                                         const HuggingFaceRules& rules) {
  return std::make_unique<HuggingFaceVocabulary>(
      read_file(path, "a tokenizer.json of Hugging Face", kLargestVocabularyFile), path, rules);
}

}  // namespace mtf
