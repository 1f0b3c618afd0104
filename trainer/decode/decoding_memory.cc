#include "trainer/decode/decoding_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "engine/runtime/memory_plan.h"
#include "trainer/decode/search.h"
#include "trainer/decode/text_codec.h"

namespace mtf {

/// The sizes of the longest batch: its first programs, and the length of its caches at the end.
struct DecodingMemory::Sizes {
  DecodePlan first;
  bool enters = false;  ///< there are more texts, which enter it
  int64_t memory = 1;
  int64_t growths = 0;  ///< how often the caches become longer
};

namespace {

/// Returns the bytes of a program's outputs, which are copied to the host.
int64_t fetched_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const auto& [name, id] : program.outputs)
    bytes += bytes_of(program.values[id].shape, program.values[id].dtype);
  return bytes;
}

/// Returns twice the size of the largest cache: if rows move between processes, whole caches are copied from one stage to the
/// next.
int64_t copied_bytes(const Program& program) {
  int64_t most = 0;
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.kind == Variable::Kind::kSession)
      most = std::max(most, bytes_of(v.variable.shape, v.variable.dtype));
  }
  return 2 * most;
}

/// Returns the bytes of the searches of a batch, of which one is in a step at a time.
int64_t search_bytes(const DecodePlan& plan, const DecodeOptions& options) {
  if (!options.is_beam()) return 0;
  const int64_t ends = 1 + std::ssize(options.stop_tokens);
  return plan.sizes.texts * BeamSearch::bytes(plan.sizes.beam, plan.sizes.memory, ends) +
         BeamSearch::step_bytes(plan.sizes.beam, plan.candidates);
}

/// Returns a smaller batch and a smaller beam, such as "`infer.beam_size: 8`", with each of which alone decoding fits.
std::vector<std::string> smaller_options(const DecodeOptions& options, std::string_view section,
                                         const std::function<bool(const DecodeOptions&)>& fits) {
  std::vector<std::string> advice;
  const auto try_halves = [&](int64_t DecodeOptions::*number, std::string_view key, int64_t least) {
    for (DecodeOptions smaller = options; smaller.*number / 2 >= least;) {
      smaller.*number /= 2;
      if (!fits(smaller)) continue;
      advice.push_back(fmt::format("`{}.{}: {}`", section, key, smaller.*number));
      return;
    }
  };
  try_halves(&DecodeOptions::batch_size, "batch_size", 1);
  if (options.is_beam()) try_halves(&DecodeOptions::beam_size, "beam_size", options.n_best);
  return advice;
}

}  // namespace

std::vector<GivenText> decoded_texts(std::vector<GivenText> texts) {
  std::erase_if(texts, &GivenText::is_blank);
  return texts;
}

DecodingMemory::DecodingMemory(DecodePrograms& programs, const DecodeOptions& options)
    : programs_(programs), options_(options) {}

DecodingMemory::Sizes DecodingMemory::sizes_of(std::span<const GivenText> texts,
                                               const DecodeShares& shares) const {
  const DecodeOptions options = shares.options_of(options_);
  const DecodePlanner planner(programs_.environment(), options);
  std::vector<GivenText> longest(texts.begin(), texts.end());
  std::ranges::stable_sort(longest, std::ranges::greater{}, &GivenText::length);
  longest.resize(std::min(longest.size(), static_cast<size_t>(shares.batch_size)));
  const size_t fitting = planner.fitting(longest.empty() ? 1 : longest.front().length());
  const bool enters = fitting < longest.size() || (shares.refills && longest.size() < texts.size());
  longest.resize(std::min(longest.size(), fitting));
  int64_t tokens = 1;
  for (const GivenText& given : longest)
    tokens = std::max(tokens, std::ssize(given.prefix) + planner.limit(given));
  Sizes sizes{planner.first(longest), enters};
  sizes.memory = std::max(sizes.first.sizes.memory, planner.memory(tokens));
  for (int64_t memory = sizes.first.sizes.memory; memory < sizes.memory; ++sizes.growths)
    memory = std::min(planner.memory(memory + 1), sizes.memory);
  return sizes;
}

DecodingBytes DecodingMemory::bytes(std::span<const GivenText> texts) const {
  const DecodeShares shares = this->shares(texts);
  const Sizes sizes = sizes_of(texts, shares);
  DecodePlan last = sizes.first;
  DecodePlanner(programs_.environment(), options_).set_memory(last, sizes.memory);
  const DecodeProgram& prefill = programs_.prefill(sizes.first);
  int64_t temporaries = prefill.temporary_bytes, scratch = prefill.scratch_bytes,
          inputs = prefill.input_bytes, own = prefill.own_bytes;
  programs_.step(sizes.first);
  const DecodeProgram& step = programs_.step(last);
  temporaries = std::max(temporaries, step.temporary_bytes);
  scratch = std::max(scratch, step.scratch_bytes);
  // While the texts grow, rows go from one half of the memory for caches to the other; those that enter are read there. Then
  // texts leave the batch.
  const int64_t caches = step.cache_bytes * (sizes.growths == 0 && !sizes.enters ? 1 : 2);
  const Session& session = programs_.environment().session;
  int64_t stages = 0;
  for (int64_t texts = 0; texts < last.sizes.texts; ++stages)
    texts = text_bucket(texts + 1, programs_.environment());
  const auto kept = static_cast<int64_t>(kept_stages(session));
  stages = sizes.enters ? kept : std::min(stages * (1 + sizes.growths), kept);
  if (const int64_t bytes = step.input_bytes + step.own_bytes; stages * bytes > kKeptStageBytes)
    stages = std::max<int64_t>(1, kKeptStageBytes / bytes);
  inputs += stages * step.input_bytes;
  own += stages * step.own_bytes;
  const bool gathers = hosting_of(session.config).processes > 1;
  const int64_t moved = (gathers ? copied_bytes(step.program) : 0) + fetched_bytes(step.program) +
                        search_bytes(last, options_),
                tensors = temporaries + shares.threads * scratch + caches + inputs;
  if (session.backend->is_host()) return {shares.decoders * (tensors + own + moved), 0};
  // Stages are on the GPU but for their instructions. Rows that move within the same memory are copied beside it: those of half
  // of the texts when a batch becomes smaller, and the tokens of caches that were shorter, which are up to three quarters.
  const bool shrinks = last.sizes.texts > text_bucket(1, programs_.environment());
  const int64_t saved = sizes.growths > 0 ? step.cache_bytes / 4 * 3 : shrinks ? step.cache_bytes / 2 : 0;
  return {moved + own, tensors + saved};
}

