#include "data/text/text_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <utility>

#include "data/text/epoch_source.h"
#include "data/text/objective.h"
#include "data/text/text_cache.h"
#include "engine/base/check.h"
#include "engine/base/counted.h"

namespace mtf {
namespace {

/// True if the source's examples are pairs. Pairs, even joined ones, are not split: models tell inputs and
/// targets apart by counting the end-of-sequence tokens in a row.
bool are_pairs(const TextSourceOptions& options) { return options.sides().size() > 1; }

/// True if the end of an example makes sense only behind its beginning.
bool are_wholes(const TextSourceOptions& options) { return are_pairs(options) || options.has_answers(); }

TooLong too_long_rule(const TextSettings& settings, bool wholes) {
  const bool evaluation = settings.purpose == TextPurpose::kEvaluation;
  if (settings.filter.too_long && !evaluation) return *settings.filter.too_long;
  if (!wholes && settings.packing != Packing::kReference) return TooLong::kSplit;
  return evaluation || settings.packing == Packing::kReference ? TooLong::kCut : TooLong::kDrop;
}

/// Throws Error (kConfig) when the section `data` lacks a vocabulary or a sequence length.
void check_settings(const TextSourceOptions& options, const TextSettings& settings, const Mark& mark) {
  for (const Side side : sides_in_rows(options)) {
    if (!settings.vocabularies[side])
      throw Error(ErrorKind::kConfig, mark, "texts need `data.vocabulary`",
                  "for example {type: sentencepiece, size: 8000}, or bytes");
  }
  if (settings.lengths == BySide<int64_t>{})
    throw Error(ErrorKind::kConfig, mark, "texts need `data.sequence_length`",
                "tokens of a row, such as 256");
}

RowRules rules_for(const TextSourceOptions& options, const TextSettings& settings, const Mark& mark) {
  const bool evaluation = settings.purpose == TextPurpose::kEvaluation;
  const std::vector<Side> sides = sides_in_rows(options);
  RowRules rules;
  for (const Side side : sides) {
    const int64_t length = settings.lengths[side];
    if (length < 1)
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("`data.sequence_length` has no number for `{}`", name_of(side)),
                  "one number, or one for each feature");
    rules.row[side] = length;
    const int64_t most = options.has_preferences() ? length / 2 : length;
    rules.limit[side] = evaluation ? most : std::min(most, settings.filter.max_length.value_or(most));
  }
  if (!evaluation) rules.max_ratio = settings.filter.max_ratio;
  rules.joins_pairs = options.joins_pairs();
  rules.has_answers = options.has_answers();
  rules.has_preferences = options.has_preferences();
  rules.too_long = too_long_rule(settings, are_wholes(options));
  const bool is_split = rules.too_long == TooLong::kSplit;
  if (is_split && sides.size() > 1)
    throw Error(ErrorKind::kConfig, mark, "pairs of texts cannot be split",
                "`data.filter.too_long` drop or cut, or a source without `inputs`");
  if (is_split && options.has_answers())
    throw Error(ErrorKind::kConfig, mark, "conversations cannot be split: answers would lose their questions",
                "`data.filter.too_long` drop or cut");
  if (rules.has_preferences && settings.packing != Packing::kNone)
    throw Error(ErrorKind::kConfig, mark, "each pair of answers has a row, which holds no other texts",
                "`data.packing: none`");
  rules.packing = evaluation && are_pairs(options) ? Packing::kNone : settings.packing;
  rules.keep_empty = evaluation && !rules.has_preferences;
  // What Mesh TensorFlow makes of a pair that fills a row stays as it is: no other text in the row is affected.
  const bool fills_row = rules.packing == Packing::kReference && rules.limit.targets == rules.row.targets;
  rules.cuts_joined_pairs = rules.joins_pairs && rules.too_long == TooLong::kCut && !evaluation && !fills_row;
  return rules;
}

/// Calls `use` with each token of the targets that has links, and the tokens of the inputs that these lead to. `links`:
/// TokenStore::links(); of each side only so many tokens are there.
template <class Use>
void for_each_target(std::span<const int32_t> links, const BySide<int64_t>& kept, const Use& use) {
  std::vector<int32_t> inputs;
  for (size_t i = 0; i + 1 < links.size(); i += 2) {
    const int32_t target = links[i + 1];
    if (links[i] < kept.inputs) inputs.push_back(links[i]);
    if (i + 3 < links.size() && links[i + 3] == target) continue;
    if (target < kept.targets && !inputs.empty()) use(target, std::span<const int32_t>(inputs));
    inputs.clear();
  }
}

BySide<int64_t> sizes_of(const TextVocabularies& vocabularies, const std::vector<Side>& sides) {
  BySide<int64_t> sizes;
  for (const Side side : sides) sizes[side] = vocabularies[side]->size();
  return sizes;
}

}  // namespace

