#include <fmt/format.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "layers/alibi.h"
#include "layers/alignment.h"
#include "layers/attention.h"
#include "layers/causal_convolution.h"
#include "layers/dropout.h"
#include "layers/registry.h"
#include "layers/relative_bias.h"
#include "layers/rotary.h"
#include "layers/span_positions.h"

namespace mtf {
namespace {

/// The keys of rotary positions.
template <class Options>
void describe_rotary_heads(config::Visitor& visit, Options& options) {
  describe_rotary(visit, options);
  visit.check([&options](const config::Report& report) {
    if (!options.rotary) return;
    if (!options.rotary_size && options.key_value_size % 2 != 0)
      report.error("key_value_size", "rotary positions need an even size", "an even number");
    if (options.rotary_size.value_or(0) > options.key_value_size)
      report.error("rotary_size", fmt::format("a head has only {} entries", options.key_value_size),
                   "at most `key_value_size`");
    const int64_t turned = options.rotary_size.value_or(options.key_value_size);
    const auto pairs = options.rotary_scaling ? (*options.rotary_scaling)->pairs() : std::nullopt;
    if (pairs && 2 * *pairs != turned)
      report.error(
          "rotary_scaling",
          fmt::format("it has numbers for {} pairs of entries, and {} entries are turned", *pairs, turned),
          fmt::format("lists of {} numbers", turned / 2));
  });
}

struct SelfAttentionOptions : HeadOptions, RelativeBiasOptions, RotaryOptions {
  bool alibi = false;
};

/// What needs logits that are those of distances, and not those of positions.
void check_alibi(config::Visitor& visit, SelfAttentionOptions& options) {
  visit.check([&options](const config::Report& report) {
    if (!options.alibi) return;
    const auto refuse = [&](bool is_given, const char* key, const char* right) {
      if (is_given) report.error(key, "it cannot stand beside `alibi: true`", right);
    };
    refuse(options.rotary, "rotary", "one kind of positions");
    refuse(options.relative_attention_type != RelativeAttention::kNone, "relative_attention_type", "none");
    refuse(options.soft_cap.has_value(), "soft_cap", "null");
    refuse(options.extra_logit.has_value(), "extra_logit", "null");
    refuse(options.prefix_length > 0, "prefix_length", "0");
    refuse(options.z_loss.value_or(0) > 0, "z_loss", "null");
  });
}

void describe(config::Visitor& visit, SelfAttentionOptions& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  describe_relative_bias(
      visit, options,
      "adds a learned number for each head and distance: `bias` a table for each layer, `bias_shared` one "
      "for all layers whose heads have the same dimensions");
  describe_convolution(visit, options);
  describe_rotary_heads(visit, options);
  visit(
      "alibi", options.alibi,
      "logits of each head fall linearly with the distance, by slopes that are not learned (BLOOM); where no "
      "later token is seen");
  check_alibi(visit, options);
}

struct LocalSelfAttentionOptions : HeadOptions, RotaryOptions {
  int64_t radius = 128;
  bool symmetric = false;
};

void describe(config::Visitor& visit, LocalSelfAttentionOptions& options) {
  visit("radius", options.radius,
        "positions nearer than this are seen, and where later ones are seen, too, those up to it",
        config::positive);
  visit("symmetric", options.symmetric,
        "later positions are seen as far as earlier ones, those nearer than `radius` (ModernBERT)");
  describe_convolution(visit, options);
  describe_rotary_heads(visit, options);
  describe(visit, static_cast<HeadOptions&>(options));
}

/// The shape of the weights without the query's position. `length`: of the memory.
Shape noise_shape(const Tensor& memory, std::string_view length, const Shape& heads) {
  const Dimension positions = memory.shape().dimension(length);
  Shape shape;
  for (const Dimension& d : memory.shape()) {
    if (d.name == positions.name) break;
    shape = shape + Shape{d};
  }
  return shape + heads + Shape{positions};
}

/// Self-attention, local or not. The memory is called mixing.memory_length.
struct SelfAttention {
  const HeadOptions& options;
  AttentionOptions mixing;
  bool has_alibi = false;

