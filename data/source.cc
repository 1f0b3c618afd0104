#include "data/source.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "data/permutation.h"
#include "engine/base/check.h"
#include "engine/base/hash.h"

namespace mtf {

Box Box::whole(const Shape& shape) {
  return {std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0), shape};
}

std::byte* copy_box(const Feature& feature, const Box* box, const std::byte* value, std::byte* output) {
  const auto width = static_cast<int64_t>(size_of(feature.dtype));
  for_each_run(feature.shape, box, [&](int64_t first, int64_t count) {
    std::memcpy(output, value + first * width, static_cast<size_t>(count * width));
    output += count * width;
  });
  return output;
}

int64_t Source::stream_example(int64_t row, std::optional<uint64_t> seed) const {
  const int64_t offset = row % examples(), epoch = row / examples();
  if (!seed) return offset;
  // Rows that are read one after the other are mostly of one epoch.
  thread_local std::optional<Permutation> order;
  if (!order || !order->is_of(examples(), *seed, epoch)) order.emplace(examples(), *seed, epoch);
  return (*order)(offset);
}

void Source::read_training(std::span<const int64_t> examples, std::span<const int64_t>,
                           std::span<const FeatureSlice> slices) const {
  read(examples.first(examples.size() - 1), slices);
}

uint64_t Source::example_hash(int64_t example) const {
  std::vector<std::vector<std::byte>> values;
  std::vector<FeatureSlice> slices;
  for (const Feature& feature : features())
    slices.push_back({values.emplace_back(static_cast<size_t>(feature.bytes())).data()});
  read({&example, 1}, slices);
  uint64_t hash = 0;
  for (const std::vector<std::byte>& value : values)
    hash = hash64({reinterpret_cast<const char*>(value.data()), value.size()}, hash);
  return hash;
}

std::string Source::fingerprint() const {
  constexpr int64_t kMostBytes = int64_t{64} << 20, kAtOnce = int64_t{1} << 20;
  std::vector<FeatureSlice> slices;
  int64_t bytes = 0;
  for (size_t f = 0; f < features().size(); ++f)
    bytes +=
        slices.emplace_back(FeatureSlice{.output = nullptr, .in_bytes = has_bytes(f)}).bytes(features()[f]);
  const int64_t all = examples(), fitting = kMostBytes / bytes;
  const int64_t count = std::min(all, fitting >= all ? all : std::clamp<int64_t>(fitting, 16, 1024));
  const int64_t at_once = std::clamp<int64_t>(kAtOnce / bytes, 1, count);
  std::vector<std::vector<std::byte>> values;
  for (size_t f = 0; f < slices.size(); ++f) {
    values.emplace_back(static_cast<size_t>(at_once * slices[f].bytes(features()[f])));
    slices[f].output = values[f].data();
  }
  Hash128 hash;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(i * all / count);
    if (std::ssize(rows) < at_once && i + 1 < count) continue;
    read(rows, slices);
    for (size_t f = 0; f < slices.size(); ++f)
      hash.add(std::span(values[f]).first(rows.size() * static_cast<size_t>(slices[f].bytes(features()[f]))));
    rows.clear();
  }
  return hash.hex();
}

void Source::check_labels(const LabelRange&) const {}

void Source::check_aligned(const Mark&) const {}

MemorySource::MemorySource(std::vector<Feature> features, std::vector<std::vector<std::byte>> values)
    : features_(std::move(features)), values_(std::move(values)) {
  MTF_CHECK(!features_.empty() && features_.size() == values_.size(), "{} features, values of {}",
            features_.size(), values_.size());
  examples_ = static_cast<int64_t>(values_[0].size()) / features_[0].bytes();
  MTF_CHECK(examples_ >= 1, "no examples");
  for (size_t f = 0; f < features_.size(); ++f) {
    MTF_CHECK(static_cast<int64_t>(values_[f].size()) == examples_ * features_[f].bytes(),
              "feature {} has {} bytes for {} examples", features_[f].name, values_[f].size(), examples_);
  }
}

void MemorySource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  for (size_t f = 0; f < features_.size(); ++f) {
    const int64_t bytes = features_[f].bytes();
    std::byte* output = slices[f].output;
    for (const int64_t row : rows) {
      MTF_CHECK(row >= 0 && row < examples_, "row {} of {}", row, examples_);
      output = copy_box(features_[f], slices[f].box, values_[f].data() + row * bytes, output);
    }
  }
}

int64_t MemorySource::bytes_in_memory() const {
  int64_t bytes = 0;
  for (const std::vector<std::byte>& values : values_) bytes += static_cast<int64_t>(values.size());
  return bytes;
}

void DeclaredSource::read(std::span<const int64_t>, std::span<const FeatureSlice>) const {
  MTF_CHECK(false, "a source without examples is read");
}

}  // namespace mtf
