#include "models/transformer.h"

#include <fmt/format.h>

#include "engine/base/nearest.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/random.h"
#include "engine/ops/shift.h"
#include "engine/ops/unary.h"
#include "layers/dense.h"
#include "layers/mask_padding.h"
#include "models/logit_soft_cap.h"

namespace mtf {

void describe_token_model(config::Visitor& visit, TokenModelOptions& options) {
  visit("d_model", options.d_model, "size of the vectors between layers", config::positive);
  visit("positions", options.positions, "what is added to the embeddings of tokens");
  visit("max_length", options.max_length, "rows of the table of learned positions", config::positive);
  visit("first_position", options.first_position,
        "what the first token of a text counts as, in sinusoids and as a row of the table of learned "
        "positions; 2 in models of fairseq, such as BART",
        config::non_negative);
  describe_sublayers(visit, options.around);
  visit("token_dropout", options.token_dropout, "rate at which tokens are read as padding",
        config::probability, config::reported_on_resume);
  visit("vocab_divisor", options.vocab_divisor, "the vocabulary is filled up to a multiple of this",
        config::positive);
  visit("embedding", options.embedding, "how ids become vectors");
  visit("shared_embedding_and_softmax", options.shared_embedding_and_softmax,
        "logits by the transposed embedding; false: by a matrix of their own");
  visit("logit_bias", options.logit_bias, "a bias is added to the logits");
  visit("predict_padding", options.predict_padding,
        "false: padding (id 0) has no probability, as in models whose tokeniser has none");
  describe_logit_soft_cap(visit, options.logit_soft_cap);
  describe_token_loss(visit, options.loss);
  visit("layer_defaults", options.layer_defaults, "options by layer, for each use of it");
  visit("blocks", options.blocks, "lists of layers by name, for the layer `block`");
  visit.check([&options](const config::Report& report) {
    if (are_sinusoids(options.positions) && options.d_model % 2 != 0)
      report.error("d_model", "sinusoid positions need an even size", "an even number");
    if (options.positions == Positions::kNone && options.first_position != 0)
      report.error("first_position", "there are no positions that count from it", "`first_position: 0`");
    if (options.positions == Positions::kLearned && options.first_position >= options.max_length)
      report.error("first_position",
                   fmt::format("`first_position` is {}, and `max_length` {}", options.first_position,
                               options.max_length),
                   "a larger `max_length`, which counts all rows of the table");
    if (!options.predict_padding && options.loss.label_smoothing > 0)
      report.error("label_smoothing", "it gives a part of the target to padding, which has no probability",
                   "`label_smoothing: 0`, or `predict_padding: true`");
    for (const auto& [key, rate] :
         {std::pair("dropout", options.around.dropout), std::pair("token_dropout", options.token_dropout)}) {
      if (rate >= 1) report.error(key, "a dropout rate of 1 leaves nothing", "a rate below 1");
    }
  });
}

void describe(config::Visitor& visit, LanguageModelOptions& options) {
  visit("name", options.name, "scope of all variables");
  describe(visit, static_cast<StackOptions&>(options));
  visit("input_full_attention", options.input_full_attention,
        "tokens of the inputs part of a row see each other, later ones too (prefix language model)");
  visit("loss_on_targets_only", options.loss_on_targets_only, "tokens of the inputs part have no loss");
  describe_token_model(visit, options);
}

void describe(config::Visitor& visit, AlignedOptions& options) {
  visit("name", options.name, "scope of all variables");
  describe(visit, static_cast<StackOptions&>(options));
  describe_token_model(visit, options);
}

Tensor optional_feature(const Features& features, const std::string& name) {
  const auto found = features.find(name);
  return found == features.end() ? Tensor{} : found->second;
}

const Tensor& required_feature(const Features& features, const std::string& name) {
  const auto found = features.find(name);
  if (found != features.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [feature, tensor] : features) names.push_back(feature);
  throw Error(ErrorKind::kConfig, fmt::format("the data have no feature `{}`", name),
              did_you_mean(name, names));
}

Dimension padded_vocabulary(const Context& context, const std::string& feature, int64_t divisor) {
  const int64_t size = context.vocabulary(feature);
  if (size == 0) {
    throw Error(ErrorKind::kConfig, fmt::format("it is not known how many ids `{}` has", feature),
                "`data.vocabulary`, for example {type: sentencepiece, size: 32000}");
  }
  return {std::string(kVocabularyDimension), (size + divisor - 1) / divisor * divisor};
}

void check_one_embedding(std::string_view option, const Dimension& inputs, const Dimension& targets) {
  if (option.empty() || inputs == targets) return;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("one embedding cannot serve {} ids of inputs and {} of targets", inputs.size, targets.size),
      fmt::format("one vocabulary for both, or `model.{}: false`", option));
}