std::vector<Feature> side_features(Side side, int64_t length, int64_t vocabulary_size) {
  const Shape shape{{"length", length}};
  const std::string name(name_of(side));
  return {{name, shape, DType::kInt32, vocabulary_size},
          {name + "_segmentation", shape, DType::kInt32},
          {name + "_position", shape, DType::kInt32}};
}

std::vector<Feature> text_features(const TextSourceOptions& options, const BySide<int64_t>& lengths,
                                   const BySide<int64_t>& vocabulary_sizes, Packing packing) {
  std::vector<Feature> features;
  for (const Side side : sides_in_rows(options)) {
    std::vector<Feature> of_side = side_features(side, lengths[side], vocabulary_sizes[side]);
    of_side.front().one_text = packing == Packing::kNone && !options.has_preferences();
    std::ranges::move(of_side, std::back_inserter(features));
  }
  if (options.has_alignments()) {
    features.push_back({.name = std::string(kAlignmentFeature),
                        .shape = {{"length", lengths.targets}, {"memory_length", lengths.inputs}},
                        .training_only = true});
  }
  return features;
}

TextSource::TextSource(std::vector<Feature> features, TokenStore tokens, RowStore rows, const RowRules& rules)
    : features_(std::move(features)),
      tokens_(std::move(tokens)),
      rows_(std::move(rows)),
      report_(rows_.report()) {
  report_.rules = rules;
  for (const Side side : kSides) {
    if (rules.row[side] == 0) continue;
    vocabulary_sizes_[side] = features_[3 * sides_.size()].vocabulary;
    sides_.push_back(side);
  }
  cut_ends_ = rules.too_long == TooLong::kCut && !rules.has_answers &&
              (rules.packing != Packing::kReference || rules.cuts_joined_pairs);
}

void TextSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  for (size_t s = 0; s < sides_.size(); ++s) {
    std::array<Window, 3> windows;
    for (size_t f = 0; f < windows.size(); ++f) {
      const FeatureSlice& slice = slices[3 * s + f];
      const int64_t begin = slice.box ? slice.box->begin[0] : 0;
      const int64_t count = slice.box ? slice.box->shape[0].size : report_.rules.row[sides_[s]];
      windows[f] = {reinterpret_cast<int32_t*>(slice.output), begin, begin + count};
    }
    for (const int64_t row : rows) {
      MTF_CHECK(row >= 0 && row < examples(), "row {} of {}", row, examples());
      read_row(sides_[s], row, windows[0], windows[1], windows[2]);
      for (Window& window : windows) window.output += window.end - window.begin;
    }
  }
  for (size_t f = 3 * sides_.size(); f < features_.size(); ++f) {
    const Box box = slices[f].box ? *slices[f].box : Box::whole(features_[f].shape);
    float* output = reinterpret_cast<float*>(slices[f].output);
    for (const int64_t row : rows) {
      read_alignment(row, box, output);
      output += box.shape.size();
    }
  }
}

std::string TextSource::fingerprint() const { return std::filesystem::path(rows_.path()).stem().string(); }

void TextSource::check_aligned(const Mark& mark) const {
  if (sides_.size() < 2) return;
  for (int64_t piece = 0; piece < rows_.first(examples()); ++piece) {
    const int32_t inputs = rows_.length(Side::kInputs, piece), targets = rows_.length(Side::kTargets, piece);
    if (inputs == targets) continue;
    const int64_t example = tokens_.example_at(Side::kTargets, rows_.begin(Side::kTargets, piece));
    throw Error(ErrorKind::kData, mark,
                fmt::format("example {} has {} inputs and {} targets, ends of sequence included", example + 1,
                            inputs, targets),
                "one target for each input, as `model.type: aligned` needs");
  }
}

