// The two programs of decoding for given sizes, and their caches.
//
//   DecodePrograms programs(session);
//   programs.step(plan).bytes                             // compiled, and not run
//   DecodeStage stage(programs, weights, plan);           // takes what was compiled
//   stage.prefill().feed(...); stage.prefill().run(0);    // fills the caches
//   stage.step().feed(...); stage.step().run(0);          // one token of each hypothesis
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "engine/runtime/executor.h"
#include "models/text_decoder.h"
#include "trainer/session/session.h"

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

  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, DecodeAnswer, int64_t>;
  Key key() const {
    return {sizes.texts, sizes.beam, sizes.inputs, sizes.prefix, sizes.memory, answer, candidates};
  }
};

/// What all programs of a run have in common.
struct DecodeEnvironment {
  const Session& session;
  const TextDecoder& decoder;
  Layouts layouts;  ///< those of the session without what programs of all sizes cannot keep
};

DecodeEnvironment decode_environment(const Session& session);

/// A program whose variables are the weights of the model under the layouts of the session, for a run that
/// only decodes. Throws Error (kConfig) where the layout does not fit the model.
Program program_of_weights(const Session& session);

/// The context of a graph that works on so many texts.
std::unique_ptr<Context> make_context(Graph& graph, const DecodeEnvironment& environment, int64_t texts);
/// Throws Error (kConfig) where the layout does not fit.
Program compiled(const DecodeEnvironment& environment, const Graph& graph);

/// The sizes that programs are made for. 16, 24, 32, 48, 64, ...: the first that is not below `n`; at most
/// `longest`, if `n` is not above it.
int64_t length_bucket(int64_t n, std::optional<int64_t> longest);
/// A power of two for each of the parts into which the layout cuts texts.
int64_t text_bucket(int64_t n, const DecodeEnvironment& environment);

/// A program, and what it takes of this process's memory.
struct DecodeProgram {
  Program program;
  int64_t bytes = 0;        ///< beside variables
  int64_t cache_bytes = 0;  ///< of its caches
};

/// Programs that are compiled and not run yet: what asks for their memory leaves them here for what runs
/// them.
class DecodePrograms {
 public:
  /// `session` must outlive it.
  explicit DecodePrograms(const Session& session) : environment_(decode_environment(session)) {}
  DecodePrograms(const DecodePrograms&) = delete;

  const DecodeEnvironment& environment() const { return environment_; }
  /// A reference holds until another program is asked for. Throw Error (kConfig) where the layout does not
  /// fit the model.
  const DecodeProgram& prefill(const DecodePlan& plan);
  const DecodeProgram& step(const DecodePlan& plan);
  /// The same, for the one who runs it.
  DecodeProgram take_prefill(const DecodePlan& plan);
  DecodeProgram take_step(const DecodePlan& plan);

 private:
  using Waiting = std::map<DecodePlan::Key, DecodeProgram>;
  using Build = std::unique_ptr<Graph>(const DecodeEnvironment& environment, const DecodePlan& plan);
  const DecodeProgram& compiled_once(Waiting& programs, const DecodePlan& plan, Build& build);

  DecodeEnvironment environment_;
  Waiting prefills_, steps_;
};

/// Stages that are kept for further texts: so many, and so many bytes of them with those in use, which may be
/// more.
constexpr size_t kKeptStages = 12;
constexpr int64_t kKeptStageBytes = 256'000'000;

class DecodeStage {
 public:
  /// `programs` and `weights` must outlive it.
  DecodeStage(DecodePrograms& programs, VariableStore& weights, const DecodePlan& plan);

  const DecodePlan& plan() const { return plan_; }
  /// Of memory beside the weights.
  int64_t bytes() const { return bytes_; }
  /// Inputs: `inputs` (with an encoder), `prefix`, `position`, `prompt`. It is made when it is first asked
  /// for.
  Executor& prefill();
  /// Inputs: `token`, `position`, and `parent` where the plan reorders.
  Executor& step() { return *step_; }
  /// Takes the caches of `texts` of another stage with the same beam and inputs, whose caches are not longer.
  void take(const DecodeStage& other, std::span<const int64_t> texts);

 private:
  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlan plan_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<Executor> prefill_, step_;
  int64_t bytes_;
};

}  // namespace mtf
