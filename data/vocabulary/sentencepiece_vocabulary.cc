#include "data/vocabulary/sentencepiece_vocabulary.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "data/input_file.h"
#include "data/vocabulary/byte_piece.h"
#include "data/vocabulary/piece_lattice.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "data/vocabulary/sentencepiece_sampler.h"
#include "data/vocabulary/word_cache.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

/// SentencePiece's id of a piece that a model has not.
constexpr int32_t kMissing = -1;

/// In bytes. A longer word is hardly found again, and a longer text is more than Segmentation::limit reckons with.
constexpr size_t kLongestWord = 64, kLongestText = size_t{1} << 20;

void check(const sentencepiece::util::Status& status) {
  MTF_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
}

/// False when the bytes are no model.
bool load(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  try {
    return processor.LoadFromSerializedProto(model).ok() && processor.GetPieceSize() > 0;
  } catch (const std::exception&) {  // of its trie: a piece of a damaged model is empty
    return false;
  }
}

}  // namespace

SentencePieceVocabulary::SentencePieceVocabulary(std::string_view model, const std::string& name)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()),
      fingerprint_("sentencepiece:" + hash128_hex(model)) {
  if (!load(*processor_, model)) {
    throw Error(ErrorKind::kData, fmt::format("{}: no SentencePiece model", name),
                "a .model file of `mtf-vocab` or `spm_train`; if it is one, it is damaged");
  }
  place_special_ids();
  prepare_words(model);
}

SentencePieceVocabulary::~SentencePieceVocabulary() = default;

void SentencePieceVocabulary::place_special_ids() {
  const int32_t eos = processor_->eos_id();
  const int32_t pad = processor_->pad_id() == eos ? kMissing : processor_->pad_id();
  to_model_.resize(static_cast<size_t>(processor_->GetPieceSize()));
  std::iota(to_model_.begin(), to_model_.end(), 0);
  const auto place = [this](int32_t ours, int32_t models) {
    if (models == kMissing) to_model_.push_back(kMissing);
    const auto at = models == kMissing ? std::prev(to_model_.end()) : std::ranges::find(to_model_, models);
    std::iter_swap(to_model_.begin() + ours, at);
  };
  place(kPadId, pad);
  place(kEosId, eos);
  if (pad == kPadId && eos == kEosId) return;
  from_model_.resize(static_cast<size_t>(processor_->GetPieceSize()));
  for (int32_t id = 0; id < size(); ++id) {
    if (const int32_t models = to_model_[static_cast<size_t>(id)]; models != kMissing)
      from_model_[static_cast<size_t>(models)] = id;
  }
}

void SentencePieceVocabulary::prepare_words(std::string_view model) {
  const std::optional<SentencePieceModelFile> file = parse_sentencepiece_model(model);
  if (!file) return;
  spells_unknown_ = file->spells_unknown;
  if (!words_are_apart(*file)) return;
  words_ = std::make_unique<WordCache>();
  // No rule of the library has an end of line among other characters, but a piece of a user may.
  const bool has_line_end = std::ranges::any_of(file->pieces, [](const SentencePieceModelFile::Piece& piece) {
    return piece.text.find('\n') != std::string::npos;
  });
  if (!has_line_end && normalized("a\na") == normalized("a a")) line_end_ = '\n';
  keeps_blanks_ = !file->removes_extra_blanks;
  if (file->algorithm == SentencePieceModelFile::Algorithm::kUnigram)
    lattice_ = std::make_unique<PieceLattice>(*file);
}

std::vector<int32_t> SentencePieceVocabulary::encode(std::string_view text) const {
  if (words_ == nullptr || text.empty()) return encode_at_once(text);
  if (lattice_ != nullptr && text.size() > kLongestText) return encode_with_sums(text);
  std::vector<int32_t> ids, ids_of_word;
  ids.reserve(text.size() / 2);
  double cost = 0;
  size_t doubtful = 0, ids_of_doubtful = 0;  // the end of the last word whose ids depend on what is before it
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = end_of_word(text, begin);
    const std::optional<CachedWord> word = encode_word(text.substr(begin, end - begin), ids_of_word);
    if (!word) return encode_at_once(text);
    ids.insert(ids.end(), word->ids.begin(), word->ids.end());
    cost += word->cost;
    if (!(cost < word->limit)) {
      doubtful = end;
      ids_of_doubtful = ids.size();
    }
    begin = end + 1;
  }
  if (doubtful == 0) return ids;
  std::vector<int32_t> result = encode_with_sums(text.substr(0, doubtful));
  result.insert(result.end(), ids.begin() + static_cast<ptrdiff_t>(ids_of_doubtful), ids.end());
  return result;
}

