#include "data/text/text_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/nearest.h"

namespace mtf {
namespace {

constexpr const char* kPairsAsMeaning =
    "pairs, or targets: both texts joined into `targets`, for language models";
const std::vector<std::string> kSideNames = {"inputs", "targets"};

std::vector<Side> sides_named(const std::vector<std::string>& names) {
  std::vector<Side> sides;
  for (const Side side : kSides) {
    if (std::ranges::find(names, name_of(side)) != names.end()) sides.push_back(side);
  }
  return sides;
}

template <class T>
std::vector<std::string> keys_of(const config::Named<T>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

/// Checks the features `names` of the option `key`.
void check_sides(const config::Report& report, std::string_view key, const std::vector<std::string>& names,
                 PairsAs as) {
  const std::vector<Side> sides = sides_named(names);
  for (const Side side : sides) {
    if (std::ranges::count(names, name_of(side)) > 1)
      report.error(key, fmt::format("`{}` occurs twice in `{}`", name_of(side), key));
  }
  if (sides.empty()) {
    report.error(key, fmt::format("`{}` names neither `inputs` nor `targets`", key),
                 names.empty() ? "for example [inputs, targets]" : did_you_mean(names.front(), kSideNames));
  } else if (as == PairsAs::kTargets && sides.size() < 2) {
    report.error("as",
                 fmt::format("there are no pairs to be joined: `{}` names only `{}`", key, name_of(sides[0])),
                 "`columns` or `features` with inputs and targets");
  }
}

void check_known(const config::Report& report, std::string_view key, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(kSideNames, name) == kSideNames.end())
      report.error(key, fmt::format("there is no feature `{}` of texts", name),
                   did_you_mean(name, kSideNames));
  }
}

}  // namespace

void describe_objective(config::Visitor& visit, TextSourceOptions& options) {
  visit("objective", options.objective,
        "what is predicted of the texts (pretraining); none: the texts themselves, as the model does");
  visit.check([&options](const config::Report& report) {
    if (options.objective && sides_in_rows(options).size() > 1)
      report.error("objective", "an objective makes inputs and targets of one text, not of pairs",
                   "`as: targets`, or a source of single texts");
  });
  describe_sampling(visit, options);
}

void describe_sampling(config::Visitor& visit, TextSourceOptions& options) {
  visit("sampling", options.sampling,
        "in training the tokens of the texts are drawn anew in each epoch (subword regularisation): "
        "{alpha: 0.1} or {dropout: 0.1}; none: they are always the same");
  visit.check([&options](const config::Report& report) {
    if (!options.sampling) return;
    const std::vector<Side> sides = sides_in_rows(options);
    if (sides.empty()) return;  // `columns` or `features` are wrong
    const BySide<std::optional<SubwordSampling>> all =
        sampling_of(*options.sampling, {kSides.begin(), kSides.end()});
    const auto is_by_feature = [](const std::optional<RateBySide>& rates) {
      return rates && std::holds_alternative<config::Named<double>>(*rates);
    };
    const bool has_features =
        is_by_feature(options.sampling->alpha) || is_by_feature(options.sampling->dropout);
    for (const Side side : kSides) {
      const bool is_in_rows = std::ranges::find(sides, side) != sides.end();
      if (all[side] && !is_in_rows && has_features)
        report.error("sampling", fmt::format("the rows have no `{}`", name_of(side)),
                     fmt::format("`{}`", name_of(sides.front())));
      if (all[side] && is_in_rows && options.has_ids(side))
        report.error("sampling",
                     fmt::format("`{}` are token ids, of which nothing can be drawn", name_of(side)),
                     "numbers for the features of `kind: text` alone, or no `sampling`");
    }
    if (options.has_alignments())
      report.error("sampling", "the words of `alignments` are not found among tokens that are drawn",
                   "`sampling` or `alignments`");
  });
}

void describe(config::Visitor& visit, ParallelOptions& options) {
  visit("inputs", options.inputs, "text files in UTF-8, plain or .gz: a path, a list or a glob",
        config::required);
  visit("targets", options.targets, "as many files, in which each line belongs to the same line of `inputs`",
        config::required);
  visit("as", options.as, kPairsAsMeaning);
  visit("alignments", options.alignments,
        "as many files, whose lines are links such as `0-0 1-2` of words of the inputs to words of the "
        "targets, from 0 and between blanks; for `model.alignment.weight`");
  describe_objective(visit, options);
  visit.check([&options](const config::Report& report) {
    if (options.has_alignments() && options.joins_pairs())
      report.error("alignments", "pairs that are joined have no alignment",
                   "`as: pairs`, or no `alignments`");
  });
}