  LayerTensor operator()(Context& context, const LayerTensor& x, const Tensor& bias_table,
                         const RotaryOptions& rotary) {
    const Sequence& sequence = context.sequence("self-attention");
    const std::string& length = sequence.length.name;
    const Dimension model = context.made(x)[0];
    const AttentionProjections projections(context, options, model);
    const Tensor memory = sequence.is_step() ? Tensor(x) : as_memory(x, length);
    AttentionInputs inputs;
    const AttentionMixing mix(context, options, projections);
    const std::string& memory_length = mixing.memory_length;
    inputs.q = convolved(context, "q_conv", projections.query(x), projections.query_heads(), length);
    inputs.k =
        convolved(context, "k_conv", projections.key(memory), projections.memory_heads(), memory_length);
    inputs.v = options.shared_kv ? inputs.k
                                 : convolved(context, "v_conv", projections.value(memory),
                                             projections.memory_heads(), memory_length);
    inputs.q = mix.query(inputs.q);
    inputs.k = mix.key(inputs.k);
    const Tensor prefix_query = inputs.q;
    if (sequence.decoding == nullptr) check_rotary_row(rotary, sequence.length.size, "self-attention");
    if (rotary.rotary) {
      inputs.q = rotate(inputs.q, position(sequence, inputs.q, length), rotary);
      inputs.k = rotate(inputs.k, position(sequence, inputs.k, memory_length), rotary);
    }
    if (has_alibi) {
      add_alibi(inputs, projections.query_heads(), position(sequence, inputs.k, memory_length));
      mixing.key = kAlibiKey;
    }
    if (sequence.decoding != nullptr) remember(context, *sequence.decoding, inputs);
    if (sequence.is_step()) {
      inputs.query_priority = inputs.query_position = sequence.decoding->position();
      inputs.shared_prefix = sequence.decoding->shared_prefix();
      if (inputs.shared_prefix) mixing.copies = sequence.decoding->beam().name;
    } else {
      inputs.query_segment = sequence.segment;
      inputs.memory_segment = as_memory(sequence.segment, length);
      inputs.query_priority = sequence.read_priority;
      inputs.memory_priority = as_memory(sequence.write_priority, length);
    }
    inputs.bias_table = bias_table;
    if (context.training()) {
      inputs.noise = weight_noise(context, noise_shape(memory, memory_length, projections.query_heads()),
                                  options.dropout);
    }
    mixing.query_length = length;
    mixing.extra_logit = options.extra_logit;
    mixing.causal = sequence.causal && !sequence.read_priority;
    mixing.one_text = mixing.causal && sequence.one_text && !sequence.is_step();
    return {projections.output(mix(inputs, mixing, prefix_query, sequence.mask, options.dropout)), {model}};
  }

 private:
  Tensor convolved(Context& context, const std::string& name, const Tensor& x, const Shape& heads,
                   const std::string& length) const {
    if (options.convolution_width == 0) return x;
    const Shape channels = heads + Shape{x.shape().dimension("d_kv")};
    return causal_convolution(context, name, x, channels, options.convolution_width, length);
  }

  Tensor as_memory(const Tensor& x, const std::string& length) const {
    return x ? rename(x, length, mixing.memory_length) : Tensor{};
  }

  /// Where the entries of x stand.
  static Tensor position(const Sequence& sequence, const Tensor& x, const std::string& length) {
    return sequence.is_step() ? sequence.decoding->position() : range(x.graph(), x.shape().dimension(length));
  }

