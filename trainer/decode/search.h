// Beam search and sampling for one text, on the host. Each step takes the model's candidates for each
// hypothesis and returns the tokens to be read next and the hypotheses that they continue.
//
//   BeamSearch search({.beam = 4, .length_penalty = 0.6, .limit = 60});
//   search.advance(candidates);                   // after the prefix there is only hypothesis 0
//   while (!search.done()) { read(search.tokens(), search.parents()); search.advance(candidates); }
//   search.results()[0].tokens                    // the best text, with its end-of-sequence token
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/random.h"
#include "trainer/decode/text_rules.h"

namespace mtf {

/// A generated text.
struct Hypothesis {
  std::vector<int32_t> tokens;   ///< with the end-of-sequence token, if it was generated
  std::vector<float> log_probs;  ///< [tokens]
  double log_prob = 0;           ///< their sum
  double score =
      0;  ///< what hypotheses are ranked by: log_prob (BeamSearch: with penalties) / length penalty
};

/// The most likely next tokens of each hypothesis, best first, or all tokens.
struct Candidates {
  int64_t each = 0;                      ///< number of candidates per hypothesis
  std::span<const float> log_probs;      ///< [hypotheses, each]; -infinity: no candidate
  std::span<const int32_t> tokens;       ///< [hypotheses, each]; empty: 0 ... each - 1
  std::span<const float> of_model = {};  ///< log_probs without penalties; empty: log_probs
};

/// Returns ((plus + length) / (plus + 1))^alpha: with 5 eq. 14 of Wu et al., Google's Neural Machine Translation System, 2016.
double length_penalty(int64_t length, double alpha, double plus = 5);

struct BeamOptions {
  int64_t beam = 4;
  double length_penalty = 0.6;          ///< alpha
  double length_plus = 5;               ///< LengthPenalty::plus
  int64_t limit = 1;                    ///< maximum number of tokens, including the end-of-sequence token
  int64_t results = 1;                  ///< number of best texts that results() returns
  const TextRules* rules = nullptr;     ///< say where a text stops; null: only its end does
  std::span<const int32_t> given = {};  ///< the tokens before those that are written
};

/// Beam search. Each step keeps the `beam` best unfinished and the `beam` best finished texts. The search
/// ends when no unfinished text can become one of the results. Among equal candidates the lower hypothesis
/// wins, then the lower token.
class BeamSearch {
 public:
  explicit BeamSearch(const BeamOptions& options);

  /// Returns the bytes that the search of a text of `tokens` tokens keeps, where `ends` tokens end texts, and those that a step
  /// takes besides, with `each` candidates for each of `beam` hypotheses.
  static int64_t bytes(int64_t beam, int64_t tokens, int64_t ends = 1);
  static int64_t step_bytes(int64_t beam, int64_t each);

  /// Takes at least the best 2 * beam candidates for each hypothesis (one beam more for each further token with which texts end),
  /// or the whole vocabulary if it is smaller. If none of them can be, the search ends.
  void advance(const Candidates& candidates);
  bool done() const { return done_; }
  /// The places of the unfinished hypotheses, the best one's first, and the tokens of the i-th of them.
  const std::vector<int32_t>& places() const { return places_; }
  std::vector<int32_t> text(size_t i) const { return tokens_to(alive_[i].last); }
  /// The next token of each hypothesis, at most `beam`, and the previous hypothesis that it continues. One of those that continue
  /// a hypothesis has its place, so that its cache does not move. Where there are fewer hypotheses than places the
  /// token is padding.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int32_t>& parents() const { return parents_; }
  /// By place: how many of the last tokens that the hypothesis continues are not those that were read in its place.
  const std::vector<int32_t>& moved() const { return moved_; }
  /// How many of the last tokens that hypotheses continue are then not the same in all places.
  int32_t apart() const {
    return common_.empty() ? 0 : static_cast<int32_t>(length_ - 1) - std::ranges::min(common_);
  }
  /// Returns at most `results` texts: the finished ones, best first, and if they are too few, then the best
  /// unfinished ones.
  std::vector<Hypothesis> results() const;

