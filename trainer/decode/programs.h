// The two programs of decoding for given sizes, and their caches.
//
//   DecodeStage stage(environment, sizes, kind);
//   stage.prefill().feed(...); stage.prefill().run(0);    // fills the caches
//   stage.step().feed(...); stage.step().run(0);          // one token of each hypothesis
#pragma once

#include <compare>
#include <memory>
#include <span>

#include "engine/runtime/executor.h"
#include "models/text_decoder.h"
#include "trainer/session.h"

namespace mtf {

/// What the programs answer.
enum class DecodeAnswer {
  kCandidates,  ///< log_probs (float32) and tokens (int32) [batch, (beam,) candidates], the best first
  kLogProbs,    ///< log_probs (float32) [batch, (beam,) vocab]; -infinity behind the vocabulary
};

struct DecodePlan {
  DecodeSizes sizes;
  DecodeAnswer answer = DecodeAnswer::kCandidates;
  int64_t candidates = 1;
  bool reorders = false;  ///< hypotheses continue others than themselves: the step has `parent`

  auto key() const {
    return std::tuple(sizes.texts, sizes.beam, sizes.inputs, sizes.prefix, sizes.memory, answer, candidates);
  }
};

/// What all programs of a run have in common.
struct DecodeEnvironment {
  const Session& session;
  const TextDecoder& decoder;
  VariableStore* weights;  ///< shared with the programs
  Layouts layouts;         ///< those of the session without what programs of all sizes cannot keep
};

/// Without weights (null) programs can be made, and not be run.
DecodeEnvironment decode_environment(const Session& session, VariableStore* weights);

/// The weights of the model under the layouts of the session, for a run that only decodes. Throws Error
/// (kConfig) where the layout does not fit the model.
std::unique_ptr<VariableStore> make_weights(const Session& session);

/// The context of a graph that works on so many texts.
std::unique_ptr<Context> make_context(Graph& graph, const DecodeEnvironment& environment, int64_t texts);
/// Throws Error (kConfig) where the layout does not fit.
Program compiled(const DecodeEnvironment& environment, const Graph& graph);

/// The sizes that programs are made for. 16, 24, 32, 48, 64, ...: the first that is not below `n`; at most
/// `longest`, if `n` is not above it.
int64_t length_bucket(int64_t n, std::optional<int64_t> longest);
/// A power of two for each of the parts into which the layout cuts texts.
int64_t text_bucket(int64_t n, const DecodeEnvironment& environment);

/// Throw Error (kConfig) where the layout does not fit the model.
Program prefill_program(const DecodeEnvironment& environment, const DecodePlan& plan);
Program step_program(const DecodeEnvironment& environment, const DecodePlan& plan);
/// What a program takes of this process's memory beside variables, and what its caches take.
int64_t program_bytes(const DecodeEnvironment& environment, const Program& program);
int64_t cache_bytes(const DecodeEnvironment& environment, const Program& program);

/// Stages that are kept for further texts: so many, and so many bytes of them with those in use, which may be
/// more.
constexpr size_t kKeptStages = 12;
constexpr int64_t kKeptStageBytes = 256'000'000;

class DecodeStage {
 public:
  /// `step`: of step_program().
  DecodeStage(const DecodeEnvironment& environment, const DecodePlan& plan, Program step);

  const DecodePlan& plan() const { return plan_; }
  /// Of memory beside the weights.
  int64_t bytes() const { return bytes_; }
  /// Inputs: `inputs` (with an encoder), `prefix`, `position`, `prompt`. It is compiled when it is first
  /// asked for.
  Executor& prefill();
  /// Inputs: `token`, `position`, and `parent` where the plan reorders.
  Executor& step() { return *step_; }
  /// Takes the caches of `texts` of another stage with the same beam and inputs, whose caches are not longer.
  void take(const DecodeStage& other, std::span<const int64_t> texts);

 private:
  const DecodeEnvironment& environment_;
  DecodePlan plan_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<Executor> prefill_, step_;
  int64_t bytes_;
};

}  // namespace mtf