/// Returns where the word that begins there ends: at a blank or at the end of the text.
size_t SentencePieceVocabulary::end_of_word(std::string_view text, size_t begin) const {
  const auto ends = [this](char c) { return c == ' ' || c == line_end_; };
  return static_cast<size_t>(std::ranges::find_if(text.substr(begin), ends) - text.begin());
}

/// Returns the ids of a word as it is encoded by itself, which may be in `ids`; nullopt if the word has to be
/// encoded with the rest of the text.
std::optional<CachedWord> SentencePieceVocabulary::encode_word(std::string_view word,
                                                               std::vector<int32_t>& ids) const {
  if (const std::optional<CachedWord> known = words_->find(word)) return known;
  const bool is_long = word.size() > kLongestWord;
  if (word.find(kEscapedBlank) != std::string_view::npos) return std::nullopt;
  CachedWord result;
  if (word.empty() && keeps_blanks_) {
    ids = {ours(processor_->PieceToId(kEscapedBlank))};
    if (lattice_ != nullptr) result.cost = static_cast<float>(lattice_->segment(kEscapedBlank).cost);
  } else if (lattice_ == nullptr) {
    ids = encode_at_once(word);
  } else {
    ids.clear();
    const Segmentation best = lattice_->segment(normalized(word, &ids));
    result.cost = static_cast<float>(best.cost);
    result.limit = static_cast<float>(best.limit);
  }
  result.ids = ids;
  if (!is_long) words_->add(word, result);
  return result;
}

/// Returns the word as the model's pieces spell it, and appends the ids that it has by itself.
std::string SentencePieceVocabulary::normalized(std::string_view word, std::vector<int32_t>* ids) const {
  if (word.empty()) return std::string(keeps_blanks_ ? kEscapedBlank : "");
  sentencepiece::ImmutableSentencePieceText pieces;
  check(processor_->Encode(word, pieces.mutable_proto()));
  std::string text;
  for (size_t i = 0; i < pieces.pieces_size(); ++i) {
    const auto piece = pieces.pieces(static_cast<int>(i));
    const auto id = static_cast<int32_t>(piece.id());
    if (ids != nullptr) ids->push_back(ours(id));
    if (processor_->IsByte(id)) {
      text += byte_of_piece(piece.piece()).value();
    } else {
      text += piece.piece();
    }
  }
  return text;
}

/// The same for a word whose ids are known; where all of them are pieces of text, they spell it.
std::string SentencePieceVocabulary::normalized(std::string_view word, const CachedWord& known) const {
  std::string text;
  for (const int32_t id : known.ids) {
    const int32_t of_model = to_model_[static_cast<size_t>(id)];
    if (!std::isfinite(lattice_->cost(of_model))) return normalized(word);
    text += processor_->IdToPiece(of_model);
  }
  return text;
}

/// Encodes a text of a unigram model word by word and adds up the scores as the library does. encode_at_once() would
/// take more than 100 bytes of memory for each byte of a long text.
std::vector<int32_t> SentencePieceVocabulary::encode_with_sums(std::string_view text) const {
  if (text.find(kEscapedBlank) != std::string_view::npos) return encode_at_once(text);
  std::unordered_map<std::string_view, std::string> known;
  std::vector<int32_t> ids;
  std::vector<PieceLattice::Part> parts;
  float sum = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = end_of_word(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    const std::optional<CachedWord> cached = end <= kLongestText ? words_->find(word) : std::nullopt;
    if (cached && append_cached(*cached, sum, ids)) continue;
    if (known.size() == WordCache::most_words) known.clear();
    const auto [entry, is_new] = known.try_emplace(word);
    if (is_new) entry->second = cached ? normalized(word, *cached) : normalized(word);
    parts.clear();
    lattice_->append(entry->second, sum, parts);
    append_ids(parts, ids);
  }
  return ids;
}