RunMemory DecodingMemory::need(std::span<const GivenText> texts) const {
  const Program& program = programs_.prefill(sizes_of(texts, shares(texts)).first).program;
  const Config& config = programs_.environment().session.config;
  const HostedMesh mesh(program.mesh, hosting_of(config));
  int64_t weights = 0;
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.kind != Variable::Kind::kSession)
      weights += process_bytes(v, mesh, config.run.check_replicas);
  }
  const DecodingBytes decoding = bytes(texts);
  const Session& session = programs_.environment().session;
  RunMemory need;
  const bool is_host = session.backend->is_host();
  (is_host ? need.host : need.device).parts.push_back({"weights", weights});
  need.host.parts.push_back({"decoding", decoding.host});
  if (!is_host) need.device.parts.push_back({"decoding", decoding.device});
  need.host.parts.push_back({"program itself", process_itself_bytes()});
  const std::array<const Program*, 1> programs{&program};
  const std::array<int64_t, 2> allocations{weights, decoding.device};
  add_device_reserve(session, programs, hosting_of(config), allocations, need);
  return need;
}

void DecodingMemory::check(std::span<const GivenText> texts, std::string_view section) {
  if (texts.empty()) return;
  const DecodeShares shares = this->shares(texts);
  const Sizes sizes = sizes_of(texts, shares);
  const DecodeSizes& first = sizes.first.sizes;
  const Checked numbers{shares.decoders, first.texts,  first.inputs,
                        first.prefix,    sizes.memory, sizes.enters ? 1 : 0};
  const auto covers = [&](const Checked& other) {
    return std::ranges::equal(numbers, other, std::ranges::less_equal{});
  };
  if (std::ranges::any_of(checked_, covers)) return;
  check_memory(programs_.environment().session, need(texts), [&](const MemoryLimits& limits) {
    return smaller_options(options_, section, [&](const DecodeOptions& smaller) {
      return fits(DecodingMemory(programs_, smaller).need(texts), limits);
    });
  });
  checked_.push_back(numbers);
}

namespace {

/// Returns the texts that are decoded for a data set. If its texts were not read (run.mode=explain), returns
/// a full batch of texts as long as the rows or, if that is less, the model's number of positions.
std::vector<GivenText> texts_of(const Session& session, const DecodeOptions& options,
                                const EvaluationSet& set) {
  if (!set.texts.inputs.empty())
    return decoded_texts(TextCodec(session, options).given_lines(set.texts.inputs));
  const auto inputs = std::ranges::find(set.source->features(), "inputs", &Feature::name);
  const bool known = session.model->decoder() && inputs != set.source->features().end();
  if (set.metrics_of(true).empty() || !known) return {};
  const int64_t row = inputs->shape.size(),
                length = std::min(row, session.model->decoder()->longest_text().value_or(row));
  const GivenText text{.inputs = std::vector<int32_t>(static_cast<size_t>(length)),
                       .prefix = {},
                       .limit = options.limit(length)};
  return std::vector<GivenText>(static_cast<size_t>(options.batch_size), text);
}

/// Returns the largest need of the data sets, which are decoded one after the other.
DecodingBytes bytes_of(const Session& session, const DecodeOptions& options,
                       std::span<const EvaluationSet> sets) {
  DecodingBytes most;
  for (const EvaluationSet& set : sets) {
    const std::vector<GivenText> texts = texts_of(session, options, set);
    if (texts.empty()) continue;
    DecodePrograms programs(session);
    const DecodingBytes bytes = DecodingMemory(programs, options).bytes(texts);
    most = {std::max(most.host, bytes.host), std::max(most.device, bytes.device)};
  }
  return most;
}

}  // namespace

DecodingNeed evaluation_decoding(const Session& session, std::span<const EvaluationSet> sets) {
  const DecodingBytes bytes = bytes_of(session, session.config.evaluate.infer, sets);
  if (bytes.host == 0) return {};
  return {bytes, [&session, sets](const DecodingBytes& limit) -> std::vector<std::string> {
            if (limit.host <= 0 || limit.device <= 0) return {};
            return smaller_options(session.config.evaluate.infer, "evaluate.infer",
                                   [&](const DecodeOptions& smaller) {
                                     const DecodingBytes less = bytes_of(session, smaller, sets);
                                     return less.host <= limit.host && less.device <= limit.device;
                                   });
          }};
}

}  // namespace mtf
