#include "trainer/decode/decode_plan.h"

#include <algorithm>
#include <bit>

#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// Fewer than batch_size texts are decoded at a time if one of them is longer than this, in tokens.
constexpr size_t kLongText = 512;
/// The number of tokens after the prefix for which the first caches have room.
constexpr int64_t kFirstSteps = 8;
/// The length of the shortest caches, and up to which lengths are powers of two.
constexpr int64_t kLeastMemory = 32, kShortMemory = 128;

/// The most candidates of which one is drawn: from more, it is faster to look at all tokens.
constexpr int64_t kMostDrawn = 1024;

}  // namespace

DecodePlanner::DecodePlanner(const DecodeEnvironment& environment, const DecodeOptions& options)
    : environment_(environment),
      options_(options),
      vocabulary_(vocabulary_sizes(environment.session.train_data->features()).at("targets")),
      rules_(options, environment.session.vocabularies.targets.get(), environment.decoder.start_token()) {}

size_t DecodePlanner::fitting(size_t longest) const {
  const size_t tokens = static_cast<size_t>(options_.batch_size) * kLongText;
  return std::clamp<size_t>(tokens / std::max<size_t>(1, longest), 1,
                            static_cast<size_t>(options_.batch_size));
}

int64_t DecodePlanner::limit(const GivenText& given) const {
  if (!longest()) return given.limit;
  return std::max<int64_t>(1, std::min(given.limit, *longest() - std::ssize(given.prefix)));
}

int64_t DecodePlanner::memory(int64_t tokens) const {
  if (tokens > kShortMemory) return length_bucket(tokens, longest());
  const auto doubled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
  const int64_t size = std::max(kLeastMemory, doubled);
  return std::min(size, std::max(tokens, longest().value_or(size)));
}

DecodePlan DecodePlanner::first(std::span<const GivenText> texts) const {
  int64_t inputs = 0, prefix = 0, tokens = 0;
  for (const GivenText& given : texts) {
    inputs = std::max(inputs, std::ssize(given.inputs));
    prefix = std::max(prefix, std::ssize(given.prefix) + 1);
    tokens = std::max(tokens, std::ssize(given.prefix) + std::min(kFirstSteps, limit(given)));
  }
  DecodePlan plan;
  DecodeSizes& sizes = plan.sizes;
  sizes.texts = text_bucket(std::ssize(texts), environment_);
  sizes.beam = options_.hypotheses();
  sizes.inputs = environment_.decoder.has_encoder() ? length_bucket(inputs, longest()) : 0;
  sizes.prefix = prefix == 1 ? 1 : length_bucket(prefix, longest());
  set_memory(plan, std::max(sizes.prefix, memory(tokens)));
  plan.reorders = options_.is_beam() && options_.beam_size > 1;
  plan.gives_total =
      rules_.penalises_repetition() && !options_.is_beam() && environment_.ensemble.has_logits();
  return plan;
}

void DecodePlanner::set_memory(DecodePlan& plan, int64_t memory) const {
  plan.sizes.memory = memory;
  // As many more as the rules may take away.
  const int64_t more = rules_.most_changed(memory);
  if (const SampleMethod* method = options_.sampling()) {
    const bool is_few =
        method->top_k > 0 && !rules_.raises() && method->top_k + more <= std::min(kMostDrawn, vocabulary_);
    plan.answer = is_few ? DecodeAnswer::kCandidates : DecodeAnswer::kLogProbs;
    plan.candidates = is_few ? method->top_k + more : 1;
  } else {
    const int64_t needed = options_.is_beam() ? (1 + rules_.ends()) * options_.beam_size : 1;
    plan.candidates = rules_.raises() ? vocabulary_ : std::min(needed + more, vocabulary_);
  }
}

}  // namespace mtf
