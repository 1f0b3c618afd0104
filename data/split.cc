#include "data/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

/// A number in [0, 1) that the hash determines.
double fraction_of(uint64_t hash) {
  std::array<char, sizeof(hash)> bytes;
  std::memcpy(bytes.data(), &hash, sizeof(hash));
  const uint64_t mixed = hash64({bytes.data(), bytes.size()}, hash64("data/split"));
  return static_cast<double>(mixed >> 11) * 0x1p-53;
}

}  // namespace

SplitRule::SplitRule(const config::Named<double>& shares) {
  double end = 0;
  for (const auto& [name, share] : shares) {
    names_.push_back(name);
    ends_.push_back(end += share);
  }
}

std::optional<size_t> SplitRule::part_of(uint64_t hash) const {
  const double fraction = fraction_of(hash);
  const auto part = std::ranges::upper_bound(ends_, fraction);
  if (part == ends_.end()) return std::nullopt;
  return static_cast<size_t>(part - ends_.begin());
}

SourceSubset::SourceSubset(std::shared_ptr<const Source> source, std::vector<int64_t> examples)
    : source_(std::move(source)), examples_(std::move(examples)) {
  MTF_CHECK(!examples_.empty(), "no examples");
}

void SourceSubset::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  thread_local std::vector<int64_t> indices;  // kept: it has one size, batch after batch
  indices.clear();
  for (const int64_t row : rows) {
    MTF_CHECK(row >= 0 && row < examples(), "row {} of {}", row, examples());
    indices.push_back(examples_[static_cast<size_t>(row)]);
  }
  source_->read(indices, slices);
}

std::string SourceSubset::fingerprint() const {
  return hash128_hex(source_->fingerprint() + hash128_hex(std::as_bytes(std::span(examples_))));
}

SplitSource split_source(std::unique_ptr<Source> source, const SplitRule& rule, const Mark& mark) {
  if (rule.empty()) return {std::move(source), {}};
  const std::shared_ptr<const Source> whole = std::move(source);
  std::vector<int64_t> train;
  std::vector<std::vector<int64_t>> parts(rule.names().size());
  for (int64_t example = 0; example < whole->examples(); ++example) {
    const std::optional<size_t> part = rule.part_of(whole->example_hash(example));
    (part ? parts[*part] : train).push_back(example);
  }
  const auto refuse = [&](const std::string& what) {
    throw Error(
        ErrorKind::kData, mark,
        fmt::format("`data.split` leaves none of {} for {}", counted(whole->examples(), "example"), what),
        "more examples, or other shares");
  };
  if (train.empty()) refuse("training");
  SplitSource result;
  result.train = std::make_unique<SourceSubset>(whole, std::move(train));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) refuse(fmt::format("`{}`", rule.names()[i]));
    auto part = std::make_unique<SourceSubset>(whole, std::move(parts[i]));
    part->leave_memory_to_others();
    result.parts.push_back(std::move(part));
  }
  return result;
}

}  // namespace mtf
