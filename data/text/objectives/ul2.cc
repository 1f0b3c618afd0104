// Several ways of span corruption and a prefix language model in turn. Each goes through all texts by itself.
// Tay et al., UL2: Unifying Language Learning Paradigms, 2022, table 1.
#include <algorithm>

#include "data/text/objectives/denoising.h"

namespace mtf {
namespace {

struct MixedDenoiser {
  Denoiser denoiser;
  double weight = 1;
};

void describe(config::Visitor& visit, MixedDenoiser& options) {
  visit("prefix", options.denoiser.prefix, "the beginning of a text and the rest, instead of spans");
  describe_noise(visit, options.denoiser.noise);
  describe_mode(visit, options.denoiser.mode);
  visit("weight", options.weight, "its share of the rows", config::positive);
}

/// Those of the paper, with modes R (regular), S (sequential) and X (extreme).
config::Named<MixedDenoiser> published_denoisers() {
  const auto spans = [](double mean_span, double density, const char* mode) {
    return MixedDenoiser{{.noise = {.density = density, .mean_span = mean_span}, .mode = mode}};
  };
  return {{"r3", spans(3, 0.15, "[R]")},
          {"r8", spans(8, 0.15, "[R]")},
          {"s", MixedDenoiser{{.prefix = true, .mode = "[S]"}}},
          {"x3", spans(3, 0.5, "[X]")},
          {"x8", spans(8, 0.5, "[X]")},
          {"x64", spans(64, 0.15, "[X]")},
          {"x64_half", spans(64, 0.5, "[X]")}};
}

struct Ul2Options final : ObjectiveOptions {
  static constexpr std::string_view type_name = "ul2";
  static constexpr bool type_required = true;
  static constexpr std::array common_names = {CommonName{"mixture_of_denoisers", "`ul2`"}};
  config::Named<MixedDenoiser> denoisers = published_denoisers();
  DenoisingRows rows;

  /// Rows that have room for what any of them needs.
  BySide<int64_t> row(const BySide<int64_t>& given) const override {
    BySide<int64_t> result;
    for (const auto& [name, one] : denoisers) {
      const BySide<int64_t> row = denoising_row(given, rows, one.denoiser);
      for (const Side side : kSides) result[side] = std::max(result[side], row[side]);
    }
    return result;
  }
  std::vector<Feature> features(const BySide<int64_t>& row, int64_t size) const override {
    return denoising_features(row, size);
  }
  bool joins_pairs() const override { return rows.as == PairsAs::kTargets; }
  std::vector<WeightedObjective> make(const BySide<int64_t>& row,
                                      std::shared_ptr<const Vocabulary> vocabulary) const override {
    std::vector<WeightedObjective> all;
    for (const auto& [name, one] : denoisers)
      all.push_back({make_denoising(one.denoiser, rows, row, *vocabulary), one.weight});
    return all;
  }
};

void describe(config::Visitor& visit, Ul2Options& options) {
  visit(
      "denoisers", options.denoisers,
      "ways to make inputs and targets, by name; null: the seven of the paper, with modes [R], [S] and [X]");
  describe_rows(visit, options.rows);
  visit.check([&options](const config::Report& report) {
    if (options.denoisers.empty()) report.error("denoisers", "there is no denoiser", "at least one");
  });
}

const config::Registration<ObjectiveOptions, Ul2Options> ul2;

}  // namespace
}  // namespace mtf