void describe(config::Visitor& visit, TsvOptions& options) {
  visit("path", options.path, "files of lines, plain or .gz: a path, a list or a glob", config::required);
  visit("columns", options.columns,
        "names of the columns in order; those not called inputs or targets are passed over");
  visit("as", options.as, kPairsAsMeaning);
  describe_objective(visit, options);
  visit.check([&options](const config::Report& report) {
    check_sides(report, "columns", options.columns, options.as);
  });
}

void describe(config::Visitor& visit, JsonlOptions& options) {
  visit("path", options.path, "files of lines, plain or .gz: a path, a list or a glob", config::required);
  visit("columns", options.columns,
        "keys called inputs and targets; or others, as in {inputs: en, targets: de}");
  visit("as", options.as, kPairsAsMeaning);
  describe_objective(visit, options);
  visit.check([&options](const config::Report& report) {
    const auto* list = std::get_if<std::vector<std::string>>(&options.columns);
    const std::vector<std::string> names =
        list ? *list : keys_of(std::get<config::Named<std::string>>(options.columns));
    check_known(report, "columns", names);
    check_sides(report, "columns", names, options.as);
  });
}

void describe(config::Visitor& visit, TfrecordOptions& options) {
  visit("path", options.path, "TFRecord files, plain or .gz: a path, a list or a glob", config::required);
  visit("features", options.features,
        "what each feature is in the files, such as {inputs: ids, targets: ids}");
  visit("vocab_shift", options.vocab_shift, "added to every id", config::Bounds{-1e6, 1e6, false});
  visit("append_eos", options.append_eos, "the ids end without the end of sequence: append it");
  visit("as", options.as, kPairsAsMeaning);
  describe_objective(visit, options);
  visit.check([&options](const config::Report& report) {
    const std::vector<std::string> names = keys_of(options.features);
    check_known(report, "features", names);
    check_sides(report, "features", names, options.as);
  });
}

std::vector<Side> TextOptions::sides() const { return {as}; }
std::vector<Side> ParallelOptions::sides() const { return {kSides.begin(), kSides.end()}; }
std::vector<Side> TsvOptions::sides() const { return sides_named(columns); }
std::vector<Side> JsonlOptions::sides() const {
  const auto* list = std::get_if<std::vector<std::string>>(&columns);
  return sides_named(list ? *list : keys_of(std::get<config::Named<std::string>>(columns)));
}
std::vector<Side> TfrecordOptions::sides() const { return sides_named(keys_of(features)); }

bool TfrecordOptions::has_ids(Side side) const {
  const TfrecordFeature* const feature = features.find(name_of(side));
  return feature != nullptr && feature->kind == StoredText::kIds;
}

std::vector<Side> sides_in_rows(const TextSourceOptions& options) {
  return options.joins_pairs() ? std::vector<Side>{Side::kTargets} : options.sides();
}

std::optional<bool> has_inputs_part(const TextSourceOptions& options) {
  // An objective on joined pairs keeps the end of sequence between them, so its examples have three.
  if (options.has_ids(Side::kTargets) && !options.joins_pairs()) return std::nullopt;
  if (options.objective) return (*options.objective)->joins_pairs() && !options.joins_pairs();
  return options.joins_pairs();
}

BySide<int64_t> sequence_lengths(const SequenceLengthOptions& options) {
  if (const auto* length = std::get_if<int64_t>(&options)) return {*length, *length};
  BySide<int64_t> lengths;
  const auto& map = std::get<config::Named<int64_t>>(options);
  for (const Side side : kSides) {
    if (const int64_t* length = map.find(name_of(side))) lengths[side] = *length;
  }
  return lengths;
}

namespace {

const config::Registration<SourceOptions, TextOptions> text_registration;
const config::Registration<SourceOptions, ParallelOptions> parallel_registration;
const config::Registration<SourceOptions, TsvOptions> tsv_registration;
const config::Registration<SourceOptions, JsonlOptions> jsonl_registration;
const config::Registration<SourceOptions, TfrecordOptions> tfrecord_registration;

}  // namespace
}  // namespace mtf
