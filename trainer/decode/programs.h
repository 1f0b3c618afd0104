// The two programs of decoding, prefill and step, for given sizes, and their key-value caches.
//
//   DecodePrograms programs(session);
//   programs.step(plan).bytes                             // compiles, but does not run it
//   DecodeStage stage(programs, weights, plan);           // takes the compiled program
//   stage.prefill().feed(...); stage.prefill().run(0);    // fills the caches
//   stage.step().feed(...); stage.step().run(0);          // one token per hypothesis
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "engine/runtime/executor.h"
#include "models/text_decoder.h"
#include "trainer/decode/ensemble.h"
#include "trainer/session/session.h"

namespace mtf {

/// The outputs of the programs.
enum class DecodeAnswer {
  kCandidates,  ///< log_probs (float32) and tokens (int32), [batch, (beam,) candidates], best first
  kLogProbs,    ///< log_probs (float32) [batch, (beam,) vocab]; -infinity for padding of the vocabulary
};

struct DecodePlan {
  DecodeSizes sizes;
  DecodeAnswer answer = DecodeAnswer::kCandidates;
  int64_t candidates = 1;
  bool reorders = false;  ///< hypotheses may continue others: the step has the input `parent`

  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, DecodeAnswer, int64_t>;
  Key key() const {
    return {sizes.texts, sizes.beam, sizes.inputs, sizes.prefix, sizes.memory, answer, candidates};
  }
};

/// The common arguments of all decoding programs of a run.
struct DecodeEnvironment {
  const Session& session;
  const TextDecoder& decoder;
  Layouts layouts;  ///< the session's layouts without rules for dimensions whose sizes depend on the texts
  Ensemble ensemble = {};
};

DecodeEnvironment decode_environment(const Session& session, const Ensemble& ensemble = {});

/// Returns a program whose variables are the weights of `model` (by default the session's) under the layouts of the
/// session, for a run that only decodes. Throws Error (kConfig) when the layout does not fit the model.
Program program_of_weights(const Session& session, const Model* model = nullptr);

/// Returns the context for building a graph for `texts` texts.
std::unique_ptr<Context> make_context(Graph& graph, const DecodeEnvironment& environment, int64_t texts);
/// Builds the model, or each member of the ensemble with a context of its own, and returns what they predict.
Prediction predict(Graph& graph, const DecodeEnvironment& environment, int64_t texts,
                   const std::function<Tensor(Context& context, const Model& model)>& logits_of);
/// Compiles a graph. Throws Error (kConfig) when the layout does not fit.
Program compiled(const DecodeEnvironment& environment, const Graph& graph);

/// Rounds a length up to a size for which programs are compiled: the smallest of 16, 24, 32, 48, 64, ... that
/// is at least `n`, limited to max(n, longest).
int64_t length_bucket(int64_t n, std::optional<int64_t> longest);
/// Rounds a number of texts up to a power of two for each of the parts into which the layout splits them.
int64_t text_bucket(int64_t n, const DecodeEnvironment& environment);

/// A program and its memory in this process.
struct DecodeProgram {
  Program program;
  int64_t bytes = 0;        ///< bytes of tensors and scratch besides variables: of the GPU, if there is one
  int64_t own_bytes = 0;    ///< host memory: instructions, threads, inputs that are sent to a GPU
  int64_t cache_bytes = 0;  ///< bytes of its caches
};

/// Compiled programs that are not in use yet, so that a program whose memory was estimated is not compiled
/// again to run it.
class DecodePrograms {
 public:
  /// `session` must outlive the object.
  explicit DecodePrograms(const Session& session, const Ensemble& ensemble = {})
      : environment_(decode_environment(session, ensemble)) {}
  DecodePrograms(const DecodePrograms&) = delete;

  const DecodeEnvironment& environment() const { return environment_; }
  /// Return a program. The reference is valid until the next call for another program. They throw Error
  /// (kConfig) when the layout does not fit the model.
  const DecodeProgram& prefill(const DecodePlan& plan);
  const DecodeProgram& step(const DecodePlan& plan);
  /// Like prefill() and step(), but remove the program from the object, to run it.
  DecodeProgram take_prefill(const DecodePlan& plan);
  DecodeProgram take_step(const DecodePlan& plan);

 private:
  using Waiting = std::map<DecodePlan::Key, DecodeProgram>;
  using Build = std::unique_ptr<Graph>(const DecodeEnvironment& environment, const DecodePlan& plan);
  const DecodeProgram& compiled_once(Waiting& programs, const DecodePlan& plan, Build& build);

  DecodeEnvironment environment_;
  Waiting prefills_, steps_;
};

/// The limits on the stages that a Decoder keeps for further texts: their number and their bytes, including
/// those of the stages in use, which may exceed the limit.
constexpr size_t kKeptStages = 12;
constexpr int64_t kKeptStageBytes = 256'000'000;

class DecodeStage {
 public:
  /// `programs` and `weights` must outlive the stage.
  DecodeStage(DecodePrograms& programs, VariableStore& weights, const DecodePlan& plan);

  const DecodePlan& plan() const { return plan_; }
  /// The bytes of memory besides the weights.
  int64_t bytes() const { return bytes_; }
  /// The program with the inputs `inputs` (with an encoder), `prefix`, `position` and `prompt`. It is made by
  /// the first call.
  Executor& prefill();
  /// The program with the inputs `token`, `position`, and `parent` if the plan reorders.
  Executor& step() { return *step_; }
  /// Copies the cache rows `texts` of another stage, and of hypotheses their first `filled` tokens. It must have the same
  /// beam and inputs, and caches that are not longer.
  void take(const DecodeStage& other, std::span<const int64_t> texts, int64_t filled);

 private:
  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlan plan_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<Executor> prefill_, step_;
  int64_t bytes_;
};

}  // namespace mtf
