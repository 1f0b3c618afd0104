// Feeds texts that are there already to the model, and keeps what it gives each of their tokens: the log-probability, and
// how much it is made of each token of the input.
//
//   Scorer scorer(session, weights, ensemble, {.alignments = true});
//   scorer.score(texts);
//   texts[0].log_probs
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/runtime/executor.h"
#include "trainer/decode/ensemble.h"
#include "trainer/decode/programs.h"
#include "trainer/session/session.h"

namespace mtf {

/// A text to be scored: its tokens from `first` on.
struct ScoredText {
  std::vector<int32_t> inputs;   ///< tokens of the encoder
  std::vector<int32_t> targets;  ///< tokens with the end-of-sequence token
  size_t first = 0;              ///< the index of the first token after the prompt
  std::vector<float> log_probs = {};
  std::vector<float> alignment = {};  ///< [targets, inputs]: ModelOutput::alignment

  double log_prob() const {
    double sum = 0;
    for (const float x : log_probs) sum += x;
    return sum;
  }
};

/// What is set of the texts.
struct ScoredValues {
  bool log_probs = true, alignments = false;
};

class Scorer {
 public:
  /// `session` and `weights` must outlive the object. An ensemble's alignment is the weighted mean of its members'.
  Scorer(const Session& session, VariableStore& weights, const Ensemble& ensemble,
         const ScoredValues& values = {})
      : session_(session),
        weights_(weights),
        environment_(decode_environment(session, ensemble, true)),
        values_(values) {}
  Scorer(const Scorer&) = delete;

  /// Sets the values of all texts. Texts of similar lengths share a batch. Throws Error (kConfig) for alignments that no
  /// attention of the model tells.
  void score(std::vector<ScoredText>& texts);

 private:
  void score_batch(std::span<ScoredText*> texts);
  Executor& program(int64_t rows, int64_t input_length, int64_t length);
  void build(Graph& graph, int64_t rows, int64_t input_length, int64_t length) const;

  const Session& session_;
  VariableStore& weights_;
  DecodeEnvironment environment_;
  ScoredValues values_;
  std::map<std::array<int64_t, 3>, std::unique_ptr<Executor>> programs_;
};

}  // namespace mtf
