// Language models learn to write what belongs between two parts of a text:
//   PSM: <prefix> before <suffix> behind <middle> between
//   SPM: <prefix> <suffix> behind <middle> before between
// Bavarian et al., Efficient Training of Language Models to Fill in the Middle, 2022, §3 and appendix D (SPM).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "data/text/objective.h"
#include "data/text/text_source.h"
#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/special_tokens.h"

namespace mtf {
namespace {

struct FillInTheMiddleOptions final : ObjectiveOptions {
  static constexpr std::string_view type_name = "fill_in_the_middle";
  static constexpr bool type_required = true;
  static constexpr std::array common_names = {CommonName{"fim", "`fill_in_the_middle`"}};
  double rate = 0.5;
  double spm_rate = 0.5;
  std::vector<std::string> sentinels;

  BySide<int64_t> row(const BySide<int64_t>& given) const override;
  std::vector<Feature> features(const BySide<int64_t>& row, int64_t size) const override {
    return side_features(Side::kTargets, row.targets, size);
  }
  std::vector<WeightedObjective> make(const BySide<int64_t>& row,
                                      std::shared_ptr<const Vocabulary> vocabulary) const override;
};

void describe(config::Visitor& visit, FillInTheMiddleOptions& options) {
  visit("rate", options.rate, "share of the texts that are changed; the others stay as they are",
        config::probability);
  visit("spm_rate", options.spm_rate,
        "of those, the share in which the part behind comes first (SPM); the others are PSM",
        config::probability);
  visit("sentinels", options.sentinels,
        "pieces of the vocabulary before the parts: prefix, suffix, middle; none: its last three extra ids");
  visit.check([&options](const config::Report& report) {
    if (!options.sentinels.empty() && options.sentinels.size() != 3)
      report.error("sentinels", fmt::format("{} sentinels", options.sentinels.size()),
                   "three: those of prefix, suffix and middle");
  });
}

/// The ids before the parts.
struct Sentinels {
  int32_t prefix, suffix, middle;
};

class FillInTheMiddle final : public Objective {
 public:
  FillInTheMiddle(const FillInTheMiddleOptions& options, const Sentinels& sentinels, int64_t row,
                  int64_t vocabulary_size)
      : options_(options), sentinels_(sentinels), row_(row), vocabulary_size_(vocabulary_size) {}

  PieceRules pieces() const override { return {.most = row_ - kAdded}; }
  BySide<int64_t> capacity() const override { return {0, row_}; }
  TokenCounts room(int64_t tokens) const override { return {0, static_cast<int32_t>(tokens + kAdded)}; }

  void append(const PieceStore& pieces, int64_t piece, Draws& draws, ObjectiveRow& row) const override {
    PieceText text;
    pieces.read(piece, vocabulary_size_, text);
    std::vector<int32_t> ids = draws.chance(options_.rate) ? changed(text.tokens, draws) : text.tokens;
    ids.push_back(kEosId);
    append_side(row, 0, ids);
  }

  static constexpr int64_t kAdded = 4;  ///< three sentinels and the end of sequence

 private:
  /// Two cuts, each at any of the places before, between and behind the tokens.
  std::vector<int32_t> changed(const std::vector<int32_t>& text, Draws& draws) const {
    const int64_t places = std::ssize(text) + 1;
    const int64_t one = draws.below(places), other = draws.below(places);
    const std::span<const int32_t> all = text;
    const auto first = static_cast<size_t>(std::min(one, other)),
               second = static_cast<size_t>(std::max(one, other));
    const auto before = all.first(first), between = all.subspan(first, second - first),
               behind = all.subspan(second);
    std::vector<int32_t> ids = {sentinels_.prefix};
    const auto add = [&ids](std::span<const int32_t> part) {
      std::ranges::copy(part, std::back_inserter(ids));
    };
    const bool spm = draws.chance(options_.spm_rate);
    if (!spm) add(before);
    ids.push_back(sentinels_.suffix);
    add(behind);
    ids.push_back(sentinels_.middle);
    if (spm) add(before);
    add(between);
    return ids;
  }

  FillInTheMiddleOptions options_;
  Sentinels sentinels_;
  int64_t row_;
  int64_t vocabulary_size_;
};

BySide<int64_t> FillInTheMiddleOptions::row(const BySide<int64_t>& given) const {
  if (given.targets <= FillInTheMiddle::kAdded)
    throw Error(ErrorKind::kConfig, fmt::format("rows of {} targets have no room for a text", given.targets),
                "a greater `data.sequence_length`");
  return {0, given.targets};
}

Sentinels find_sentinels(const std::vector<std::string>& pieces, const Vocabulary& vocabulary) {
  if (!pieces.empty())
    return {required_piece(pieces[0], vocabulary), required_piece(pieces[1], vocabulary),
            required_piece(pieces[2], vocabulary)};
  if (sentinel_count(vocabulary) < 3)
    throw Error(ErrorKind::kConfig, "fill_in_the_middle needs three tokens that no text has",
                fmt::format("`extra_ids: {}` of `data.vocabulary`, or `sentinels`", kUsualExtraIds));
  const auto last = static_cast<int32_t>(vocabulary.size() - 1);
  return {last, last - 1, last - 2};
}

std::vector<WeightedObjective> FillInTheMiddleOptions::make(
    const BySide<int64_t>& row, std::shared_ptr<const Vocabulary> vocabulary) const {
  std::vector<WeightedObjective> one;
  one.push_back({std::make_unique<FillInTheMiddle>(*this, find_sentinels(sentinels, *vocabulary), row.targets,
                                                   vocabulary->size())});
  return one;
}

const config::Registration<ObjectiveOptions, FillInTheMiddleOptions> fill_in_the_middle;

}  // namespace
}  // namespace mtf