  /// Keys and values become all that there are so far.
  static void remember(Context& context, const Decoding& decoding, AttentionInputs& inputs) {
    const bool shared = inputs.v == inputs.k;
    inputs.k = decoding.remember(context, "key_cache", inputs.k);
    inputs.v = shared ? inputs.k : decoding.remember(context, "value_cache", inputs.v);
  }
};

class SelfAttentionLayer final : public Layer {
 public:
  using Options = SelfAttentionOptions;
  explicit SelfAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    AttentionOptions mixing;
    mixing.bidirectional = context.sequence("SelfAttention").looks_ahead();
    const Dimension model = context.made(x)[0];
    const Shape heads = AttentionProjections(context, options_, model).query_heads();
    const Tensor table = RelativeBias{options_}.table(context, heads, mixing);
    if (options_.alibi && mixing.bidirectional)
      throw Error(ErrorKind::kConfig, "SelfAttention with `alibi: true` sees later tokens",
                  "a model whose tokens see only those before them, such as `lm`");
    return SelfAttention{options_, mixing, options_.alibi}(context, x, table, options_);
  }

 private:
  Options options_;
};

class LocalSelfAttentionLayer final : public Layer {
 public:
  using Options = LocalSelfAttentionOptions;
  explicit LocalSelfAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    AttentionOptions mixing;
    mixing.min_relative = 1 - options_.radius;
    const Sequence& sequence = context.sequence("LocalSelfAttention");
    if (sequence.looks_ahead()) mixing.max_relative = options_.radius - (options_.symmetric ? 1 : 0);
    // The length keeps its name, so that it is not gathered where it is split; caches have one of their own.
    if (sequence.decoding == nullptr) mixing.memory_length = sequence.length.name;
    return SelfAttention{options_, mixing}(context, x, {}, options_);
  }

 private:
  Options options_;
};

struct EncDecAttentionOptions : HeadOptions, RelativeBiasOptions {
  int64_t num_sentinels = 0;
};

void describe(config::Visitor& visit, EncDecAttentionOptions& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  describe_relative_bias(
      visit, options,
      "adds a learned number for each head and distance between a token's span and the encoder's position, "
      "in span corruption");
  visit("num_sentinels", options.num_sentinels,
        "so many of the last ids of the vocabulary begin a span (with relative_attention_type)",
        config::non_negative);
  visit.check([&options](const config::Report& report) {
    if (options.relative_attention_type != RelativeAttention::kNone && options.num_sentinels == 0)
      report.error("relative_attention_type",
                   "`relative_attention_type` of EncDecAttention needs `num_sentinels`: positions are those "
                   "of spans, which sentinels begin",
                   "`num_sentinels: 100`, or as many as `extra_ids` of `data.vocabulary`");
  });
}

/// Attention of the decoder to one memory of the encoder.
struct EncDecAttention {
  const EncDecAttentionOptions& options;

  /// memory: [batch, memory_length, d_model]; null in a step.
  LayerTensor operator()(Context& context, const LayerTensor& x, const Tensor& memory) const {
    const Sequence& sequence = context.sequence("EncDecAttention");
    const Dimension model = context.made(x)[0];
    const AttentionProjections projections(context, options, model);
    const AttentionMixing mix(context, options, projections);
    AttentionInputs inputs;
    inputs.q = mix.query(projections.query(x));
    if (sequence.is_step()) {
      const Dimension length = sequence.memory_segment.shape().dimension(kMemoryLength);
      const Shape shape =
          Shape{context.batch(), length} + projections.memory_heads() + Shape{projections.key_dimension()};
      inputs.k = sequence.decoding->kept(context, "memory_keys", shape, inputs.q.dtype());
      inputs.v = options.shared_kv
                     ? inputs.k
                     : sequence.decoding->kept(context, "memory_values", shape, inputs.q.dtype());
    } else {
      check_memory(sequence, memory, model);
      inputs.k = mix.key(projections.key(memory));
      inputs.v = options.shared_kv ? inputs.k : projections.value(memory);
    }
    if (sequence.decoding != nullptr && !sequence.is_step()) {
      sequence.decoding->keep(context, "memory_keys", inputs.k);
      if (!options.shared_kv) sequence.decoding->keep(context, "memory_values", inputs.v);
    }
    inputs.memory_segment = sequence.memory_segment;
    inputs.query_segment = sequence.segment
                               ? sequence.segment
                               : context.graph().constant(1, DType::kInt32, Shape{context.batch()});
    if (context.training())
      inputs.noise = weight_noise(context, noise_shape(memory, kMemoryLength, projections.query_heads()),
                                  options.dropout);
    AttentionOptions mixing;
    mixing.query_length = sequence.length.name;
    mixing.extra_logit = options.extra_logit;
    const RelativeBias bias{options, "enc_dec_relative_attention_bias"};
    inputs.bias_table = bias.table(context, projections.query_heads(), mixing);
    if (inputs.bias_table) add_span_positions(context, sequence, inputs);
    mixing.soft_cap = options.soft_cap;
    if (tells_alignment(sequence))
      add_alignment(context, inputs, mixing, projections.query_heads(), *sequence.alignment);
    return {projections.output(mix(inputs, mixing, inputs.q, sequence.mask, options.dropout)), {model}};
  }

