// Masked language modelling: some tokens of a text are hidden, and the model says which they were. With `pairs` a row has
// two texts, of which the model says whether they belong together.
// Devlin et al., BERT, 2019, §3.1 and appendix A.1; whole words: the program of the same authors. Order of sentences:
// Lan et al., ALBERT, 2020, §3.1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "data/text/objective.h"
#include "data/text/text_source.h"
#include "data/vocabulary/special_tokens.h"

namespace mtf {
namespace {

enum class SentencePairs { kNone, kNextSentence, kSentenceOrder };
config::EnumNames enum_names(SentencePairs) {
  return {{"none", SentencePairs::kNone},
          {"next_sentence", SentencePairs::kNextSentence},
          {"sentence_order", SentencePairs::kSentenceOrder}};
}

struct MaskedLmOptions final : ObjectiveOptions {
  static constexpr std::string_view type_name = "masked_lm";
  static constexpr bool type_required = true;
  static constexpr std::array common_names = {CommonName{"mlm", "`masked_lm`"},
                                              CommonName{"bert", "`masked_lm`"}};
  double rate = 0.15;
  double masked = 0.8;
  double random = 0.1;
  bool whole_words = false;
  SentencePairs pairs = SentencePairs::kNone;
  double short_rate = 0.1;
  std::string mask;
  SpecialTokenOptions special_tokens;

  bool has_pairs() const { return pairs != SentencePairs::kNone; }
  /// Separators behind the first text of an example, and tokens that stand around its texts.
  int64_t separators(const SpecialTokens& around) const { return has_pairs() ? around.between : 1; }
  int64_t added(const SpecialTokens& around) const {
    return has_pairs() ? around.around_pair() : SpecialTokens::around_text;
  }
  bool lines_are_sentences() const override { return has_pairs(); }
  BySide<int64_t> row(const BySide<int64_t>& given) const override;
  std::vector<Feature> features(const BySide<int64_t>& row, int64_t size) const override;
  std::vector<WeightedObjective> make(const BySide<int64_t>& row,
                                      std::shared_ptr<const Vocabulary> vocabulary) const override;
};

void describe(config::Visitor& visit, MaskedLmOptions& options) {
  visit("rate", options.rate, "share of the tokens that are predicted", config::probability);
  visit("masked", options.masked, "of those, the share that the model reads as `mask`", config::probability);
  visit("random", options.random,
        "of those, the share that it reads as any token; it reads the rest as they are", config::probability);
  visit("whole_words", options.whole_words, "of a word all tokens are predicted, or none");
  visit("pairs", options.pairs,
        "two texts in a row: next_sentence, what follows or, half of the time, something else; "
        "sentence_order, what "
        "follows or, half of the time, both in reverse. Sentences are the lines of a text");
  visit("short_rate", options.short_rate, "with `pairs`: share of the rows that are cut to a random length",
        config::probability);
  visit("mask", options.mask, "the piece of the vocabulary that hides a token; none: [MASK] or <mask>");
  visit("special_tokens", options.special_tokens, "pieces around the texts");
  visit.check([&options](const config::Report& report) {
    if (options.rate <= 0 || options.rate >= 1)
      report.error("rate",
                   fmt::format("a share of {} leaves nothing to predict, or nothing to read", options.rate),
                   "above 0 and below 1, such as 0.15");
    if (options.masked + options.random > 1)
      report.error("random", fmt::format("the shares add up to {}", options.masked + options.random),
                   "`masked` and `random` of at most 1 together");
  });
}

/// So many of the tokens of an example are predicted.
int64_t predictions_of(int64_t tokens, double rate) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(static_cast<double>(tokens) * rate)));
}

void check_room(int64_t inputs, int64_t added) {
  if (inputs <= added)
    throw Error(ErrorKind::kConfig, fmt::format("rows of {} inputs have no room for a text", inputs),
                "a greater `data.sequence_length`");
}

/// As many predictions as the tokens of a row make, or as `data.sequence_length.targets` says if that is another number than
/// that of the inputs.
BySide<int64_t> MaskedLmOptions::row(const BySide<int64_t>& given) const {
  check_room(given.inputs, added(SpecialTokens()));  // the least that a vocabulary needs
  if (given.targets != 0 && given.targets != given.inputs) return given;
  return {given.inputs, static_cast<int64_t>(std::ceil(rate * static_cast<double>(given.inputs)))};
}