 private:
  /// A token of texts that share all tokens up to it.
  struct Node {
    int32_t previous, token;  ///< index of the token before it; -1: none
    float log_prob;
  };
  struct Unfinished {
    int32_t last = -1;    ///< index of its last token
    double log_prob = 0;  ///< with penalties
  };

  /// The tokens of the text that ends at a node.
  std::vector<int32_t> tokens_to(int32_t node) const;
  /// True if the text that ends at the newest node is one that stops.
  bool stops() const;
  Hypothesis hypothesis(const Unfinished& text) const;
  double penalty_of(int64_t length) const {
    return length_penalty(length, options_.length_penalty, options_.length_plus);
  }
  bool cannot_improve() const;
  /// True if only the end of sequence may follow.
  bool must_end() const;
  /// Ends all unfinished texts with it, at no cost.
  void end_all();
  /// Keeps the best finished texts.
  void rank_finished();
  /// Gives each unfinished hypothesis a place; `parents` are those of the ones that they continue.
  void place(const std::vector<int32_t>& parents);
  /// By place: how many tokens, from the first on, were read in both it and `place`.
  std::vector<int32_t> common_with(int32_t place) const;
  /// Sets what places have in common when they have taken over the tokens of their parents.
  void take_over();

  BeamOptions options_;
  std::vector<Node> nodes_;
  std::vector<Unfinished> alive_;     ///< best first
  std::vector<Hypothesis> finished_;  ///< best first
  std::vector<int32_t> places_{0};    ///< where those of alive_ are
  std::vector<int32_t> tokens_, parents_, moved_;
  /// All places, as the leaves of a tree: those that have many tokens in common are beside each other.
  std::vector<int32_t> order_;
  /// How many tokens, from the first on, were read in the places at i and i + 1 of order_. Two other places have the least of
  /// the numbers between them in common.
  std::vector<int32_t> common_;
  int64_t length_ = 0;  ///< number of tokens so far
  bool done_ = false;
};

/// The token that a step draws for a hypothesis.
struct Draw {
  int32_t token = 0;
  float log_prob = 0;
};

/// Sampling: the hypotheses are continued independently until each has ended.
class SampleSearch {
 public:
  /// `rules` say where a text stops; null: only its end does. `given`: the tokens before those that are written.
  SampleSearch(int64_t samples, int64_t limit, const TextRules* rules = nullptr,
               std::span<const int32_t> given = {});

  /// Takes one draw for each hypothesis. Draws of hypotheses that have ended are ignored.
  void advance(std::span<const Draw> draws);
  bool done() const;
  /// [samples]: the next token of each hypothesis; 0 if it has ended.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// The tokens of a hypothesis so far.
  const std::vector<int32_t>& text(int64_t sample) const {
    return hypotheses_[static_cast<size_t>(sample)].tokens;
  }
  std::vector<Hypothesis> results() const { return hypotheses_; }

 private:
  bool ends(const std::vector<int32_t>& tokens) const;
  /// True if only the end of sequence may follow.
  bool must_end(const std::vector<int32_t>& tokens) const;
  void take(size_t sample, const Draw& draw);

  int64_t limit_;
  const TextRules* rules_;
  std::span<const int32_t> given_;
  std::vector<char> ended_;  ///< [samples]
  std::vector<Hypothesis> hypotheses_;
  std::vector<int32_t> tokens_;
};

struct SampleOptions {
  double temperature = 1;  ///< 0: always the most likely token
  int64_t top_k = 0;       ///< draws from the top_k most likely tokens; 0: from all
  double top_p = 1;        ///< draws from the smallest set of most likely tokens with this total probability
  double min_p = 0;        ///< draws from tokens at least so many times as likely as the most likely one
};

/// Draws a token for one hypothesis from softmax(log_probs / temperature), restricted to the candidates that `options` allow;
/// those of log-probability -infinity are never drawn. The result's log_prob is that of the candidate, without temperature. The
/// draw of a token t is determined by `key`, `position` and `first` + t.
Draw draw_token(const Candidates& candidates, const SampleOptions& options, PhiloxKey key, uint64_t position,
                uint64_t first);

}  // namespace mtf