 private:
  static bool tells_alignment(const Sequence& sequence) {
    return sequence.alignment != nullptr && sequence.alignment->block == sequence.block_number &&
           !sequence.alignment->weights;
  }

  static void check_memory(const Sequence& sequence, const Tensor& memory, const Dimension& model) {
    if (!sequence.memory) {
      throw Error(ErrorKind::kConfig, "EncDecAttention has no encoder to look at",
                  "it belongs into the decoder of a bitransformer");
    }
    if (memory.shape().dimension(model.name) != model) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("EncDecAttention: the decoder has {}={}, the encoder {}", model.name,
                              model.size, memory.shape().dimension(model.name).size),
                  "the same `d_model` for both");
    }
  }

  /// The buckets are those of the token's place in the encoder's text, less the encoder's position. While a text is
  /// written the place counts as 0.
  void add_span_positions(Context& context, const Sequence& sequence, AttentionInputs& inputs) const {
    Graph& graph = context.graph();
    const Dimension memory = inputs.memory_segment.shape().dimension(kMemoryLength);
    inputs.memory_position = negative(range(graph, memory));
    inputs.query_position = graph.constant(0, DType::kInt32);
    if (!sequence.ids || !sequence.memory_ids) return;
    const int64_t vocabulary = context.vocabulary("inputs");
    inputs.query_position =
        negative(span_positions(sequence.ids, sequence.segment, sequence.memory_ids, sequence.memory_segment,
                                vocabulary - options.num_sentinels));
  }
};

class EncDecAttentionLayer final : public Layer {
 public:
  using Options = EncDecAttentionOptions;
  explicit EncDecAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    return EncDecAttention{options_}(context, x, context.sequence("EncDecAttention").memory);
  }

 private:
  Options options_;
};

struct TransparentOptions : EncDecAttentionOptions {
  int64_t layers_per_encoder_module = 0, layers_per_decoder_module = 0;
  int64_t encoder_num_modules = 0, decoder_num_modules = 0;
  double mixing_dropout = 0;
};

void describe(config::Visitor& visit, TransparentOptions& options) {
  visit("layers_per_encoder_module", options.layers_per_encoder_module,
        "every so many layers of the encoder one result is taken", config::positive, config::required);
  visit("encoder_num_modules", options.encoder_num_modules, "how many are taken, beside the encoder's input",
        config::positive, config::required);
  visit("layers_per_decoder_module", options.layers_per_decoder_module,
        "so many layers of the decoder share a mixture", config::positive, config::required);
  visit("decoder_num_modules", options.decoder_num_modules, "how many mixtures there are", config::positive,
        config::required);
  visit("mixing_dropout", options.mixing_dropout, "rate for the weights of the mixtures", config::probability,
        config::reported_on_resume);
  describe(visit, static_cast<EncDecAttentionOptions&>(options));
}