/// The features of a row, in this order.
enum Place : size_t { kIds = 0, kTypes = 3, kTargets, kPlaces, kLabel };

std::vector<Feature> MaskedLmOptions::features(const BySide<int64_t>& row, int64_t size) const {
  std::vector<Feature> features = side_features(Side::kInputs, row.inputs, size);
  const Shape predictions{{"predictions", row.targets}};
  features.push_back({.name = "inputs_type",
                      .shape = {{"length", row.inputs}},
                      .dtype = DType::kInt32,
                      .vocabulary = 2,
                      .one_text = !has_pairs()});
  features.push_back({"targets", predictions, DType::kInt32, size});
  features.push_back({"targets_place", predictions, DType::kInt32});
  if (has_pairs()) features.push_back({"next_sentence", {}, DType::kInt32});
  return features;
}

/// The ids of tokens that stand for others.
struct MaskIds {
  SpecialTokens around;
  int32_t mask;
};

/// Two texts of an example, the second of which may be empty.
struct TextPair {
  std::vector<int32_t> first, second;
  int32_t label = 0;  ///< 0: they belong together
};

class MaskedLm final : public Objective {
 public:
  MaskedLm(const MaskedLmOptions& options, const BySide<int64_t>& row, const MaskIds& ids,
           std::shared_ptr<const Vocabulary> vocabulary)
      : options_(options),
        row_(row),
        ids_(ids),
        added_(options.added(ids.around)),
        vocabulary_(std::move(vocabulary)) {}

  PieceRules pieces() const override {
    return {.most = row_.inputs - added_, .whole_lines = options_.has_pairs()};
  }
  BySide<int64_t> capacity() const override { return row_; }
  TokenCounts room(int64_t tokens) const override {
    const int64_t inputs = std::min(tokens + added_, row_.inputs);
    return {static_cast<int32_t>(inputs), static_cast<int32_t>(predicted(inputs))};
  }
  bool shares_rows() const override { return !options_.has_pairs(); }

  void check(const PieceStore& pieces) const override {
    if (!options_.has_pairs()) return;
    for (int64_t piece = 0; piece < pieces.pieces(); ++piece) {
      if (pieces.runs(piece) > 1) return;
    }
    throw Error(ErrorKind::kConfig,
                "`objective.pairs` needs texts of several sentences, and each text has one line",
                "`join: document`: lines up to a blank one are the sentences of a text");
  }

  void append(const PieceStore& pieces, int64_t piece, Draws& draws, ObjectiveRow& row) const override {
    const TextPair pair = options_.has_pairs() ? pair_of(pieces, piece, draws) : text_of(pieces, piece);
    std::vector<int32_t> ids = {ids_.around.start};
    ids.insert(ids.end(), pair.first.begin(), pair.first.end());
    const auto separators = static_cast<size_t>(options_.separators(ids_.around));
    ids.insert(ids.end(), separators, ids_.around.separator);
    const size_t second = ids.size();
    if (options_.has_pairs()) {
      ids.insert(ids.end(), pair.second.begin(), pair.second.end());
      ids.push_back(ids_.around.separator);
      row[kLabel] = {pair.label};
    }
    const size_t begin = row[kIds].size();
    row[kTypes].resize(begin + second, 0);
    row[kTypes].resize(begin + ids.size(), 1);
    for (const int32_t place : predicted_places(ids, second, draws)) {
      int32_t& id = ids[static_cast<size_t>(place)];
      row[kTargets].push_back(id);
      row[kPlaces].push_back(static_cast<int32_t>(begin) + place);
      id = hidden(id, draws);
    }
    append_side(row, kIds, ids);
  }

 private:
  int64_t predicted(int64_t tokens) const {
    return std::min(predictions_of(tokens, options_.rate), row_.targets);
  }

  TextPair text_of(const PieceStore& pieces, int64_t piece) const {
    PieceText text;
    pieces.read(piece, vocabulary_->size(), text);
    return {std::move(text.tokens), {}};
  }

  /// What the model reads in place of a token.
  int32_t hidden(int32_t id, Draws& draws) const {
    const double draw = draws.uniform();
    if (draw < options_.masked) return ids_.mask;
    if (draw >= options_.masked + options_.random) return id;
    return static_cast<int32_t>(draws.below(vocabulary_->size()));
  }