TransformerStack::TransformerStack(const StackOptions& options, const TokenModelOptions& model,
                                   LayerParser& parser)
    : layers_(options, model.around, parser),
      positions_(model.positions),
      max_length_(model.max_length),
      first_position_(model.first_position),
      token_dropout_(model.token_dropout) {}

Tensor TransformerStack::embed(Context& context, const TokenEmbedding& embedding, const Tensor& ids) const {
  const auto unit = context.graph().unit("embedding");
  const Tensor read = context.training() ? dropout(ids, token_dropout_) : ids;
  return embedding.embed(context, read);
}

Tensor TransformerStack::add_positions(Context& context, const Tensor& x, const Tensor& position,
                                       const Dimension& length) const {
  const Dimension& model = x.shape()[x.shape().rank() - 1];
  switch (positions_) {
    case Positions::kLearned:
      return add(x, learned_positions(context, position, length, max_length_, model, first_position_),
                 x.shape());
    case Positions::kSinusoid:
    case Positions::kSinusoidHuggingFace:
      return add(x, sinusoid_positions(context, positions_, position, length, model, first_position_),
                 x.shape());
    case Positions::kNone:
      break;
  }
  return x;
}

std::optional<int64_t> TransformerStack::longest_row() const {
  if (positions_ != Positions::kLearned) return std::nullopt;
  return max_length_ - first_position_;
}

std::optional<int64_t> TransformerStack::positions(int64_t length) const {
  if (positions_ == Positions::kNone) return std::nullopt;
  return positions_ == Positions::kLearned ? max_length_ : length;
}

Tensor TransformerStack::layers(Context& context, Sequence& sequence, const Tensor& x) const {
  if (sequence.segment) set_segments(sequence, sequence.segment);
  const auto entered = context.enter(sequence);
  return layers_(context, {x, Shape{x.shape()[x.shape().rank() - 1]}});
}

Tensor autoregressive_inputs(const Tensor& targets, const Tensor& segment, const Dimension& length) {
  const Tensor before = shift(abs(targets), 1, length.name, false);
  if (!segment) return before;
  const Tensor continues = equal(segment, shift(segment, 1, length.name, false));
  return where(continues, before, targets.graph().constant(0, targets.dtype(), targets.shape()));
}

namespace {

/// Logits by the transposed embedding, plus a bias where there is one.
Tensor logits_by_embedding(Context& context, const TokenModelOptions& options,
                           const TokenEmbedding& embedding, const Tensor& hidden,
                           const Dimension& vocabulary) {
  const Tensor logits = embedding.logits(context, hidden);
  if (!options.logit_bias) return logits;
  const auto scope = context.graph().scope("logits");
  const Tensor bias = context.variable("bias", {vocabulary}, Initializer::constant(0));
  return add(logits, bias, logits.shape());
}

/// Puts the logit of id 0 out of reach.
Tensor without_padding(const Tensor& logits, const Dimension& vocabulary) {
  Graph& graph = logits.graph();
  constexpr double impossible = -1e9;
  const Tensor is_padding = equal(range(graph, vocabulary), graph.constant(0, DType::kInt32));
  return add(logits, scalar_multiply(cast(is_padding, logits.dtype()), impossible), logits.shape());
}

}  // namespace

Tensor token_logits(Context& context, const TokenModelOptions& options, const TokenEmbedding& embedding,
                    const Tensor& hidden, const Dimension& vocabulary) {
  const Dimension& vector = hidden.shape()[hidden.shape().rank() - 1];
  if (options.shared_embedding_and_softmax && vector != Dimension{"d_model", options.d_model}) {
    throw Error(ErrorKind::kConfig,
                fmt::format("logits by the embedding need d_model={}, and the last layers make {}={}",
                            options.d_model, vector.name, vector.size),
                "`model.shared_embedding_and_softmax: false`, or sublayers that end with `d_model`");
  }
  const auto unit = context.graph().unit("logits");
  const Tensor logits = options.shared_embedding_and_softmax
                            ? logits_by_embedding(context, options, embedding, hidden, vocabulary)
                            : dense(context, "logits", hidden, {vocabulary},
                                    {.over = Shape{vector}, .bias = options.logit_bias});
  const Tensor capped = capped_logits(logits, options.logit_soft_cap);
  return options.predict_padding ? capped : without_padding(capped, vocabulary);
}

