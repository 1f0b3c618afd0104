#include "data/text/objectives/span_noise.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mtf {
namespace {

/// What a text of t tokens becomes, computed in double as where the lengths of rows are chosen.
SpanLengths lengths_of(int64_t text, const SpanNoise& noise) {
  const double taken = std::nearbyint(noise.density * static_cast<double>(text));
  const auto spans = static_cast<int64_t>(std::nearbyint(taken / noise.mean_span));
  const auto tokens = static_cast<int64_t>(taken);
  return {text, text - tokens + spans + 1, tokens + spans + 1};
}

/// The first entry of each of `parts` parts of `size` entries is 1: those after the parts - 1 cut points with the smallest
/// random keys.
std::vector<uint8_t> partition(int64_t size, int64_t parts, Draws& draws) {
  std::vector<std::pair<uint32_t, int64_t>> keys;
  for (int64_t cut = 1; cut < size; ++cut) keys.emplace_back(draws.bits(), cut);
  std::ranges::nth_element(keys, keys.begin() + (parts - 1));
  std::vector<uint8_t> begins(static_cast<size_t>(size), 0);
  begins[0] = 1;
  for (int64_t i = 0; i < parts - 1; ++i)
    begins[static_cast<size_t>(keys[static_cast<size_t>(i)].second)] = 1;
  return begins;
}

/// Appends entries of value `masked` from `next` up to the beginning of the next part.
void append_part(const std::vector<uint8_t>& begins, size_t& next, bool masked, std::vector<uint8_t>& mask) {
  do {
    mask.push_back(masked);
    ++next;
  } while (next < begins.size() && begins[next] == 0);
}

}  // namespace

SpanLengths span_lengths(int64_t inputs, const SpanNoise& noise) {
  SpanLengths lengths = lengths_of(std::max<int64_t>(inputs - 1, 0), noise);
  while (true) {
    const SpanLengths longer = lengths_of(lengths.text + 1, noise);
    if (longer.inputs > inputs) break;
    lengths = longer;
  }
  if (noise.density == 0.5 && lengths.targets > lengths.inputs) {
    --lengths.text;
    --lengths.targets;
  }
  return lengths;
}

/// In float32, as where masks are drawn. There are no more spans than either kind of token, of which each span has one.
SpanCounts span_counts(int64_t tokens, const SpanNoise& noise) {
  const int64_t length = std::max<int64_t>(tokens, 2);
  const float taken = std::nearbyint(static_cast<float>(length) * static_cast<float>(noise.density));
  const int64_t count = std::clamp<int64_t>(static_cast<int64_t>(taken), 1, length - 1);
  const float spans = std::nearbyint(static_cast<float>(count) / static_cast<float>(noise.mean_span));
  return {count, std::min({std::max<int64_t>(static_cast<int64_t>(spans), 1), count, length - count})};
}

SpanLengths corrupted_lengths(int64_t tokens, const SpanNoise& noise) {
  if (tokens < 2) return {tokens, tokens + 1, tokens + 1};
  const SpanCounts counts = span_counts(tokens, noise);
  return {tokens, tokens - counts.noise + counts.spans + 1, counts.noise + counts.spans + 1};
}

std::vector<uint8_t> span_mask(int64_t tokens, const SpanNoise& noise, Draws& draws) {
  const SpanCounts counts = span_counts(tokens, noise);
  const int64_t length = std::max<int64_t>(tokens, 2);
  const std::vector<uint8_t> taken = partition(counts.noise, counts.spans, draws);
  const std::vector<uint8_t> kept = partition(length - counts.noise, counts.spans, draws);
  std::vector<uint8_t> mask;
  size_t next_kept = 0, next_taken = 0;
  for (int64_t span = 0; span < counts.spans; ++span) {
    append_part(kept, next_kept, false, mask);
    append_part(taken, next_taken, true, mask);
  }
  mask.resize(static_cast<size_t>(tokens));
  return mask;
}

std::vector<int32_t> without_runs(std::span<const int32_t> tokens, const std::vector<uint8_t>& mask,
                                  bool masked, int32_t sentinel) {
  std::vector<int32_t> result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool goes = (mask[i] != 0) == masked;
    if (!goes) {
      result.push_back(tokens[i]);
    } else if (i == 0 || mask[i] != mask[i - 1]) {
      result.push_back(sentinel--);
    }
  }
  return result;
}

}  // namespace mtf
