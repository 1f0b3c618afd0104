#include "trainer/decode/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/softmax.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/prepared_program.h"
#include "layers/positions.h"
#include "trainer/memory/need.h"
#include "trainer/session/model_inputs.h"

namespace mtf {

std::unique_ptr<Context> make_context(Graph& graph, const DecodeEnvironment& environment, int64_t texts) {
  const Session& session = environment.session;
  auto context = std::make_unique<Context>(graph, Mode::kEvaluate, precision_of(session.config),
                                           Dimension{std::string(kBatch), texts});
  context->set_vocabularies(vocabulary_sizes(session.train_data->features()));
  context->set_averaged(averaged_weights(session.config));
  context->set_expert_parts(expert_parts(environment.layouts));
  context->set_keeps_tokens(true);
  return context;
}

Prediction predict(Graph& graph, const DecodeEnvironment& environment, int64_t texts,
                   const std::function<Tensor(Context& context, const Model& model)>& logits_of) {
  const std::vector<EnsembleMember>& members = environment.ensemble.members;
  use_weight_copies(graph, environment.copies);
  const auto wide_logits = [&](const EnsembleMember& member) {
    return cast(logits_of(*make_context(graph, environment, texts), *member.model), DType::kFloat32);
  };
  if (members.size() == 1) return prediction_of(wide_logits(members[0]));
  Tensors logits;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto scope = graph.scope(member_name(static_cast<int64_t>(i)));
    logits.push_back(wide_logits(members[i]));
  }
  return prediction_of(logits, environment.ensemble);
}

namespace {

/// The dimension of the most likely tokens.
constexpr std::string_view kCandidates = "candidates";

int64_t target_vocabulary(const DecodeEnvironment& environment) {
  return vocabulary_sizes(environment.session.train_data->features()).at("targets");
}

/// Sets the outputs of the graph. Logits beyond the size of the vocabulary are not candidates, nor is padding that the model
/// does not predict.
void set_answer(Graph& graph, const DecodeEnvironment& environment, const DecodePlan& plan,
                const Prediction& prediction) {
  const Tensor& logits = prediction.logits;
  if (plan.gives_total) graph.set_output("total", prediction.total);
  const Dimension& vocab = logits.shape()[logits.shape().rank() - 1];
  const Tensor ids = range(graph, vocab), never = graph.constant(-std::numeric_limits<double>::infinity());
  Tensor eligible = logits;
  const auto keep = [&](const Tensor& known) { eligible = where(known, eligible, never, logits.shape()); };
  if (const int64_t size = target_vocabulary(environment); size < vocab.size)
    keep(less(ids, graph.constant(static_cast<double>(size), DType::kInt32)));
  if (!environment.decoder.predicts_padding()) keep(greater(ids, graph.constant(0, DType::kInt32)));
  if (plan.answer == DecodeAnswer::kLogProbs)
    return graph.set_output("log_probs", prediction.log_probs(eligible));
  const auto [values, tokens] = top_k(eligible, vocab.name, {std::string(kCandidates), plan.candidates});
  graph.set_output("log_probs", prediction.log_probs(values));
  graph.set_output("tokens", tokens);
}

std::unique_ptr<Graph> build_prefill(const DecodeEnvironment& environment, const DecodePlan& plan) {
  auto graph = std::make_unique<Graph>();
  const Dimension batch{std::string(kBatch), plan.sizes.texts};
  TextDecoder::Prefill input;
  if (environment.decoder.has_encoder())
    input.inputs = graph->input("inputs", {batch, {"length", plan.sizes.inputs}}, DType::kInt32);
  input.prefix = graph->input("prefix", {batch, {"length", plan.sizes.prefix}}, DType::kInt32);
  input.position = graph->input("position", {batch}, DType::kInt32);
  input.prompt = graph->input("prompt", {batch}, DType::kInt32);
  const Prediction prediction =
      predict(*graph, environment, plan.sizes.texts, [&](Context& context, const Model& model) {
        return model.decoder()->prefill(context, plan.sizes, input);
      });
  set_answer(*graph, environment, plan, prediction);
  return graph;
}

std::unique_ptr<Graph> build_step(const DecodeEnvironment& environment, const DecodePlan& plan) {
  auto graph = std::make_unique<Graph>();
  const Dimension batch{std::string(kBatch), plan.sizes.texts}, beam = plan.sizes.beam_dimension();
  TextDecoder::Step input;
  input.token = graph->input("token", {batch, beam}, DType::kInt32);
  input.position = graph->input("position", {batch}, DType::kInt32);
  if (plan.reorders) {
    input.parent = graph->input("parent", {batch, beam}, DType::kInt32);
    input.common = graph->input("common", {batch, beam}, DType::kInt32);
  }
  if (beam.size > 1) input.shared_prefix = graph->input("shared_prefix", {batch}, DType::kInt32);
  const Prediction prediction =
      predict(*graph, environment, plan.sizes.texts, [&](Context& context, const Model& model) {
        return model.decoder()->step(context, plan.sizes, input);
      });
  set_answer(*graph, environment, plan, prediction);
  return graph;
}

/// Returns the program with its memory in this process.
DecodeProgram measured(const DecodeEnvironment& environment, Program program) {
  const Session& session = environment.session;
  const bool replicate = session.config.run.check_replicas, is_host = session.backend->is_host();
  const Hosting hosting = hosting_of(session.config);
  const MemoryPlan::Process memory = plan_arenas(program, replicate, hosting).process;
  const HostedMesh mesh(program.mesh, hosting);
  DecodeProgram result;
  result.temporary_bytes = memory.temporaries;
  result.scratch_bytes = kernel_scratch_bytes(program, *session.backend);
  result.input_bytes = (is_host ? 1 : 3) * memory.inputs;  // two blocks of inputs are being sent to a GPU
  result.own_bytes = (is_host ? 0 : 2 * memory.inputs) + own_bytes(program, 0, replicate, hosting);
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.kind == Variable::Kind::kSession) result.cache_bytes += process_bytes(v, mesh, replicate);
  }
  result.program = std::move(program);
  return result;
}