class TransparentAttentionLayer final : public Layer {
 public:
  using Options = TransparentOptions;
  explicit TransparentAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    Sequence& sequence = context.sequence("TransparentEncDecAttention");
    return EncDecAttention{options_}(context, x, sequence.is_step() ? Tensor{} : mixture(context, sequence));
  }

 private:
  /// Sum over the encoder's modules of softmax(w) times their results, for the decoder's module in hand.
  Tensor mixture(Context& context, Sequence& sequence) const {
    const Dimension outputs{"encoder_module_outputs", options_.encoder_num_modules + 1};
    const int64_t last = options_.encoder_num_modules * options_.layers_per_encoder_module;
    if (static_cast<int64_t>(sequence.memory_layers.size()) != last + 1) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("TransparentEncDecAttention: {} modules of {} layers, and the encoder has {} layers",
                      options_.encoder_num_modules, options_.layers_per_encoder_module,
                      static_cast<int64_t>(sequence.memory_layers.size()) - 1),
          "`encoder_num_modules` times `layers_per_encoder_module` is the number of its layers");
    }
    const int64_t module = sequence.layer_number / options_.layers_per_decoder_module;
    if (module >= options_.decoder_num_modules) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("TransparentEncDecAttention: layer {} of the decoder is in module {}, and there are {}",
                      sequence.layer_number, module, options_.decoder_num_modules),
          "a larger `decoder_num_modules` or `layers_per_decoder_module`");
    }
    const Tensor share = gather(shares(context, sequence, outputs), module, "decoder_module_inputs");
    Tensor sum;
    for (int64_t i = 0; i < outputs.size; ++i) {
      const Tensor& output =
          sequence.memory_layers[static_cast<size_t>(i * options_.layers_per_encoder_module)];
      const Tensor weight = cast(gather(share, i, outputs.name), output.dtype());
      const Tensor term = multiply(output, weight, output.shape());
      sum = sum ? add(sum, term) : term;
    }
    return sum;
  }

  /// float32 [encoder_module_outputs, decoder_module_inputs], made by the first such layer.
  Tensor shares(Context& context, Sequence& sequence, const Dimension& outputs) const {
    Tensor& shared = sequence.shared["TransparentEncDecAttention"];
    if (shared) return shared;
    const Shape shape{outputs, {"decoder_module_inputs", options_.decoder_num_modules}};
    const double stddev = 1 / std::sqrt(static_cast<double>(outputs.size));
    const Tensor w = cast(context.variable("w", shape, Initializer::normal(stddev)), DType::kFloat32);
    shared = softmax(dropout(context, w, options_.mixing_dropout), outputs.name);
    return shared;
  }

  Options options_;
};

const LayerRegistration<SelfAttentionLayer> self_registration(
    "SelfAttention",
    "weights = softmax over memory_length of (q · k + bias, where visible), y = (dropout(weights) · v) o\n"
    "q = x q, k = x k, v = x v; q, k, v: [d_model, heads * d_kv], o: [heads * d_kv, d_model]\n"
    "(combine_dims: false: [d_model, heads, d_kv] and [heads, d_kv, d_model])",
    {"attention", "multi_head_attention", "multihead_attention", "mha", "causal_self_attention"});
const LayerRegistration<LocalSelfAttentionLayer> local_registration(
    "LocalSelfAttention",
    "SelfAttention among positions less than `radius` apart; where `length` is split, neighbours exchange\n"
    "`radius` entries",
    {"local_attention", "sliding_window_attention", "banded_attention"});
const LayerRegistration<EncDecAttentionLayer> encoder_registration(
    "EncDecAttention", "as SelfAttention, with k and v of the encoder's output",
    {"cross_attention", "encoder_decoder_attention", "enc_dec_attention", "source_attention"});
const LayerRegistration<TransparentAttentionLayer> transparent_registration(
    "TransparentEncDecAttention",
    "EncDecAttention to z = sum over i of softmax(w)[i, module of this layer] * result of the encoder's "
    "module i\n"
    "w: [encoder_module_outputs, decoder_module_inputs], of the first such layer. Bapna et al., 2018, eq. 7",
    {"transparent_attention"});

}  // namespace
}  // namespace mtf
