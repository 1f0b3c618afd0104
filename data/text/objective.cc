#include "data/text/objective.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/mixed_source.h"
#include "data/text/drawing_memory.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/base/check.h"
#include "engine/base/placed_at.h"

namespace mtf {

void append_side(ObjectiveRow& row, size_t first, std::span<const int32_t> ids) {
  std::vector<int32_t>&values = row[first], &segments = row[first + 1], &positions = row[first + 2];
  const int32_t segment = segments.empty() ? 1 : segments.back() + 1;
  values.insert(values.end(), ids.begin(), ids.end());
  segments.resize(values.size(), segment);
  for (int32_t position = 0; positions.size() < values.size(); ++position) positions.push_back(position);
}

ObjectiveSource::ObjectiveSource(std::vector<Feature> features, std::shared_ptr<const Objective> objective,
                                 PieceStore pieces, PhiloxKey key)
    : features_(std::move(features)),
      objective_(std::move(objective)),
      pieces_(std::move(pieces)),
      key_(key) {}

void ObjectiveSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  read_rows(rows, std::vector<int64_t>(rows.size()), slices);
}

void ObjectiveSource::read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                                    std::span<const FeatureSlice> slices) const {
  read_rows(examples.first(examples.size() - 1), epochs, slices);
}

std::string ObjectiveSource::fingerprint() const {
  return std::filesystem::path(pieces_.path()).stem().string();
}

void ObjectiveSource::read_rows(std::span<const int64_t> rows, std::span<const int64_t> epochs,
                                std::span<const FeatureSlice> slices) const {
  ObjectiveRow values(features_.size());
  std::vector<std::byte*> outputs;
  for (const FeatureSlice& slice : slices) outputs.push_back(slice.output);
  for (size_t i = 0; i < rows.size(); ++i) {
    MTF_CHECK(rows[i] >= 0 && rows[i] < examples(), "row {} of {}", rows[i], examples());
    make_row(rows[i], epochs[i], values);
    for (size_t f = 0; f < features_.size(); ++f) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(values[f].data());
      outputs[f] = copy_box(features_[f], slices[f].box, bytes, outputs[f]);
    }
  }
}

void ObjectiveSource::make_row(int64_t row, int64_t epoch, ObjectiveRow& values) const {
  for (std::vector<int32_t>& entries : values) entries.clear();
  for (int64_t piece = pieces_.first(row); piece < pieces_.first(row + 1); ++piece) {
    Draws draws(key_, piece, epoch);
    objective_->append(pieces_, piece, draws, values);
  }
  for (size_t f = 0; f < features_.size(); ++f) {
    const auto entries = static_cast<size_t>(features_[f].shape.size());
    MTF_CHECK(values[f].size() <= entries, "{} entries of feature {} {}", values[f].size(), features_[f].name,
              features_[f].shape.to_string());
    values[f].resize(entries);
  }
}

namespace {

/// Makes the rows of one objective.
struct ObjectiveRows {
  ObjectiveTokens tokens;
  size_t part;
  std::shared_ptr<const Objective> objective;
  std::vector<Feature> features;
  PhiloxKey key;
  TextSettings settings;

  EpochRows operator()(int64_t epoch, const TextProgress& progress) const {
    const PieceTokens of_epoch = tokens.open(part, epoch, progress);
    const PiecePacking packing{.packing = objective->shares_rows() ? settings.packing : Packing::kNone,
                               .row = objective->capacity(),
                               .room = [this](int64_t length) { return objective->room(length); }};
    PieceStore pieces = open_piece_store(of_epoch, objective->pieces(), packing, progress, settings.note);
    objective->check(pieces);
    if (settings.report && epoch == 0) {
      TextReport report = pieces.report();
      report.name = settings.name;
      report.rules = {.row = packing.row, .limit = packing.row, .packing = packing.packing};
      settings.report(report);
    }
    std::vector<std::string> stores = {of_epoch.store->path(), pieces.path()};
    const int64_t bytes = bytes_of_drawing_texts(tokens.threads, *of_epoch.store, pieces.pieces());
    return {std::make_unique<ObjectiveSource>(features, objective, std::move(pieces), key), std::move(stores),
            bytes};
  }
};

}  // namespace

std::unique_ptr<Source> make_objective_source(const ObjectiveOptions& options, const ObjectiveTokens& tokens,
                                              const TextSettings& settings, uint64_t seed, const Mark& mark) {
  const std::shared_ptr<const Vocabulary>& vocabulary = settings.vocabularies[tokens.side];
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<double> weights;
  try {
    const BySide<int64_t> row = options.row(settings.lengths);
    for (WeightedObjective& part : options.make(row, vocabulary)) {
      const auto rows = std::make_shared<ObjectiveRows>(
          ObjectiveRows{.tokens = tokens,
                        .part = sources.size(),
                        .objective = std::move(part.objective),
                        .features = options.features(row, vocabulary->size()),
                        .key = random_key(fmt::format("data.objective/{}", sources.size()), seed),
                        .settings = settings});
      weights.push_back(part.weight);
      if (!tokens.key_of_epochs) {
        sources.push_back((*rows)(0, settings.progress).source);
        continue;
      }
      const auto open_epoch = [rows](int64_t epoch, const TextProgress& progress) {
        return (*rows)(epoch, progress);
      };
      sources.push_back(
          std::make_unique<EpochSource>(open_epoch, tokens.key_of_epochs(rows->part), settings.progress));
      rows->settings.be_silent();
    }
  } catch (const Error& error) {
    throw placed_at(error, mark);
  }
  if (sources.size() == 1) return std::move(sources.front());
  if (settings.purpose == TextPurpose::kEvaluation) weights.clear();
  return std::make_unique<MixedSource>(std::move(sources), weights);
}

}  // namespace mtf