void TextSource::read_row(Side side, int64_t row, const Window& ids, const Window& segments,
                          const Window& positions) const {
  const int32_t* const tokens = tokens_.tokens(side).data();
  const int64_t vocabulary = vocabulary_sizes_[side];
  int64_t place = 0;
  int32_t segment = 0;
  // Gives the entries [place, place + length) of the row that are in the window the values f(0), f(1), ...
  const auto put = [&place](const Window& window, int64_t length, const auto& f) {
    const int64_t end = std::min(place + length, window.end);
    for (int64_t i = std::max(place, window.begin); i < end; ++i)
      window.output[i - window.begin] = f(i - place);
  };
  for (int64_t piece = rows_.first(row); piece < rows_.first(row + 1); ++piece) {
    const int32_t length = rows_.length(side, piece);
    const int32_t* const begin = tokens + rows_.begin(side, piece);
    if (std::any_of(begin, begin + length, [&](int64_t id) { return std::abs(id) >= vocabulary; }))
      throw_damaged_store(tokens_.path());
    const bool is_cut = ends_cut(side, piece);
    put(ids, length, [&](int64_t i) { return is_cut && i == length - 1 ? kEosId : begin[i]; });
    ++segment;
    put(segments, length, [&](int64_t) { return segment; });
    put(positions, length, [](int64_t i) { return static_cast<int32_t>(i); });
    place += length;
  }
  const int64_t padding = report_.rules.row[side] - place;
  for (const Window& window : {ids, segments, positions}) put(window, padding, [](int64_t) { return 0; });
}

bool TextSource::ends_cut(Side side, int64_t piece) const {
  const int32_t length = rows_.length(side, piece);
  return cut_ends_ && length == report_.rules.limit[side] &&
         !tokens_.ends_example(side, rows_.begin(side, piece) + length);
}

void TextSource::read_alignment(int64_t row, const Box& box, float* output) const {
  std::fill_n(output, box.shape.size(), 0.0F);
  const int64_t columns = box.shape[1].size;
  BySide<int64_t> place;  // where the piece begins in the row
  for (int64_t piece = rows_.first(row); piece < rows_.first(row + 1); ++piece) {
    BySide<int64_t> kept;
    for (const Side side : kSides) kept[side] = rows_.length(side, piece) - (ends_cut(side, piece) ? 1 : 0);
    const int64_t example = tokens_.example_at(Side::kTargets, rows_.begin(Side::kTargets, piece));
    for_each_target(tokens_.links(example), kept, [&](int32_t target, std::span<const int32_t> inputs) {
      const int64_t r = place.targets + target - box.begin[0];
      if (r < 0 || r >= box.shape[0].size) return;
      for (const int32_t input : inputs) {
        const int64_t c = place.inputs + input - box.begin[1];
        if (c >= 0 && c < columns) output[r * columns + c] = 1.0F / static_cast<float>(inputs.size());
      }
    });
    for (const Side side : kSides) place[side] += rows_.length(side, piece);
  }
}

namespace {

/// The files of a source, and how their tokens are made.
struct TextsToOpen {
  TextFiles files;
  TokenizeOptions tokenizing;
  std::string cache;  ///< directory of the stores
  std::string key;    ///< token_store_key()
  std::function<void(const std::string&)> note;