namespace {

LayerParser parser_of(const TokenModelOptions& options, Diagnostics& diagnostics) {
  return {options.layer_defaults, options.blocks, diagnostics};
}

/// bool [batch, length]: tokens of the inputs parts, ends of sequence included: those before which an even
/// number of sequences has ended.
Tensor inputs_part(const Tensor& targets, const Dimension& length) {
  Graph& graph = targets.graph();
  const Tensor ends = cast(equal(targets, graph.constant(1, targets.dtype())), DType::kInt32);
  const Tensor count = cumsum(ends, length.name, {.exclusive = true});
  return equal(modulo(count, graph.constant(2, DType::kInt32)), graph.constant(0, DType::kInt32));
}

/// Positions of the inputs part, and the first behind it, are seen by all; the others by those behind them.
Tensor prefix_priority(const Tensor& part, const Dimension& length) {
  Graph& graph = part.graph();
  const Tensor before = shift(cast(part, DType::kInt32), 1, length.name, false);
  const Tensor free = logical_or(part, equal(before, graph.constant(1, DType::kInt32)));
  const Tensor zeros = graph.constant(0, DType::kInt32, part.shape());
  return where(free, zeros, broadcast(range(graph, length), part.shape()));
}

/// The same for a prompt of so many tokens, which stand behind a leading 0.
Tensor prompt_priority(const Tensor& prompt, const Shape& rows, const Dimension& length) {
  const Tensor index = range(prompt.graph(), length);
  return multiply(index, cast(greater(index, prompt, rows), DType::kInt32), rows);
}

}  // namespace

LanguageModel::LanguageModel(const LanguageModelOptions& options, Diagnostics& diagnostics)
    : options_(options), stack_([&] {
        LayerParser parser = parser_of(options, diagnostics);
        return TransformerStack(options, options, parser);
      }()) {}

std::vector<std::string> LanguageModel::optional_features() const {
  return {"targets_segmentation", "targets_position"};
}

std::string_view LanguageModel::inputs_part_setting() const {
  if (options_.loss_on_targets_only) return "loss_on_targets_only: true";
  if (options_.input_full_attention) return "input_full_attention: true";
  return options_.delimited ? "type: delimited_lm" : "";
}

ModelOutput LanguageModel::build(Context& context, const Features& features) const {
  const Tensor& targets = required_feature(features, "targets");
  const Dimension& length = targets.shape().dimension("length");
  const Dimension vocabulary = padded_vocabulary(context, "targets", options_.vocab_divisor);
  const Dimension model{"d_model", options_.d_model};
  const auto embedding = options_.embedding->make(vocabulary, model);
  const auto scope = context.graph().scope(options_.name);
  Sequence sequence{.length = length,
                    .segment = optional_feature(features, "targets_segmentation"),
                    .one_text = context.has_one_text("targets"),
                    .causal = true,
                    .has_priorities = options_.input_full_attention};
  Tensor of_inputs;
  if (options_.input_full_attention || options_.loss_on_targets_only || options_.delimited)
    of_inputs = inputs_part(targets, length);
  if (options_.input_full_attention) {
    const Tensor prompt = optional_feature(features, std::string(kPromptFeature));
    sequence.read_priority = sequence.write_priority =
        prompt ? prompt_priority(prompt, targets.shape(), length) : prefix_priority(of_inputs, length);
  }
  const Tensor ids = autoregressive_inputs(targets, sequence.segment, length);
  const Tensor x = hidden(context, *embedding, ids, optional_feature(features, "targets_position"), sequence);
  const Tensor of_targets = of_inputs ? cast(logical_not(of_inputs), DType::kFloat32) : Tensor{};
  const TokenWeights weights{
      .loss = options_.loss_on_targets_only ? of_targets : Tensor{},
      .metrics = options_.loss_on_targets_only || options_.delimited ? of_targets : Tensor{}};
  const auto logits_of = [&](const Tensor& states) {
    return token_logits(context, options_, *embedding, states, vocabulary);
  };
  ModelOutput output;
  token_loss(context, options_.loss, {x, logits_of, vocabulary.name}, targets, weights, output);
  return output;
}

