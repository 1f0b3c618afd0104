// What the objectives have in common that make inputs and targets of a text: span corruption, prefix language models and
// mixtures of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/text/objective.h"
#include "data/text/objectives/span_noise.h"
#include "data/text/text_options.h"

namespace mtf {

/// One way of making inputs and targets of a text.
struct Denoiser {
  bool prefix = false;  ///< the text is cut in two; otherwise spans are taken out
  SpanNoise noise = {};
  std::string mode = {};  ///< stands before the inputs
};

/// How texts become examples, and these rows.
struct DenoisingRows {
  PairsAs as = PairsAs::kPairs;
  int64_t joined = 128;
};
/// The keys as, joined.
void describe_rows(config::Visitor& visit, DenoisingRows& rows);
/// The keys noise_density, mean_span.
void describe_noise(config::Visitor& visit, SpanNoise& noise);
/// The key mode.
void describe_mode(config::Visitor& visit, std::string& mode);

/// Returns the tokens of a row on each side where `data.sequence_length` says `given`. One number for both sides is that of
/// the inputs; then targets get as many as they need. Throws Error (kConfig) where a number is missing.
BySide<int64_t> denoising_row(const BySide<int64_t>& given, const DenoisingRows& rows,
                              const Denoiser& denoiser);
/// Features of rows of these lengths.
std::vector<Feature> denoising_features(const BySide<int64_t>& row, int64_t size);
/// Throws Error (kConfig) where rows are too short, or there may be more spans than the vocabulary has sentinels.
std::unique_ptr<Objective> make_denoising(const Denoiser& denoiser, const DenoisingRows& rows,
                                          const BySide<int64_t>& row, const Vocabulary& vocabulary);

/// The options of an objective with one denoiser.
struct DenoiserOptions : ObjectiveOptions {
  std::string mode;
  DenoisingRows rows;

  virtual Denoiser denoiser() const = 0;
  BySide<int64_t> row(const BySide<int64_t>& given) const override;
  std::vector<Feature> features(const BySide<int64_t>& row, int64_t size) const override;
  bool joins_pairs() const override { return rows.as == PairsAs::kTargets; }
  std::vector<WeightedObjective> make(const BySide<int64_t>& row,
                                      std::shared_ptr<const Vocabulary> vocabulary) const override;
};

}  // namespace mtf
