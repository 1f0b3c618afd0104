// Which tokens of a text span corruption takes out, and what becomes of the text.
// Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020, §3.1.4, and the
// program of the same authors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/draws.h"

namespace mtf {

struct SpanNoise {
  double density = 0.15;  ///< share of the tokens that are taken out
  double mean_span = 3;   ///< tokens of a span, on average
};

/// Numbers of tokens, ends of sequence included but in `text`.
struct SpanLengths {
  int64_t text, inputs, targets;
};

/// Returns the longest text of which `inputs` tokens of inputs are made, and what is made of it. Of text of t tokens
/// a = round(density t) in s = round(a / mean_span) spans are taken out, so that there are t - a + s + 1 inputs and
/// a + s + 1 targets. Where half of the tokens are noise and there would be one more target than inputs, the text is one
/// token shorter.
SpanLengths span_lengths(int64_t inputs, const SpanNoise& noise);

/// What is taken out of a text of `tokens` tokens.
struct SpanCounts {
  int64_t noise;  ///< tokens
  int64_t spans;
};
SpanCounts span_counts(int64_t tokens, const SpanNoise& noise);

/// What is made of it, ends of sequence included.
SpanLengths corrupted_lengths(int64_t tokens, const SpanNoise& noise);

/// 1 for each token that is taken out. Noise and the rest are partitioned into spans, all partitions being equally likely;
/// the text begins with a span of the rest and ends with noise. A single token stays.
std::vector<uint8_t> span_mask(int64_t tokens, const SpanNoise& noise, Draws& draws);

/// Returns the tokens that are not `masked`, where run i of masked ones becomes the id sentinel - i.
std::vector<int32_t> without_runs(std::span<const int32_t> tokens, const std::vector<uint8_t>& mask,
                                  bool masked, int32_t sentinel);

}  // namespace mtf
