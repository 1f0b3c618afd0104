#include "trainer/decode/scorer.h"

#include <algorithm>
#include <functional>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "models/transformer.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// The limits of a batch: the number of its texts, and of its tokens, each of which has logits.
constexpr size_t kMostTexts = 64, kMostTokens = 4096;
constexpr size_t kKeptPrograms = 16;

}  // namespace

void Scorer::score(std::vector<ScoredText>& texts) {
  std::vector<ScoredText*> order;
  for (ScoredText& text : texts) order.push_back(&text);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const ScoredText* text) { return text->targets.size(); });
  for (std::span<ScoredText*> rest = order; !rest.empty();) {
    const size_t count =
        std::clamp<size_t>(kMostTokens / rest[0]->targets.size(), 1, std::min(kMostTexts, rest.size()));
    score_batch(rest.first(count));
    rest = rest.subspan(count);
  }
}

void Scorer::score_batch(std::span<ScoredText*> texts) {
  size_t inputs = 0, targets = 0;
  for (const ScoredText* text : texts) {
    inputs = std::max(inputs, text->inputs.size());
    targets = std::max(targets, text->targets.size());
  }
  const auto longest = environment_.decoder.longest_text();
  const int64_t length = length_bucket(static_cast<int64_t>(targets), longest),
                input_length = inputs == 0 ? 0 : length_bucket(static_cast<int64_t>(inputs), longest),
                rows = text_bucket(static_cast<int64_t>(texts.size()), environment_);
  std::vector<int32_t> input_ids(static_cast<size_t>(rows * input_length)),
      target_ids(static_cast<size_t>(rows * length)), prompts(static_cast<size_t>(rows));
  for (size_t i = 0; i < texts.size(); ++i) {
    std::ranges::copy(texts[i]->inputs, input_ids.begin() + static_cast<int64_t>(i) * input_length);
    std::ranges::copy(texts[i]->targets, target_ids.begin() + static_cast<int64_t>(i) * length);
    prompts[i] = static_cast<int32_t>(texts[i]->first);
  }
  Executor& executor = program(rows, input_length, length);
  executor.feed("inputs", input_ids.data());
  executor.feed("targets", target_ids.data());
  executor.feed("prompt", prompts.data());
  executor.run(0);
  // Gives each text its part of an output with `each` values for a token.
  const auto fetch = [&](const char* name, int64_t each, const auto& use) {
    const HostTensor result = executor.fetch(name);
    for (size_t i = 0; i < texts.size(); ++i)
      use(*texts[i], result.data<float>() + static_cast<int64_t>(i) * length * each);
  };
  if (values_.log_probs) {
    fetch("log_probs", 1, [](ScoredText& text, const float* row) {
      text.log_probs.assign(row + text.first, row + text.targets.size());
    });
  }
  if (values_.alignments) {
    fetch("alignment", input_length, [&](ScoredText& text, const float* row) {
      for (size_t t = 0; t < text.targets.size(); ++t, row += input_length)
        text.alignment.insert(text.alignment.end(), row, row + text.inputs.size());
    });
  }
}

Executor& Scorer::program(int64_t rows, int64_t input_length, int64_t length) {
  const std::array<int64_t, 3> key{rows, input_length, length};
  if (programs_.size() == kKeptPrograms && !programs_.contains(key)) programs_.clear();
  std::unique_ptr<Executor>& executor = programs_[key];
  if (executor) return *executor;
  Graph graph;
  build(graph, rows, input_length, length);
  executor = std::make_unique<Executor>(compile_checked(session_, graph, environment_.layouts),
                                        *session_.backend, weights_, executor_options(session_));
  return *executor;
}

void Scorer::build(Graph& graph, int64_t rows, int64_t input_length, int64_t length) const {
  const Dimension batch{std::string(kBatch), rows};
  const Tensor targets = graph.input("targets", {batch, {"length", length}}, DType::kInt32);
  const Tensor is_token = not_equal(targets, graph.constant(kPadId, DType::kInt32));
  Features features{{"targets", targets}, {"targets_segmentation", cast(is_token, DType::kInt32)}};
  features[std::string(kPromptFeature)] = graph.input("prompt", {batch}, DType::kInt32);
  if (environment_.decoder.has_encoder())
    features["inputs"] = graph.input("inputs", {batch, {"length", input_length}}, DType::kInt32);
  Tensors alignments;
  const Prediction prediction = predict(graph, environment_, rows, [&](Context& context, const Model& model) {
    const ModelOutput output = model.build(context, features);
    alignments.push_back(output.alignment);
    return output.logits;
  });
  if (values_.log_probs) {
    const Tensor& logits = prediction.logits;
    const Tensor of_targets = gather(logits, targets, logits.shape()[logits.shape().rank() - 1].name);
    graph.set_output("log_probs", prediction.log_probs(of_targets));
  }
  if (!values_.alignments) return;
  if (!std::ranges::all_of(alignments, [](const Tensor& x) { return static_cast<bool>(x); })) {
    throw Error(ErrorKind::kConfig, session_.config.mark("model.alignment"),
                "no attention of the model tells an alignment",
                "`model.alignment.layer` with a block that has EncDecAttention");
  }
  graph.set_output("alignment", mean_of_members(alignments, environment_.ensemble));
}

}  // namespace mtf