  /// Later epochs are made while a run shows its own progress.
  void be_silent() {
    tokenizing.progress = {};
    note = {};
  }
};

TextsToOpen find_texts(const TextSourceOptions& options, const TextSettings& settings, const Mark& mark,
                       bool lines_apart = false) {
  std::vector<Problem> problems;
  TextFiles files = find_text_files(options, mark, problems, settings.limit);
  if (!problems.empty()) throw Error(std::move(problems));
  const std::string cache = settings.cache.empty() ? default_cache_directory() : settings.cache;
  TokenizeOptions tokenizing{settings.vocabularies, settings.lowercase, settings.threads, settings.progress,
                             lines_apart};
  std::string key = token_store_key(files, tokenizing, cache);
  return {std::move(files), std::move(tokenizing), cache, std::move(key), settings.note};
}

/// The texts of a source as tokens in the cache.
struct OpenedTokens {
  std::string key;
  TokenStore store;
};

OpenedTokens open_tokens(const TextsToOpen& texts, const TokenizeOptions& tokenizing) {
  return {stored_key(texts.key, tokenizing),
          open_token_store(texts.files, tokenizing, texts.key, texts.cache, texts.note)};
}

/// The key that draws the texts of source `name`, or of a part of its objective: each part draws its own.
PhiloxKey key_of_draws(const std::string& name, size_t part, uint64_t seed) {
  const std::string source = "data.sampling/" + name;
  return random_key(part == 0 ? source : fmt::format("{}/part {}", source, part), seed);
}

/// Returns the options of `texts` for an epoch.
TokenizeOptions options_of_epoch(const TextsToOpen& texts, int64_t epoch, const TextProgress& progress) {
  TokenizeOptions tokenizing = texts.tokenizing;
  tokenizing.progress = progress;
  if (tokenizing.sampling) tokenizing.sampling->epoch = epoch;
  return tokenizing;
}

/// Returns `data.sequence_length` with which no text of an evaluation is cut.
std::string length_without_cuts(const TokenStore& tokens, const RowRules& rules) {
  BySide<int64_t> longest = rules.row;
  for (const Side side : kSides) {
    if (rules.row[side] == 0) continue;
    for (int64_t i = 0; i < tokens.examples(); ++i) {
      const int64_t length = tokens.length(side, i);
      longest[side] = std::max(longest[side], rules.has_preferences ? 2 * length : length);
    }
  }
  if (longest.inputs == 0 || longest.targets == 0)
    return fmt::to_string(std::max(longest.inputs, longest.targets));
  return fmt::format("{{inputs: {}, targets: {}}}", longest.inputs, longest.targets);
}

/// Returns a line that says how many texts of an evaluation are cut, and what would take them whole.
std::string note_of_cuts(const std::string& name, const TextReport& report, const TokenStore& tokens) {
  return fmt::format(
      "{}{} of {} longer than {} cut off: losses are those of the beginnings; "
      "`data.sequence_length: {}` takes all whole",
      name.empty() ? "" : name + ": ", with_thousands(static_cast<double>(report.too_long)),
      counted(report.examples, "example"), report.rules.limit_text(),
      length_without_cuts(tokens, report.rules));
}

/// Makes the rows of a source without an objective.
struct TextRows {
  TextsToOpen texts;
  RowRules rules;
  std::vector<Feature> features;
  TextSettings settings;

  std::unique_ptr<TextSource> open(int64_t epoch, const TextProgress& progress) const {
    OpenedTokens tokens = open_tokens(texts, options_of_epoch(texts, epoch, progress));
    RowStore rows =
        open_row_store(tokens.store, tokens.key, rules, texts.files, texts.cache, progress, settings.note);
    note_cuts(tokens.store, rows.report());
    auto source = std::make_unique<TextSource>(features, std::move(tokens.store), std::move(rows), rules);
    if (settings.report && epoch == 0) {
      TextReport report = source->report();
      report.name = settings.name;
      settings.report(report);
    }
    return source;
  }
  /// Training has a report, which says what is cut.
  void note_cuts(const TokenStore& tokens, TextReport report) const {
    if (settings.purpose != TextPurpose::kEvaluation || !settings.note) return;
    if (report.too_long == 0 || rules.too_long != TooLong::kCut) return;
    report.rules = rules;
    settings.note(note_of_cuts(settings.name, report, tokens));
  }
  EpochRows operator()(int64_t epoch, const TextProgress& progress) const {
    std::unique_ptr<TextSource> source = open(epoch, progress);
    std::vector<std::string> stores = source->stores();
    const int64_t bytes = source->bytes_of_drawing(texts.tokenizing.threads);
    return {std::move(source), std::move(stores), bytes};
  }
};

TextRows text_rows(const TextSourceOptions& options, const TextSettings& settings, const Mark& mark) {
  check_settings(options, settings, mark);
  const RowRules rules = rules_for(options, settings, mark);
  const BySide<int64_t> sizes = sizes_of(settings.vocabularies, sides_in_rows(options));
  return {.texts = find_texts(options, settings, mark),
          .rules = rules,
          .features = text_features(options, rules.row, sizes, rules.packing),
          .settings = settings};
}

/// Returns what draws the tokens of a side. Throws Error (kConfig) for a vocabulary of another kind.
std::shared_ptr<const SubwordSampler> sampler_of(const Vocabulary& vocabulary,
                                                 const SubwordSampling& sampling, Side side,
                                                 const Mark& mark) {
  if (std::shared_ptr<const SubwordSampler> sampler = vocabulary.sampler(sampling)) return sampler;
  const SegmentationKind other =
      sampling.kind == SegmentationKind::kUnigram ? SegmentationKind::kMerges : SegmentationKind::kUnigram;
  const bool has_other = vocabulary.sampler({other, sampling.rate}) != nullptr;
  const SamplingRefusal refusal =
      refusal_of(side, sampling.kind, has_other ? std::optional(other) : std::nullopt);
  throw Error(ErrorKind::kConfig, mark, refusal.message, refusal.hint);
}

/// How the tokens of epoch 0 are drawn; nothing: they are not drawn.
std::optional<EpochSampling> first_sampling(const TextSourceOptions& options, const SourceContext& context) {
  if (!options.sampling) return std::nullopt;
  const TextSettings& settings = context.text;
  if (settings.purpose == TextPurpose::kEvaluation)
    throw Error(ErrorKind::kConfig, context.mark,
                "`sampling` draws the tokens of training texts, and these are none", "no `sampling` here");
  EpochSampling result;
  result.sampling = sampling_of(*options.sampling, sides_in_rows(options));
  result.key = key_of_draws(settings.name, 0, context.seed);
  for (const Side side : sides_in_rows(options)) {
    if (result.sampling[side])
      result.samplers[side] =
          sampler_of(*settings.vocabularies[side], *result.sampling[side], side, context.mark);
  }
  return result;
}

}  // namespace