/// Returns the plan with a fixed prefix, since step programs do not depend on it.
DecodePlan without_prefix(DecodePlan plan) {
  plan.sizes.prefix = 1;
  return plan;
}

/// Dimensions whose sizes depend on the texts or hypotheses, so that a layout rule could not split all of
/// their sizes evenly. All other dimensions have the same sizes as in training.
constexpr std::array kSizedByTexts = {std::string_view("length"), kMemoryLength, kSinusoidLength, kBeam,
                                      kCandidates};

/// Returns the rules for dimensions of fixed size.
LayoutRules of_fixed_sizes(const LayoutRules& rules) {
  std::vector<LayoutRule> kept;
  for (const LayoutRule& rule : rules.rules()) {
    if (std::ranges::find(kSizedByTexts, rule.dimension) == kSizedByTexts.end()) kept.push_back(rule);
  }
  return LayoutRules(std::move(kept));
}

}  // namespace

int64_t length_bucket(int64_t n, std::optional<int64_t> longest) {
  int64_t size = 16;
  while (size < n) size = std::has_single_bit(static_cast<uint64_t>(size)) ? size / 2 * 3 : size / 3 * 4;
  return longest ? std::min(size, std::max(n, *longest)) : size;
}

int64_t text_parts(const DecodeEnvironment& environment) {
  const Layouts& layouts = environment.layouts;
  return LayoutMap(layouts.mesh, layouts.activation).parts(std::string(kBatch));
}

int64_t text_bucket(int64_t n, const DecodeEnvironment& environment) {
  const int64_t parts = text_parts(environment), each = (n + parts - 1) / parts;
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(each)));
  if (!environment.session.backend->is_host() || power <= 8) return parts * power;
  const int64_t unit = std::max<int64_t>(4, power / 8);
  return parts * ((each + unit - 1) / unit * unit);
}

DecodeEnvironment decode_environment(const Session& session, const Ensemble& ensemble, bool reads_copies) {
  Layouts layouts = session.layouts;
  layouts.activation = of_fixed_sizes(layouts.activation);
  std::optional<WeightCopyOptions> copies = weight_copy_options(session, layouts, reads_copies);
  DecodeEnvironment environment{session, *session.model->decoder(), std::move(layouts), ensemble,
                                std::move(copies)};
  if (ensemble.members.empty()) environment.ensemble.members.push_back({session.model.get()});
  return environment;
}

const DecodeProgram& DecodePrograms::compiled_once(Waiting& programs, const DecodePlan& plan, Build& build) {
  constexpr size_t kMost = 4;
  if (const auto at = programs.find(plan.key()); at != programs.end()) return at->second;
  if (programs.size() == kMost) programs.clear();
  const std::unique_ptr<Graph> graph = build(environment_, plan);
  DecodeProgram program =
      measured(environment_, compile_checked(environment_.session, *graph, environment_.layouts));
  return programs.emplace(plan.key(), std::move(program)).first->second;
}

const DecodeProgram& DecodePrograms::prefill(const DecodePlan& plan) {
  return compiled_once(prefills_, plan, build_prefill);
}

const DecodeProgram& DecodePrograms::step(const DecodePlan& plan) {
  return compiled_once(steps_, without_prefix(plan), build_step);
}

DecodeProgram DecodePrograms::take_prefill(const DecodePlan& plan) {
  prefill(plan);
  return std::move(prefills_.extract(plan.key()).mapped());
}

DecodeProgram DecodePrograms::take_step(const DecodePlan& plan) {
  step(plan);
  return std::move(steps_.extract(without_prefix(plan).key()).mapped());
}

WeightsProgram program_of_weights(const DecodeEnvironment& environment) {
  const int64_t any = length_bucket(1, environment.decoder.longest_text());
  const DecodePlan plan{.sizes = {.texts = text_bucket(1, environment), .inputs = any, .memory = any}};
  const std::unique_ptr<Graph> graph = build_prefill(environment, plan);
  Program program = compile_checked(environment.session, *graph, environment.layouts);
  std::erase_if(program.variables,
                [](const ProgramVariable& v) { return v.variable.kind == Variable::Kind::kSession; });
  return {std::move(program), WeightConversions(environment.session, *graph, environment.layouts)};
}

}  // namespace mtf
