#include "models/bitransformer.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/component_wise.h"
#include "engine/ops/reshape.h"
#include "layers/attention.h"

namespace mtf {

void describe(config::Visitor& visit, BitransformerOptions& options) {
  visit("encoder", options.encoder, "layers over the inputs");
  visit("decoder", options.decoder, "layers over the targets");
  visit("shared_embedding", options.shared_embedding,
        "inputs and targets have one embedding, and one table of learned positions");
  describe_token_model(visit, options);
}

namespace {

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

}  // namespace

Bitransformer::Bitransformer(const BitransformerOptions& options, Diagnostics& diagnostics)
    : options_(options),
      encoder_(make_stack(options, options.encoder, diagnostics, "encoder")),
      decoder_(make_stack(options, options.decoder, diagnostics, "decoder")) {}

std::vector<std::string> Bitransformer::optional_features() const {
  return {"inputs_segmentation", "inputs_position", "targets_segmentation", "targets_position"};
}

bool Bitransformer::shares_positions() const {
  return options_.shared_embedding && options_.positions == Positions::kLearned;
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

ModelOutput Bitransformer::build(Context& context, const Features& features) const {
  Graph& graph = context.graph();
  const Tensor& inputs = required_feature(features, "inputs");
  const Tensor& targets = required_feature(features, "targets");
  const Dimension model{"d_model", options_.d_model};
  const Dimension source = padded_vocabulary(context, "inputs", options_.vocab_divisor);
  const Dimension target = padded_vocabulary(context, "targets", options_.vocab_divisor);
  if (options_.shared_embedding && source != target) {
    throw Error(ErrorKind::kConfig,
                fmt::format("one embedding cannot serve {} ids of inputs and {} of targets", source.size,
                            target.size),
                "one vocabulary for both, or `model.shared_embedding: false`");
  }
  const auto source_embedding = make_embedding(options_.embedding, source, model);
  const auto target_embedding = make_embedding(options_.embedding, target, model);

  const Dimension& source_length = inputs.shape().dimension("length");
  Sequence encoder{.length = source_length, .segment = segments(features, "inputs", inputs)};
  Tensor memory = read(context, encoder_, "encoder", *source_embedding, inputs,
                       optional_feature(features, "inputs_position"), source_length);
  {
    const auto scope = graph.scope("encoder");
    memory = encoder_.layers(context, encoder, memory);
  }

  const std::string memory_length(kMemoryLength);
  const Dimension& length = targets.shape().dimension("length");
  Sequence decoder{.length = length,
                   .segment = segments(features, "targets", targets),
                   .causal = true,
                   .memory = rename(memory, "length", memory_length),
                   .memory_segment = rename(encoder.segment, "length", memory_length)};
  const Tensor ids = autoregressive_inputs(targets, decoder.segment, length);
  Tensor x = read(context, decoder_, "decoder", *target_embedding, ids,
                  optional_feature(features, "targets_position"), length);
  ModelOutput output;
  {
    const auto scope = graph.scope("decoder");
    x = decoder_.layers(context, decoder, x);
    if (!options_.shared_embedding_and_softmax)
      output.logits = token_logits(context, options_, *target_embedding, x, target);
  }
  if (options_.shared_embedding_and_softmax) {
    const auto scope = graph.scope(options_.shared_embedding ? "shared" : "decoder");
    output.logits = token_logits(context, options_, *target_embedding, x, target);
  }
  const auto scope = graph.scope("loss");
  token_loss(context, options_.loss, targets, {}, target.name, output);
  return output;
}

}  // namespace mtf