std::unique_ptr<TextSource> make_text_source(const TextSourceOptions& options, const TextSettings& settings,
                                             const Mark& mark) {
  return text_rows(options, settings, mark).open(0, settings.progress);
}

std::unique_ptr<Source> TextSourceOptions::open(const SourceContext& context) const {
  const TextSettings& settings = context.text;
  check_settings(*this, settings, context.mark);
  std::optional<EpochSampling> drawn = first_sampling(*this, context);
  const std::optional<PhiloxKey> key = drawn ? std::optional(drawn->key) : std::nullopt;
  if (!objective) {
    const auto rows = std::make_shared<TextRows>(text_rows(*this, settings, context.mark));
    rows->texts.tokenizing.sampling = std::move(drawn);
    if (!key) return rows->open(0, settings.progress);
    const auto open_epoch = [rows](int64_t epoch, const TextProgress& progress) {
      return (*rows)(epoch, progress);
    };
    auto source = std::make_unique<EpochSource>(open_epoch, *key, settings.progress);
    rows->texts.be_silent();
    rows->settings.be_silent();
    return source;
  }
  const auto texts = std::make_shared<TextsToOpen>(
      find_texts(*this, settings, context.mark, (*objective)->lines_are_sentences()));
  texts->tokenizing.sampling = std::move(drawn);
  const Side side = sides_in_rows(*this).front();
  const auto key_of_part = [name = settings.name, seed = context.seed](size_t part) {
    return key_of_draws(name, part, seed);
  };
  const auto open_epoch = [texts, side, key_of_part](size_t part, int64_t epoch,
                                                     const TextProgress& progress) {
    TokenizeOptions tokenizing = options_of_epoch(*texts, epoch, progress);
    if (tokenizing.sampling) tokenizing.sampling->key = key_of_part(part);
    OpenedTokens tokens = open_tokens(*texts, tokenizing);
    return PieceTokens{.store = std::make_shared<const TokenStore>(std::move(tokens.store)),
                       .key = tokens.key,
                       .side = side,
                       .files = texts->files,
                       .cache = texts->cache};
  };
  ObjectiveTokens tokens{.open = open_epoch, .side = side, .threads = settings.threads};
  if (key) tokens.key_of_epochs = key_of_part;
  auto source = make_objective_source(**objective, tokens, settings, context.seed, context.mark);
  texts->be_silent();
  return source;
}

std::optional<std::vector<Feature>> TextSourceOptions::declared_features(const BySide<int64_t>& lengths,
                                                                         const BySide<int64_t>& sizes) const {
  if (!objective) return text_features(*this, lengths, sizes, Packing::kDense);  // the rows are not known
  return (*objective)->features((*objective)->row(lengths), sizes[sides_in_rows(*this).front()]);
}

}  // namespace mtf
