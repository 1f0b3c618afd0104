// Which tokens a text goes on with: beam search and sampling of one text, on the host. The model's answers
// come in as candidates for each hypothesis; tokens to be read next, and the hypotheses that they continue,
// go out.
//
//   BeamSearch search({.beam = 4, .length_penalty = 0.6, .limit = 60});
//   search.advance(candidates);                   // those behind the prefix: hypothesis 0 alone counts
//   while (!search.done()) { read(search.tokens(), search.parents()); search.advance(candidates); }
//   search.results()[0].tokens                    // the best text, its end of sequence included
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/random.h"

namespace mtf {

/// A text that was written.
struct Hypothesis {
  std::vector<int32_t> tokens;   ///< with the end of sequence, if it was reached
  std::vector<float> log_probs;  ///< of each token
  double log_prob = 0;           ///< their sum
  double score = 0;              ///< what hypotheses are ranked by: log_prob / length penalty
};

/// The likeliest next tokens of each hypothesis.
struct Candidates {
  int64_t each = 0;                  ///< for a hypothesis
  std::span<const float> log_probs;  ///< [hypotheses, each], the best first; -infinity: none
  std::span<const int32_t> tokens;   ///< [hypotheses, each]
};

/// ((5 + length) / 6)^alpha. Wu et al., Google's Neural Machine Translation System, 2016, eq. 14.
double length_penalty(int64_t length, double alpha);

struct BeamOptions {
  int64_t beam = 4;
  double length_penalty = 0.6;  ///< alpha
  int64_t limit = 1;            ///< tokens at most, the end of sequence included
  int64_t results = 1;          ///< so many of the best texts are asked for
};

/// A step keeps the `beam` best texts that go on and the `beam` best that have ended. The search is over when
/// no text that goes on can become one of the results. Of equal candidates the lower hypothesis, then the
/// lower token wins.
class BeamSearch {
 public:
  explicit BeamSearch(const BeamOptions& options);

  /// candidates: 2 beam for each of the hypotheses (or the whole vocabulary, where it is smaller).
  void advance(const Candidates& candidates);
  bool done() const { return done_; }
  /// [beam]: what each hypothesis reads next, and which of those before it continues.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int32_t>& parents() const { return parents_; }
  /// The best first, `results` of them: those that have ended, and behind them where they are too few the
  /// best of those that have not.
  std::vector<Hypothesis> results() const;

 private:
  bool cannot_improve() const;

  BeamOptions options_;
  std::vector<Hypothesis> alive_, finished_;
  std::vector<int32_t> tokens_, parents_;
  int64_t length_ = 0;  ///< tokens so far
  bool done_ = false;
};

/// What a step draws for a hypothesis.
struct Draw {
  int32_t token = 0;
  float log_prob = 0;
};

/// Hypotheses that go on independently of each other until each has ended.
class SampleSearch {
 public:
  SampleSearch(int64_t samples, int64_t limit);

  /// draws: one for each hypothesis; those of hypotheses that have ended do not count.
  void advance(std::span<const Draw> draws);
  bool done() const;
  /// [samples]: what each reads next; 0 where it has ended.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  std::vector<Hypothesis> results() const { return hypotheses_; }

 private:
  bool ended(const Hypothesis& hypothesis) const;

  int64_t limit_;
  std::vector<Hypothesis> hypotheses_;
  std::vector<int32_t> tokens_;
};

struct SampleOptions {
  double temperature = 1;  ///< 0: the likeliest token
  int64_t top_k = 0;       ///< only so many of the likeliest tokens; 0: all
  double top_p = 1;        ///< only the likeliest tokens that have this probability together
};

/// A token drawn from softmax(log_probs / temperature), of those that the `options` allow; its log_prob is
/// that of log_probs. -infinity: none. `element`: makes the draws of different texts differ; with `position`
/// and the key it determines the draw.
Draw draw_token(std::span<const float> log_probs, const SampleOptions& options, PhiloxKey key,
                uint64_t position, uint64_t element);

}  // namespace mtf