  /// Tokens of the texts, whole words or single ones, in random order, as long as there is room. `second`: where the second
  /// text begins. The result ascends.
  std::vector<int32_t> predicted_places(const std::vector<int32_t>& ids, size_t second, Draws& draws) const {
    std::vector<std::pair<int32_t, int32_t>> words;  // begin and end
    const auto separators = static_cast<size_t>(options_.separators(ids_.around));
    for (size_t i = 1; i + 1 < ids.size(); ++i) {
      if (i < second && i + separators >= second) continue;
      const auto place = static_cast<int32_t>(i);
      const bool goes_on = options_.whole_words && !words.empty() && words.back().second == place &&
                           vocabulary_->continues_word(ids[i]);
      if (goes_on)
        ++words.back().second;
      else
        words.emplace_back(place, place + 1);
    }
    for (size_t left = words.size(); left > 1; --left)
      std::swap(words[left - 1], words[static_cast<size_t>(draws.below(static_cast<int64_t>(left)))]);
    std::vector<int32_t> places;
    const int64_t wanted = predicted(std::ssize(ids));
    for (const auto& [begin, end] : words) {
      if (std::ssize(places) + (end - begin) > wanted) continue;
      for (int32_t place = begin; place < end; ++place) places.push_back(place);
    }
    std::ranges::sort(places);
    return places;
  }

  /// The sentences of a piece are divided at a random place. The second part may be replaced by another text, or both may
  /// change places.
  TextPair pair_of(const PieceStore& pieces, int64_t piece, Draws& draws) const {
    const int64_t most = row_.inputs - added_;
    const int64_t length = draws.chance(options_.short_rate) ? 2 + draws.below(most - 1) : most;
    PieceText text;
    pieces.read(piece, vocabulary_->size(), text);
    const int64_t runs = std::ssize(text.ends);
    const int64_t cut = text.ends[runs < 2 ? 0 : draws.below(runs - 1)];
    const bool is_other = draws.chance(0.5);
    TextPair pair{{text.tokens.begin(), text.tokens.begin() + cut},
                  {text.tokens.begin() + cut, text.tokens.end()}};
    if (runs < 2 || (is_other && options_.pairs == SentencePairs::kNextSentence)) {
      pair.second = other_text(pieces, piece, draws);
      pair.label = 1;
    } else if (is_other) {
      std::swap(pair.first, pair.second);
      pair.label = 1;
    }
    shorten(pair, length, draws);
    return pair;
  }

  /// Sentences from a random one of a random piece on, of another text unless that is hard to find.
  std::vector<int32_t> other_text(const PieceStore& pieces, int64_t piece, Draws& draws) const {
    constexpr int kTries = 10;
    const int64_t own = pieces.text_of(piece);
    int64_t other = 0;
    for (int i = 0; i < kTries; ++i) {
      other = draws.below(pieces.pieces());
      if (pieces.text_of(other) != own) break;
    }
    PieceText text;
    pieces.read(other, vocabulary_->size(), text, draws.below(pieces.runs(other)));
    return std::move(text.tokens);
  }

  /// Takes tokens from the longer text, of equal ones from the second, each from a random end, until both have `length`
  /// tokens together.
  static void shorten(TextPair& pair, int64_t length, Draws& draws) {
    std::span<const int32_t> first = pair.first, second = pair.second;
    while (std::ssize(first) + std::ssize(second) > length) {
      std::span<const int32_t>& longer = first.size() > second.size() ? first : second;
      longer = draws.chance(0.5) ? longer.subspan(1) : longer.first(longer.size() - 1);
    }
    pair.first = {first.begin(), first.end()};
    pair.second = {second.begin(), second.end()};
  }

  MaskedLmOptions options_;
  BySide<int64_t> row_;
  MaskIds ids_;
  int64_t added_;  ///< tokens around the texts of an example
  std::shared_ptr<const Vocabulary> vocabulary_;
};

std::vector<WeightedObjective> MaskedLmOptions::make(const BySide<int64_t>& row,
                                                     std::shared_ptr<const Vocabulary> vocabulary) const {
  const MaskIds ids{find_special_tokens(special_tokens, *vocabulary, {}), find_mask(mask, *vocabulary)};
  check_room(row.inputs, added(ids.around));
  std::vector<WeightedObjective> one;
  one.push_back({std::make_unique<MaskedLm>(*this, row, ids, std::move(vocabulary))});
  return one;
}

const config::Registration<ObjectiveOptions, MaskedLmOptions> masked_lm;

}  // namespace
}  // namespace mtf