/// Appends the ids that a word has by itself if it has them behind a text of this `sum` of scores, too; otherwise returns
/// false. A word with unknown characters has costs that its ids do not tell.
bool SentencePieceVocabulary::append_cached(const CachedWord& word, float& sum,
                                            std::vector<int32_t>& ids) const {
  float with_word = sum;
  for (const int32_t id : word.ids)
    with_word = static_cast<float>(with_word - lattice_->cost(to_model_[static_cast<size_t>(id)]));
  if (!(-with_word < word.limit)) return false;
  sum = with_word;
  ids.insert(ids.end(), word.ids.begin(), word.ids.end());
  return true;
}

/// Unknown characters are bytes, or one id for those that follow each other.
void SentencePieceVocabulary::append_ids(std::span<const PieceLattice::Part> parts,
                                         std::vector<int32_t>& ids) const {
  bool follows_unknown = false;
  for (const PieceLattice::Part& part : parts) {
    const bool is_unknown = part.id == PieceLattice::kUnknown;
    if (!is_unknown) {
      ids.push_back(ours(part.id));
    } else if (spells_unknown_) {
      for (const char byte : part.text) ids.push_back(ours(processor_->PieceToId(piece_of_byte(byte))));
    } else if (!follows_unknown) {
      ids.push_back(ours(processor_->unk_id()));
    }
    follows_unknown = is_unknown;
  }
}

std::vector<int32_t> SentencePieceVocabulary::encode_at_once(std::string_view text) const {
  std::vector<int32_t> ids;
  check(processor_->Encode(text, &ids));
  for (int32_t& id : ids) id = ours(id);
  return ids;
}

std::vector<std::string> SentencePieceVocabulary::pieces(std::string_view text) const {
  std::vector<std::string> pieces;
  check(processor_->Encode(text, &pieces));
  return pieces;
}

std::string SentencePieceVocabulary::join(const std::vector<std::string>& pieces) const {
  std::string text;
  check(processor_->Decode(pieces, &text));
  return text;
}

bool SentencePieceVocabulary::is_unknown(int32_t id) const {
  return id >= 0 && id < size() && to_model_[static_cast<size_t>(id)] == processor_->unk_id();
}

std::string SentencePieceVocabulary::decode(std::span<const int32_t> ids) const {
  std::vector<int32_t> pieces;
  pieces.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id == kEosId) break;
    if (id <= kPadId || id >= size()) continue;
    pieces.push_back(to_model_[static_cast<size_t>(id)]);
  }
  std::string text;
  check(processor_->Decode(pieces, &text));
  return text;
}

std::string SentencePieceVocabulary::piece(int32_t id) const {
  if (id < 0 || id >= size()) return {};
  const int32_t models = to_model_[static_cast<size_t>(id)];
  if (models == kMissing) return id == kPadId ? "<pad>" : "</s>";
  return processor_->IdToPiece(models);
}

bool SentencePieceVocabulary::continues_word(int32_t id) const {
  if (id < 0 || id >= size()) return false;
  const int32_t models = to_model_[static_cast<size_t>(id)];
  if (models == kMissing || processor_->IsControl(models) || processor_->IsUnknown(models)) return false;
  return !processor_->IdToPiece(models).starts_with("\u2581");
}

float SentencePieceVocabulary::score(int32_t id) const {
  const int32_t models = id < 0 || id >= size() ? kMissing : to_model_[static_cast<size_t>(id)];
  return models == kMissing ? 0 : processor_->GetScore(models);
}

std::string SentencePieceVocabulary::model() const { return processor_->serialized_model_proto(); }

std::unique_ptr<SubwordSampler> SentencePieceVocabulary::sampler(const SubwordSampling& sampling) const {
  return SentencePieceSampler::make(*this, sampling);
}

std::unique_ptr<Vocabulary> read_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceVocabulary>(
      read_file(path, "a SentencePiece model", kLargestVocabularyFile), path);
}

}  // namespace mtf
