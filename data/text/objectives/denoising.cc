#include "data/text/objectives/denoising.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "data/text/text_source.h"
#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/special_tokens.h"

namespace mtf {
namespace {

/// Inputs and targets of each example, with the end of sequence behind both; for PairsAs::kTargets one after the other.
class Denoising : public Objective {
 public:
  Denoising(const DenoisingRows& rows, const BySide<int64_t>& row, std::vector<int32_t> mode,
            int64_t vocabulary_size)
      : rows_(rows), row_(row), mode_(std::move(mode)), vocabulary_size_(vocabulary_size) {}

  PieceRules pieces() const override { return {.most = longest_, .joined = rows_.joined}; }
  BySide<int64_t> capacity() const override { return row_; }
  TokenCounts room(int64_t tokens) const override {
    const SpanLengths lengths = most(tokens);
    const auto with_mode = [this](int64_t count) { return static_cast<int32_t>(count + std::ssize(mode_)); };
    if (rows_.as == PairsAs::kTargets) return {0, with_mode(total(tokens))};
    return {with_mode(lengths.inputs), static_cast<int32_t>(lengths.targets)};
  }

  void append(const PieceStore& pieces, int64_t piece, Draws& draws, ObjectiveRow& row) const override {
    PieceText text;
    pieces.read(piece, vocabulary_size_, text);
    BySide<std::vector<int32_t>> example = divide(text.tokens, draws);
    example.inputs.insert(example.inputs.begin(), mode_.begin(), mode_.end());
    for (const Side side : kSides) example[side].push_back(kEosId);
    if (rows_.as == PairsAs::kPairs) {
      append_side(row, 0, example.inputs);
      append_side(row, 3, example.targets);
    } else {
      std::ranges::copy(example.targets, std::back_inserter(example.inputs));
      append_side(row, 0, example.inputs);
    }
  }

  /// Finds the longest text whose example fits into a row, from `longest` on downwards; `longest()` is 0 if none fits.
  void fit(int64_t longest) {
    const auto fits = [this](const TokenCounts& room) {
      return room.inputs <= row_.inputs && room.targets <= row_.targets;
    };
    for (longest_ = longest; longest_ > 0 && !fits(room(longest_)); --longest_) continue;
  }
  int64_t longest() const { return longest_; }

 private:
  /// The most inputs and the most targets of a text, and both together, ends of sequence included.
  virtual SpanLengths most(int64_t tokens) const = 0;
  virtual int64_t total(int64_t tokens) const = 0;
  virtual BySide<std::vector<int32_t>> divide(const std::vector<int32_t>& text, Draws& draws) const = 0;

  DenoisingRows rows_;
  BySide<int64_t> row_;
  std::vector<int32_t> mode_;
  int64_t vocabulary_size_;
  int64_t longest_ = 0;
};

class SpanCorruption final : public Denoising {
 public:
  SpanCorruption(const SpanNoise& noise, const DenoisingRows& rows, const BySide<int64_t>& row,
                 std::vector<int32_t> mode, int64_t vocabulary_size)
      : Denoising(rows, row, std::move(mode), vocabulary_size),
        noise_(noise),
        sentinel_(static_cast<int32_t>(vocabulary_size - 1)) {}

 private:
  SpanLengths most(int64_t tokens) const override { return corrupted_lengths(tokens, noise_); }
  int64_t total(int64_t tokens) const override { return most(tokens).inputs + most(tokens).targets; }
  BySide<std::vector<int32_t>> divide(const std::vector<int32_t>& text, Draws& draws) const override {
    const std::vector<uint8_t> mask = span_mask(std::ssize(text), noise_, draws);
    return {without_runs(text, mask, true, sentinel_), without_runs(text, mask, false, sentinel_)};
  }

  SpanNoise noise_;
  int32_t sentinel_;  ///< of the first span
};

/// The prefix is of 1 .. tokens - 1 tokens, all lengths being equally likely; that of a single token is empty.
class Prefix final : public Denoising {
 public:
  using Denoising::Denoising;

