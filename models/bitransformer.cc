#include "models/bitransformer.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/counted.h"
#include "engine/ops/binary.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "layers/attention.h"

namespace mtf {

void describe(config::Visitor& visit, AlignmentOptions& options) {
  visit("weight", options.weight,
        "factor of the loss of guided alignment, the cross-entropy between the alignments of the data and "
        "the attention; 0: there is none",
        config::non_negative, config::reported_on_resume);
  visit("layer", options.layer,
        "block of the decoder, from 0, whose attention to the encoder tells the alignment (default: the one "
        "before the last)",
        config::non_negative, config::reported_on_resume);
  visit("heads", options.heads,
        "so many of the attention's first heads are averaged (default: 1 with a weight, else all)",
        config::positive, config::reported_on_resume);
}

config::EnumNames enum_names(DecoderStart) {
  return {{"padding", DecoderStart::kPadding}, {"end", DecoderStart::kEnd}};
}

void describe(config::Visitor& visit, BitransformerOptions& options) {
  visit("encoder", options.encoder, "layers over the inputs");
  visit("decoder", options.decoder, "layers over the targets");
  visit("shared_embedding", options.shared_embedding, "inputs and targets have one embedding");
  visit("shared_positions", options.shared_positions,
        "inputs and targets have one table of learned positions (default: as `shared_embedding`)");
  visit("decoder_start", options.decoder_start,
        "what the decoder reads before the first token: padding (id 0), or end, the end of sequence (id 1), "
        "as BART does");
  visit("alignment", options.alignment,
        "which of the decoder's attentions tells the alignment of tokens, and how much it is taught");
  describe_token_model(visit, options);
  visit.check([&options](const config::Report& report) {
    const std::optional<int64_t>& layer = options.alignment.layer;
    if (!layer || *layer < options.decoder.num_layers) return;
    report.error("alignment.layer",
                 fmt::format("`alignment.layer` is {}, and the decoder has {}", *layer,
                             counted(options.decoder.num_layers, "block")),
                 fmt::format("0 to {}", options.decoder.num_layers - 1));
  });
}

namespace {

/// The id of the end of a text.
constexpr int32_t kEndOfSequence = 1;

TransformerStack make_stack(const BitransformerOptions& options, const StackOptions& side,
                            Diagnostics& diagnostics, const std::string& name) {
  LayerParser parser(options.layer_defaults, options.blocks, diagnostics, "model." + name);
  return {side, options, parser};
}

/// The segments of a feature; without them 1 where there is a token.
Tensor segments(const Features& features, const std::string& name, const Tensor& ids) {
  const Tensor given = optional_feature(features, name + "_segmentation");
  return given ? given : minimum(ids, ids.graph().constant(1, ids.dtype()));
}

/// Throws Error where the data have no alignments.
const Tensor& guide(const Features& features) {
  const auto found = features.find(std::string(kGuideFeature));
  if (found != features.end()) return found->second;
  throw Error(ErrorKind::kConfig, "`model.alignment.weight` needs alignments, which the data do not have",
              "`alignments` in `data.train`, files beside those of a `parallel` source; or `weight: 0`");
}

}  // namespace

Bitransformer::Bitransformer(const BitransformerOptions& options, Diagnostics& diagnostics)
    : options_(options),
      encoder_(make_stack(options, options.encoder, diagnostics, "encoder")),
      decoder_(make_stack(options, options.decoder, diagnostics, "decoder")) {}

std::vector<std::string> Bitransformer::optional_features() const {
  std::vector<std::string> names{"inputs_segmentation", "inputs_position", "targets_segmentation",
                                 "targets_position"};
  if (options_.alignment.weight > 0) names.emplace_back(kGuideFeature);
  return names;
}

bool Bitransformer::shares_positions() const {
  return options_.shared_positions.value_or(options_.shared_embedding) &&
         options_.positions == Positions::kLearned;
}

int32_t Bitransformer::start_token() const {
  return options_.decoder_start == DecoderStart::kPadding ? 0 : kEndOfSequence;
}

Tensor Bitransformer::begun(const Tensor& ids) const {
  if (options_.decoder_start == DecoderStart::kPadding) return ids;
  // Padding behind a text becomes the end of sequence, too; nothing looks at it.
  return maximum(ids, ids.graph().constant(kEndOfSequence, ids.dtype()));
}

Alignment Bitransformer::alignment() const {
  const AlignmentOptions& options = options_.alignment;
  const int64_t before_last = std::max<int64_t>(options_.decoder.num_layers - 2, 0);
  return {.block = options.layer.value_or(before_last),
          .heads = options.heads || options.weight == 0 ? options.heads : 1};
}

Tensor Bitransformer::read(Context& context, const TransformerStack& stack, const std::string& side,
                           const TokenEmbedding& embedding, const Tensor& ids, const Tensor& position,
                           const Dimension& length) const {
  Tensor x;
  {
    const auto scope = context.graph().scope(options_.shared_embedding ? "shared" : side);
    x = stack.embed(context, embedding, ids);
  }
  const auto scope = context.graph().scope(shares_positions() ? "shared" : side);
  return stack.add_positions(context, x, position, length);
}

Bitransformer::Tables Bitransformer::tables(const Context& context) const {
  const Dimension model{"d_model", options_.d_model};
  const Dimension source = padded_vocabulary(context, "inputs", options_.vocab_divisor);
  const Dimension target = padded_vocabulary(context, "targets", options_.vocab_divisor);
  check_one_embedding(one_embedding(), source, target);
  return {source, target, options_.embedding->make(source, model), options_.embedding->make(target, model)};
}

Bitransformer::Memory Bitransformer::encode(Context& context, const Tables& tables,
                                            const Features& features) const {
  const Tensor& inputs = required_feature(features, "inputs");
  const Dimension& length = inputs.shape().dimension("length");
  Sequence sequence{.length = length, .segment = segments(features, "inputs", inputs)};
  Tensor x = read(context, encoder_, "encoder", *tables.read, inputs,
                  optional_feature(features, "inputs_position"), length);
  const auto scope = context.graph().scope("encoder");
  x = encoder_.layers(context, sequence, x);
  const std::string memory(kMemoryLength);
  std::vector<Tensor> layers;
  for (const Tensor& output : sequence.layer_outputs) layers.push_back(rename(output, length.name, memory));
  return {rename(x, length.name, memory), rename(sequence.segment, length.name, memory),
          rename(inputs, length.name, memory), std::move(layers)};
}

Tensor Bitransformer::decode(Context& context, const Tables& tables, Sequence& sequence, const Tensor& ids,
                             const Tensor& position) const {
  const Tensor x = read(context, decoder_, "decoder", *tables.written, ids, position, sequence.length);
  const auto scope = context.graph().scope("decoder");
  return decoder_.layers(context, sequence, x);
}

Tensor Bitransformer::logits(Context& context, const Tables& tables, const Tensor& hidden) const {
  const bool of_both = options_.shared_embedding_and_softmax && options_.shared_embedding;
  const auto scope = context.graph().scope(of_both ? "shared" : "decoder");
  return token_logits(context, options_, *tables.written, hidden, tables.target);
}

ModelOutput Bitransformer::build(Context& context, const Features& features) const {
  required_feature(features, "inputs");
  const Tensor& targets = required_feature(features, "targets");
  const Tables embeddings = tables(context);
  const Memory memory = encode(context, embeddings, features);
  const Dimension& length = targets.shape().dimension("length");
  Sequence sequence{.length = length,
                    .segment = segments(features, "targets", targets),
                    .one_text = context.has_one_text("targets"),
                    .causal = true,
                    .memory = memory.states,
                    .memory_segment = memory.segment,
                    .memory_ids = memory.ids,
                    .memory_layers = memory.layers};
  const Tensor ids = begun(autoregressive_inputs(targets, sequence.segment, length));
  sequence.ids = ids;
  Alignment alignment = this->alignment();
  const bool is_guided = context.training() && options_.alignment.weight > 0;
  if (is_guided) {
    alignment.guide = guide(features);
    alignment.loss_scale =
        options_.alignment.weight /
        (static_cast<double>(context.batch().size) * token_loss_denominator(context, options_.loss, targets));
  }
  if (is_guided || !context.training()) sequence.alignment = &alignment;
  const Tensor hidden =
      decode(context, embeddings, sequence, ids, optional_feature(features, "targets_position"));
  if (is_guided && !alignment.weights) {
    throw Error(
        ErrorKind::kConfig,
        fmt::format("`model.alignment`: block {} of the decoder has no EncDecAttention", alignment.block),
        "`model.alignment.layer` with a block that has one, or `weight: 0`");
  }
  ModelOutput output;
  if (!is_guided) output.alignment = alignment.weights;
  const auto logits_of = [&](const Tensor& states) { return logits(context, embeddings, states); };
  token_loss(context, options_.loss, {hidden, logits_of, embeddings.target.name}, targets, {}, output);
  return output;
}

Tensor Bitransformer::prefill(Context& context, const DecodeSizes& sizes, const Prefill& input) const {
  const Tables embeddings = tables(context);
  const Memory memory = encode(context, embeddings, {{"inputs", input.inputs}});
  const Decoding decoding =
      Decoding::prefill(sizes.beam_dimension(), sizes.memory_dimension(), input.position);
  decoding.keep(context, "memory_segment", memory.segment);
  Sequence sequence{.length = input.prefix.shape().dimension("length"),
                    .causal = true,
                    .memory = memory.states,
                    .memory_segment = memory.segment,
                    .decoding = &decoding,
                    .memory_layers = memory.layers};
  const Tensor hidden = decode(context, embeddings, sequence, begun(input.prefix), {});
  return logits(context, embeddings, gather(hidden, input.position, sequence.length.name));
}

Tensor Bitransformer::step(Context& context, const DecodeSizes& sizes, const Step& input) const {
  const Tables embeddings = tables(context);
  const Decoding decoding = Decoding::step(sizes.beam_dimension(), sizes.memory_dimension(), input.position,
                                           input.parent, input.common, input.shared_prefix);
  const Shape memory{context.batch(), {std::string(kMemoryLength), sizes.inputs}};
  Sequence sequence{.length = {"length", sizes.memory},
                    .causal = true,
                    .memory_segment = decoding.kept(context, "memory_segment", memory, DType::kInt32),
                    .decoding = &decoding};
  return logits(context, embeddings, decode(context, embeddings, sequence, input.token, input.position));
}

std::unique_ptr<Model> BitransformerOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Bitransformer>(*this, diagnostics);
}

namespace {

const config::Registration<ModelOptions, BitransformerOptions> bitransformer;

}  // namespace
}  // namespace mtf
