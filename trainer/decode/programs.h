// The two programs of decoding, prefill and step, for given sizes.
//
//   DecodePrograms programs(session);
//   programs.step(plan).temporary_bytes                   // compiles, but does not run it
//   DecodeStage stage(programs, weights, plan, memory);   // takes the compiled program (decode_stage.h)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "engine/runtime/executor.h"
#include "models/text_decoder.h"
#include "trainer/decode/ensemble.h"
#include "trainer/session/session.h"
#include "trainer/session/weight_conversions.h"

namespace mtf {

/// The outputs of the programs.
enum class DecodeAnswer {
  kCandidates,  ///< log_probs (float32) and tokens (int32), [batch, (beam,) candidates], best first
  kLogProbs,    ///< log_probs (float32) [batch, (beam,) vocab]; -infinity for tokens that cannot be
};

struct DecodePlan {
  DecodeSizes sizes;
  DecodeAnswer answer = DecodeAnswer::kCandidates;
  int64_t candidates = 1;
  bool reorders = false;  ///< hypotheses may continue others: the step has the inputs `parent` and `common`
  /// There is the output `total`, float32 [batch, (beam)]: a logit is the token's log-probability and this.
  bool gives_total = false;

  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, DecodeAnswer, int64_t, bool>;
  Key key() const {
    return {sizes.texts,  sizes.beam, sizes.inputs, sizes.prefix,
            sizes.memory, answer,     candidates,   gives_total};
  }
};

/// The common arguments of all decoding programs of a run.
struct DecodeEnvironment {
  const Session& session;
  const TextDecoder& decoder;
  Layouts layouts;  ///< the session's layouts without rules for dimensions whose sizes depend on the texts
  Ensemble ensemble = {};
  std::optional<WeightCopyOptions> copies =
      {};  ///< which copies of weights products read (weight_conversions.h)
};

/// `reads_copies`: the weights are GroupWeights, which has copies that products read faster.
DecodeEnvironment decode_environment(const Session& session, const Ensemble& ensemble = {},
                                     bool reads_copies = false);

/// A program whose variables are the weights of a model, for a run that only decodes.
struct WeightsProgram {
  Program program;
  WeightConversions conversions;
};
/// Returns it for an environment of one member. Throws Error (kConfig) when the layout does not fit the model.
WeightsProgram program_of_weights(const DecodeEnvironment& environment);

/// Returns the context for building a graph for `texts` texts.
std::unique_ptr<Context> make_context(Graph& graph, const DecodeEnvironment& environment, int64_t texts);
/// Builds the model, or each member of the ensemble with a context of its own, and returns what they predict.
Prediction predict(Graph& graph, const DecodeEnvironment& environment, int64_t texts,
                   const std::function<Tensor(Context& context, const Model& model)>& logits_of);

/// Rounds a length up to a size for which programs are compiled: the smallest of 16, 24, 32, 48, 64, ... that
/// is at least `n`, limited to max(n, longest).
int64_t length_bucket(int64_t n, std::optional<int64_t> longest);
/// The number of parts into which the layout splits the texts.
int64_t text_parts(const DecodeEnvironment& environment);
/// Rounds a number of texts up to one for which programs are compiled, for each of text_parts(): 1, 2, 4, 8, 12, 16, 20, 24, 28,
/// 32, 40, ... on the host, where a text less is less work, and powers of two on a GPU.
int64_t text_bucket(int64_t n, const DecodeEnvironment& environment);

/// A program and its memory in this process.
struct DecodeProgram {
  Program program;
  int64_t temporary_bytes = 0;  ///< temporaries, in memory that programs share
  int64_t scratch_bytes = 0;    ///< scratch of one thread, in memory that programs share
  int64_t input_bytes = 0;      ///< inputs where it computes
  int64_t own_bytes = 0;        ///< host memory: instructions, and inputs that are sent to a GPU
  int64_t cache_bytes = 0;
};

/// Compiled programs that are not in use yet, so that a program whose memory was estimated is not compiled
/// again to run it.
class DecodePrograms {
 public:
  /// `session` must outlive the object.
  explicit DecodePrograms(const Session& session, const Ensemble& ensemble = {})
      : DecodePrograms(decode_environment(session, ensemble)) {}
  explicit DecodePrograms(DecodeEnvironment environment) : environment_(std::move(environment)) {}
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

}  // namespace mtf