 private:
  SpanLengths most(int64_t tokens) const override { return {tokens, tokens, std::max<int64_t>(tokens, 2)}; }
  int64_t total(int64_t tokens) const override { return tokens + 2; }
  BySide<std::vector<int32_t>> divide(const std::vector<int32_t>& text, Draws& draws) const override {
    const auto cut = std::ssize(text) < 2 ? 0 : 1 + draws.below(std::ssize(text) - 1);
    return {{text.begin(), text.begin() + cut}, {text.begin() + cut, text.end()}};
  }
};

/// As many spans as a text of `longest` tokens has need sentinels.
void check_sentinels(const SpanNoise& noise, int64_t longest, const Vocabulary& vocabulary) {
  const int64_t spans = span_counts(longest, noise).spans, sentinels = sentinel_count(vocabulary);
  if (spans <= sentinels) return;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("span corruption takes {} spans out of {} tokens, and the vocabulary has {} sentinels",
                  spans, longest, sentinels),
      fmt::format("`extra_ids: {}` of `data.vocabulary`, or less `data.sequence_length`",
                  std::max<int64_t>(spans, kUsualExtraIds)));
}

int64_t usual_length(const BySide<int64_t>& row, const DenoisingRows& rows, const Denoiser& denoiser) {
  if (rows.as == PairsAs::kTargets) return row.targets;
  return denoiser.prefix ? row.inputs : span_lengths(row.inputs, denoiser.noise).text;
}

[[noreturn]] void throw_missing(Side side) {
  throw Error(ErrorKind::kConfig, fmt::format("`data.sequence_length` has no number for `{}`", name_of(side)),
              "one number, or one for each feature");
}

}  // namespace

void describe_rows(config::Visitor& visit, DenoisingRows& rows) {
  visit("as", rows.as, "pairs, or targets: inputs and targets one after the other, for language models");
  visit(
      "joined", rows.joined,
      "so many texts are joined to one, with nothing between them, before it is cut into pieces for rows; 1: "
      "none, 0: all",
      config::non_negative);
}

void describe_noise(config::Visitor& visit, SpanNoise& noise) {
  visit("noise_density", noise.density, "share of the tokens that are taken out", config::probability);
  visit("mean_span", noise.mean_span, "tokens of a span, on average", config::at_least(1));
  visit.check([&noise](const config::Report& report) {
    if (noise.density <= 0 || noise.density >= 1)
      report.error("noise_density",
                   fmt::format("a share of {} leaves nothing to predict, or nothing to read", noise.density),
                   "above 0 and below 1, such as 0.15");
  });
}

void describe_mode(config::Visitor& visit, std::string& mode) {
  visit("mode", mode, "a text before the inputs, which tells the model how they were made");
}

BySide<int64_t> denoising_row(const BySide<int64_t>& given, const DenoisingRows& rows,
                              const Denoiser& denoiser) {
  if (rows.as == PairsAs::kTargets) {
    if (given.targets == 0) throw_missing(Side::kTargets);
    return {0, given.targets};
  }
  if (given.inputs == 0) throw_missing(Side::kInputs);
  if (given.targets != 0 && (denoiser.prefix || given.targets != given.inputs)) return given;
  if (denoiser.prefix) throw_missing(Side::kTargets);
  const int64_t needed = span_lengths(given.inputs, denoiser.noise).targets;
  return {given.inputs, given.targets == 0 ? needed : std::min(needed, given.targets)};
}

std::vector<Feature> denoising_features(const BySide<int64_t>& row, int64_t size) {
  std::vector<Feature> features;
  for (const Side side : kSides) {
    if (row[side] > 0) std::ranges::copy(side_features(side, row[side], size), std::back_inserter(features));
  }
  return features;
}

std::unique_ptr<Objective> make_denoising(const Denoiser& denoiser, const DenoisingRows& rows,
                                          const BySide<int64_t>& row, const Vocabulary& vocabulary) {
  std::vector<int32_t> mode = vocabulary.encode(denoiser.mode);
  std::unique_ptr<Denoising> objective;
  if (denoiser.prefix)
    objective = std::make_unique<Prefix>(rows, row, std::move(mode), vocabulary.size());
  else
    objective =
        std::make_unique<SpanCorruption>(denoiser.noise, rows, row, std::move(mode), vocabulary.size());
  objective->fit(usual_length(row, rows, denoiser));
  if (objective->longest() < 1)
    throw Error(ErrorKind::kConfig, "rows are too short for any text", "a greater `data.sequence_length`");
  if (!denoiser.prefix) check_sentinels(denoiser.noise, objective->longest(), vocabulary);
  return objective;
}

BySide<int64_t> DenoiserOptions::row(const BySide<int64_t>& given) const {
  return denoising_row(given, rows, denoiser());
}

std::vector<Feature> DenoiserOptions::features(const BySide<int64_t>& row, int64_t size) const {
  return denoising_features(row, size);
}

std::vector<WeightedObjective> DenoiserOptions::make(const BySide<int64_t>& row,
                                                     std::shared_ptr<const Vocabulary> vocabulary) const {
  std::vector<WeightedObjective> one;
  one.push_back({make_denoising(denoiser(), rows, row, *vocabulary)});
  return one;
}

}  // namespace mtf
