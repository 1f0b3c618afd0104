#include "data/text/text_sampling.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/nearest.h"

namespace mtf {
namespace {

constexpr const char* kAlpha = "alpha";
constexpr const char* kDropout = "dropout";

std::optional<double> rate_on(const std::optional<RateBySide>& rates, Side side) {
  if (!rates) return std::nullopt;
  if (const auto* const one = std::get_if<double>(&*rates)) return *one;
  const double* const found = std::get<config::Named<double>>(*rates).find(name_of(side));
  return found == nullptr ? std::nullopt : std::optional(*found);
}

void check_names(const config::Report& report, const char* key, const std::optional<RateBySide>& rates) {
  const auto* const by_side = rates ? std::get_if<config::Named<double>>(&*rates) : nullptr;
  if (by_side == nullptr) return;
  for (const auto& [name, rate] : *by_side) {
    if (name != name_of(Side::kInputs) && name != name_of(Side::kTargets))
      report.error(key, fmt::format("there is no feature `{}` of texts", name),
                   did_you_mean(name, {"inputs", "targets"}));
  }
}

}  // namespace

void describe(config::Visitor& visit, SamplingOptions& options) {
  visit(kAlpha, options.alpha,
        "unigram models of SentencePiece: a segmentation is drawn in proportion to P^alpha, such as 0.1; a "
        "number, or by feature: {inputs: 0.1}",
        config::positive);
  visit(kDropout, options.dropout,
        "byte pairs: each merge is left out with this probability, such as 0.1 (BPE dropout); a number, or "
        "by feature",
        config::probability);
  visit.check([&options](const config::Report& report) {
    check_names(report, kAlpha, options.alpha);
    check_names(report, kDropout, options.dropout);
    const auto has_both = [&](Side side) {
      return rate_on(options.alpha, side) && rate_on(options.dropout, side);
    };
    if (std::ranges::any_of(kSides, has_both))
      report.error(kDropout, "`alpha` and `dropout` are both given for one vocabulary",
                   "`alpha` for unigram models, `dropout` for byte pairs");
    if (!options.alpha && !options.dropout)
      report.error(kAlpha, "`sampling` has neither `alpha` nor `dropout`",
                   "`{alpha: 0.1}` for unigram models, `{dropout: 0.1}` for byte pairs");
  });
}

BySide<std::optional<SubwordSampling>> sampling_of(const SamplingOptions& options,
                                                   const std::vector<Side>& sides) {
  BySide<std::optional<SubwordSampling>> result;
  for (const Side side : sides) {
    if (const auto alpha = rate_on(options.alpha, side))
      result[side] = SubwordSampling{SegmentationKind::kUnigram, *alpha};
    else if (const auto dropout = rate_on(options.dropout, side))
      result[side] = SubwordSampling{SegmentationKind::kMerges, *dropout};
  }
  return result;
}

std::string EpochSampling::to_string() const {
  std::string text = fmt::format("sampling 1 key {:x} {:x} epoch {}", key.low, key.high, epoch);
  for (const Side side : kSides) {
    if (sampling[side])
      text += fmt::format(" {} {} {}", name_of(side),
                          sampling[side]->kind == SegmentationKind::kUnigram ? kAlpha : kDropout,
                          sampling[side]->rate);
  }
  return text;
}

SamplingRefusal refusal_of(Side side, SegmentationKind wanted, std::optional<SegmentationKind> offered) {
  const bool unigram = wanted == SegmentationKind::kUnigram;
  if (!offered)
    return {fmt::format("no segmentations can be drawn from the vocabulary of `{}`", name_of(side)),
            "a vocabulary of SentencePiece, byte pairs of hugging_face, or no `sampling`"};
  return {fmt::format("`{}` is for {}, and the vocabulary of `{}` has {}", unigram ? kAlpha : kDropout,
                      unigram ? "unigram models" : "byte pairs", name_of(side),
                      unigram ? "byte pairs" : "a unigram model"),
          unigram ? "`sampling: {dropout: 0.1}`" : "`sampling: {alpha: 0.1}`"};
}

}  // namespace mtf
