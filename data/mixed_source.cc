#include "data/mixed_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/base/check.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

constexpr int kShareBits = 53;

/// floor(row * share): rows that a share of the stream has had before `row`.
int64_t rows_before(int64_t row, uint64_t share) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(row) * share >> kShareBits);
}

}  // namespace

MixtureSchedule::MixtureSchedule(const std::vector<double>& weights) {
  double rest = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t k = 0; k + 1 < weights.size(); ++k) {
    MTF_CHECK(weights[k] > 0, "weight {}", weights[k]);
    shares_.push_back(static_cast<uint64_t>(std::ldexp(weights[k] / std::max(rest, weights[k]), kShareBits)));
    rest -= weights[k];
  }
}

/// The first source against all others, of whose rows the second has its share, and so on.
MixtureSchedule::Turn MixtureSchedule::turn(int64_t row) const {
  for (size_t k = 0; k < shares_.size(); ++k) {
    const int64_t before = rows_before(row, shares_[k]);
    if (rows_before(row + 1, shares_[k]) > before) return {static_cast<int64_t>(k), before};
    row -= before;
  }
  return {static_cast<int64_t>(shares_.size()), row};
}

std::vector<int64_t> MixtureSchedule::rows_of_each(int64_t rows) const {
  std::vector<int64_t> result;
  for (const uint64_t share : shares_) {
    result.push_back(rows_before(rows, share));
    rows -= result.back();
  }
  result.push_back(rows);
  return result;
}

MixedSource::MixedSource(std::vector<std::unique_ptr<Source>> sources, const std::vector<double>& weights)
    : sources_(std::move(sources)), first_({0}) {
  MTF_CHECK(!sources_.empty() && (weights.empty() || weights.size() == sources_.size()),
            "{} sources with {} weights", sources_.size(), weights.size());
  features_ = sources_[0]->features();
  for (const std::unique_ptr<Source>& source : sources_) {
    MTF_CHECK(source->features() == features(), "sources of different features");
    for (size_t i = 0; i < features_.size(); ++i)
      features_[i].one_text = features_[i].one_text && source->features()[i].one_text;
    first_.push_back(first_.back() + source->examples());
  }
  if (!weights.empty()) schedule_.emplace(weights);
}

template <class Read>
void MixedSource::for_each_row(std::span<const int64_t> rows, std::span<const FeatureSlice> slices,
                               const Read& read) const {
  constexpr size_t kMostFeatures = 16;
  const size_t count = features().size();
  MTF_CHECK(count <= kMostFeatures, "{} features", count);
  std::array<FeatureSlice, kMostFeatures> slice;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto after = std::ranges::upper_bound(first_, rows[i]);
    MTF_CHECK(rows[i] >= 0 && after != first_.end(), "row {} of {}", rows[i], examples());
    const int64_t row = rows[i] - *(after - 1);
    for (size_t f = 0; f < count; ++f)
      slice[f] = {slices[f].output + static_cast<int64_t>(i) * slices[f].bytes(features()[f]), slices[f].box};
    read(i, *sources_[after - 1 - first_.begin()], row, std::span(slice).first(count));
  }
}

void MixedSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  for_each_row(rows, slices, [](size_t, const Source& source, int64_t row, std::span<const FeatureSlice> to) {
    source.read({&row, 1}, to);
  });
}

void MixedSource::read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                                std::span<const FeatureSlice> slices) const {
  for_each_row(examples.first(examples.size() - 1), slices,
               [&](size_t i, const Source& source, int64_t row, std::span<const FeatureSlice> to) {
                 const std::array rows = {row, row}, times = {epochs[i], epochs[i]};
                 source.read_training(rows, times, to);
               });
}

int64_t MixedSource::stream_example(int64_t row, std::optional<uint64_t> seed) const {
  if (!schedule_) return Source::stream_example(row, seed);
  const MixtureSchedule::Turn turn = schedule_->turn(row);
  return first_[turn.source] + sources_[turn.source]->stream_example(turn.row, seed);
}

int64_t MixedSource::stream_epoch(int64_t row) const {
  if (!schedule_) return Source::stream_epoch(row);
  const MixtureSchedule::Turn turn = schedule_->turn(row);
  return sources_[turn.source]->stream_epoch(turn.row);
}

void MixedSource::begin_stream(std::optional<int64_t> end, const std::stop_token& stop) const {
  std::vector<int64_t> rows;
  if (end && schedule_) rows = schedule_->rows_of_each(*end);
  for (size_t i = 0; i < sources_.size(); ++i) {
    std::optional<int64_t> end_of_source;
    if (end && schedule_) end_of_source = rows[i];
    if (end && !schedule_) end_of_source = (*end + examples() - 1) / examples() * sources_[i]->examples();
    sources_[i]->begin_stream(end_of_source, stop);
  }
}

bool MixedSource::begins_made_epoch(int64_t row) const {
  if (schedule_) {
    const MixtureSchedule::Turn turn = schedule_->turn(row);
    return sources_[turn.source]->begins_made_epoch(turn.row);
  }
  return row % examples() == 0 && std::ranges::any_of(sources_, [](const std::unique_ptr<Source>& source) {
           return source->begins_made_epoch(0);
         });
}

int64_t MixedSource::bytes_of_making_epochs() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<Source>& source : sources_) bytes += source->bytes_of_making_epochs();
  return bytes;
}

uint64_t MixedSource::example_hash(int64_t example) const {
  const auto after = std::ranges::upper_bound(first_, example);
  return sources_[after - 1 - first_.begin()]->example_hash(example - *(after - 1));
}

std::string MixedSource::fingerprint() const {
  std::string text;
  for (const std::unique_ptr<Source>& source : sources_) text += source->fingerprint() + "\n";
  return hash128_hex(text);
}

int64_t MixedSource::bytes_in_memory() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<Source>& source : sources_) bytes += source->bytes_in_memory();
  return bytes;
}

void MixedSource::check_labels(const LabelRange& classes) const {
  for (const std::unique_ptr<Source>& source : sources_) source->check_labels(classes);
}

void MixedSource::check_aligned(const Mark& mark) const {
  for (const std::unique_ptr<Source>& source : sources_) source->check_aligned(mark);
}

}  // namespace mtf