Tensor LanguageModel::hidden(Context& context, const TokenEmbedding& embedding, const Tensor& ids,
                             const Tensor& position, Sequence& sequence) const {
  Tensor x = stack_.embed(context, embedding, ids);
  x = stack_.add_positions(context, x, position, sequence.length);
  return stack_.layers(context, sequence, x);
}

Tensor LanguageModel::prefill(Context& context, const DecodeSizes& sizes, const Prefill& input) const {
  const Dimension vocabulary = padded_vocabulary(context, "targets", options_.vocab_divisor);
  const auto embedding = options_.embedding->make(vocabulary, {"d_model", options_.d_model});
  const auto scope = context.graph().scope(options_.name);
  const Decoding decoding =
      Decoding::prefill(sizes.beam_dimension(), sizes.memory_dimension(), input.position);
  Sequence sequence{.length = input.prefix.shape().dimension("length"),
                    .causal = true,
                    .has_priorities = options_.input_full_attention,
                    .decoding = &decoding};
  if (options_.input_full_attention) {
    sequence.read_priority = sequence.write_priority =
        prompt_priority(input.prompt, input.prefix.shape(), sequence.length);
  }
  const Tensor x = hidden(context, *embedding, input.prefix, {}, sequence);
  return token_logits(context, options_, *embedding, gather(x, input.position, sequence.length.name),
                      vocabulary);
}

Tensor LanguageModel::step(Context& context, const DecodeSizes& sizes, const Step& input) const {
  const Dimension vocabulary = padded_vocabulary(context, "targets", options_.vocab_divisor);
  const auto embedding = options_.embedding->make(vocabulary, {"d_model", options_.d_model});
  const auto scope = context.graph().scope(options_.name);
  const Decoding decoding = Decoding::step(sizes.beam_dimension(), sizes.memory_dimension(), input.position,
                                           input.parent, input.common, input.shared_prefix);
  Sequence sequence{.length = {"length", sizes.memory},
                    .causal = true,
                    .has_priorities = options_.input_full_attention,
                    .decoding = &decoding};
  const Tensor x = hidden(context, *embedding, input.token, input.position, sequence);
  return token_logits(context, options_, *embedding, x, vocabulary);
}

AlignedModel::AlignedModel(const AlignedOptions& options, Diagnostics& diagnostics)
    : options_(options), stack_([&] {
        LayerParser parser = parser_of(options, diagnostics);
        return TransformerStack(options, options, parser);
      }()) {}

std::vector<std::string> AlignedModel::optional_features() const {
  return {"targets_segmentation", "targets_position"};
}

ModelOutput AlignedModel::build(Context& context, const Features& features) const {
  const Tensor& inputs = required_feature(features, "inputs");
  const Tensor& targets = required_feature(features, "targets");
  if (!same_dimensions(inputs.shape(), targets.shape())) {
    throw Error(
        ErrorKind::kConfig,
        fmt::format("inputs are {} and targets {}", inputs.shape().to_string(), targets.shape().to_string()),
        "an aligned model has one target for each input: the same `data.sequence_length` for both");
  }
  const Dimension& length = targets.shape().dimension("length");
  const Dimension read = padded_vocabulary(context, "inputs", options_.vocab_divisor);
  const Dimension predicted = padded_vocabulary(context, "targets", options_.vocab_divisor);
  check_one_embedding(one_embedding(), read, predicted);
  const Dimension model{"d_model", options_.d_model};
  const auto embedding = options_.embedding->make(read, model);
  const auto scope = context.graph().scope(options_.name);
  Sequence sequence{.length = length, .segment = optional_feature(features, "targets_segmentation")};
  Tensor x = stack_.embed(context, *embedding, inputs);
  x = stack_.add_positions(context, x, optional_feature(features, "targets_position"), length);
  x = stack_.layers(context, sequence, x);
  const auto logits_of = [&](const Tensor& states) {
    return token_logits(context, options_, *embedding, states, predicted);
  };
  ModelOutput output;
  token_loss(context, options_.loss, {x, logits_of, predicted.name}, targets, {}, output);
  return output;
}

std::unique_ptr<Model> LanguageModelOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<LanguageModel>(*this, diagnostics);
}

std::unique_ptr<Model> AlignedOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<AlignedModel>(*this, diagnostics);
}

namespace {

const config::Registration<ModelOptions, LanguageModelOptions> language_model;
const config::Registration<ModelOptions, DelimitedLanguageModelOptions> delimited_language_model;
const config::Registration<ModelOptions, AlignedOptions> aligned_model;

}  // namespace
}  // namespace mtf
