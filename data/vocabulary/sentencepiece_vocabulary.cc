#include "data/vocabulary/sentencepiece_vocabulary.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>

#include "data/input_file.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

/// SentencePiece's id of a piece that a model has not.
constexpr int32_t kMissing = -1;

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

std::vector<int32_t> SentencePieceVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const sentencepiece::util::Status status = processor_->Encode(text, &ids);
  MTF_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
  if (!from_model_.empty()) {
    for (int32_t& id : ids) id = from_model_[static_cast<size_t>(id)];
  }
  return ids;
}

std::vector<std::string> SentencePieceVocabulary::pieces(std::string_view text) const {
  std::vector<std::string> pieces;
  const sentencepiece::util::Status status = processor_->Encode(text, &pieces);
  MTF_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
  return pieces;
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
  const sentencepiece::util::Status status = processor_->Decode(pieces, &text);
  MTF_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
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

std::unique_ptr<Vocabulary> read_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceVocabulary>(
      read_file(path, "a SentencePiece model", kLargestVocabularyFile), path);
}

}  // namespace mtf
