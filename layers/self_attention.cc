#include <fmt/format.h>

#include <cmath>

#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "layers/attention.h"
#include "layers/causal_convolution.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct SelfAttentionOptions : HeadOptions {
  RelativeAttention relative_attention_type = RelativeAttention::kNone;
  int64_t relative_attention_num_buckets = 32;
  bool rotary = false;
  double rotary_base = 10000;
};

void describe(config::Visitor& visit, SelfAttentionOptions& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  visit("relative_attention_type", options.relative_attention_type,
        "adds a learned number for each head and distance: `bias` a table for each layer, `bias_shared` one "
        "for all");
  visit("relative_attention_num_buckets", options.relative_attention_num_buckets,
        "classes of distances: near ones apart, far ones together, from 128 on alike", config::positive);
  describe_convolution(visit, options);
  visit("rotary", options.rotary, "turns queries and keys by their positions");
  visit("rotary_base", options.rotary_base, "of the wavelengths, from 2 pi to 2 pi base", config::positive);
  visit.check([&options](const config::Report& report) {
    if (options.rotary && options.key_value_size % 2 != 0)
      report.error("key_value_size", "rotary positions need an even size", "an even number");
  });
}

struct LocalSelfAttentionOptions : HeadOptions {
  int64_t radius = 128;
};

void describe(config::Visitor& visit, LocalSelfAttentionOptions& options) {
  visit("radius", options.radius, "positions nearer than this see each other", config::positive);
  describe_convolution(visit, options);
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

  LayerTensor operator()(Context& context, const LayerTensor& x, const Tensor& bias_table,
                         const std::optional<double>& rotary_base) {
    const Sequence& sequence = context.sequence("self-attention");
    const std::string& length = sequence.length.name;
    const Dimension model = context.made(x)[0];
    const AttentionProjections projections(context, options, model);
    const Tensor memory = sequence.is_step() ? Tensor(x) : as_memory(x, length);
    AttentionInputs inputs;
    const AttentionMixing mix(context, options, projections);
    const std::string& memory_length = mixing.memory_length;
    inputs.q = convolved(context, "q_conv", projections.query(x), projections.query_heads(), length);
    inputs.k = convolved(context, "k_conv", projections.key(memory), projections.memory_heads(), memory_length);
    inputs.v = options.shared_kv ? inputs.k
                                 : convolved(context, "v_conv", projections.value(memory),
                                             projections.memory_heads(), memory_length);
    inputs.q = mix.query(inputs.q);
    inputs.k = mix.key(inputs.k);
    const Tensor prefix_query = inputs.q;
    if (rotary_base) {
      inputs.q = rotate(inputs.q, position(sequence, inputs.q, length), *rotary_base);
      inputs.k = rotate(inputs.k, position(sequence, inputs.k, std::string(kMemoryLength)), *rotary_base);
    }
    if (sequence.decoding != nullptr) remember(context, *sequence.decoding, inputs);
    if (sequence.is_step()) {
      inputs.query_priority = inputs.query_position = sequence.decoding->position();
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
    check_buckets(mixing);
    std::optional<double> rotary;
    if (options_.rotary) rotary = options_.rotary_base;
    return SelfAttention{options_, mixing}(context, x, bias_table(context), rotary);
  }

 private:
  /// Half of each direction's buckets are for one distance each, and those end before the farthest one.
  void check_buckets(const AttentionOptions& mixing) const {
    const int64_t buckets = options_.relative_attention_num_buckets, factor = mixing.bidirectional ? 4 : 2;
    const int64_t most = factor * (mixing.max_distance - 1);
    if (options_.relative_attention_type == RelativeAttention::kNone) return;
    if (buckets % factor == 0 && buckets <= most) return;
    throw Error(ErrorKind::kConfig, fmt::format("`relative_attention_num_buckets` cannot be {}", buckets),
                fmt::format("a multiple of {} up to {}", factor, most));
  }

  Tensor bias_table(Context& context) const {
    if (options_.relative_attention_type == RelativeAttention::kNone) return {};
    Tensor own;
    const bool shared = options_.relative_attention_type == RelativeAttention::kBiasShared;
    Tensor& table = shared ? context.sequence("SelfAttention").shared[key()] : own;
    if (table) return table;
    const HeadOptions& heads = options_;
    const Shape shape = AttentionProjections(context, heads, {"d_model", 1}).query_heads() +
                        Shape{{"buckets", options_.relative_attention_num_buckets}};
    table = context.variable("relative_attention_bias", shape, glorot(shape));
    return table;
  }

  std::string key() const {
    return fmt::format("relative_attention_bias {} {} {}", options_.num_heads, options_.num_memory_heads,
                       options_.relative_attention_num_buckets);
  }

  /// Fan-in and fan-out are the last two dimensions; those before them are a field that both see.
  static Initializer glorot(const Shape& shape) {
    const int rank = shape.rank();
    const auto size = [&](int axis) { return axis < 0 ? 1.0 : static_cast<double>(shape[axis].size); };
    double field = 1;
    for (int axis = 0; axis < rank - 2; ++axis) field *= size(axis);
    const double in = rank == 1 ? size(0) : size(rank - 2);
    return Initializer::uniform(std::sqrt(6 / (field * (in + size(rank - 1)))));
  }

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
    if (sequence.looks_ahead()) mixing.max_relative = options_.radius;
    // The length keeps its name, so that it is not gathered where it is split; caches have one of their own.
    if (sequence.decoding == nullptr) mixing.memory_length = sequence.length.name;
    return SelfAttention{options_, mixing}(context, x, {}, std::nullopt);
  }

 private:
  Options options_;
};

class EncDecAttentionLayer final : public Layer {
 public:
  using Options = HeadOptions;
  explicit EncDecAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Sequence& sequence = context.sequence("EncDecAttention");
    const Dimension model = context.made(x)[0];
    if (!sequence.is_step()) check_memory(sequence, model);
    const AttentionProjections projections(context, options_, model);
    AttentionInputs inputs;
    const AttentionMixing mix(context, options_, projections);
    inputs.q = mix.query(projections.query(x));
    if (sequence.is_step()) {
      const Dimension length = sequence.memory_segment.shape().dimension(kMemoryLength);
      const Shape shape =
          Shape{context.batch(), length} + projections.memory_heads() + Shape{projections.key_dimension()};
      inputs.k = sequence.decoding->kept(context, "memory_keys", shape, inputs.q.dtype());
      inputs.v = options_.shared_kv
                     ? inputs.k
                     : sequence.decoding->kept(context, "memory_values", shape, inputs.q.dtype());
    } else {
      inputs.k = mix.key(projections.key(sequence.memory));
      inputs.v = options_.shared_kv ? inputs.k : projections.value(sequence.memory);
    }
    if (sequence.decoding != nullptr && !sequence.is_step()) {
      sequence.decoding->keep(context, "memory_keys", inputs.k);
      if (!options_.shared_kv) sequence.decoding->keep(context, "memory_values", inputs.v);
    }
    inputs.memory_segment = sequence.memory_segment;
    inputs.query_segment = sequence.segment
                               ? sequence.segment
                               : context.graph().constant(1, DType::kInt32, Shape{context.batch()});
    if (context.training()) {
      inputs.noise = weight_noise(
          context, noise_shape(sequence.memory, kMemoryLength, projections.query_heads()), options_.dropout);
    }
    AttentionOptions mixing;
    mixing.query_length = sequence.length.name;
    mixing.extra_logit = options_.extra_logit;
    return {projections.output(mix(inputs, mixing, inputs.q, sequence.mask, options_.dropout)), {model}};
  }

 private:
  static void check_memory(const Sequence& sequence, const Dimension& model) {
    if (!sequence.memory) {
      throw Error(ErrorKind::kConfig, "EncDecAttention has no encoder to look at",
                  "it belongs into the decoder of a bitransformer");
    }
    if (sequence.memory.shape().dimension(model.name) != model) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("EncDecAttention: the decoder has {}={}, the encoder {}", model.name,
                              model.size, sequence.memory.shape().dimension(model.name).size),
                  "the same `d_model` for both");
    }
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

}  // namespace
}  // namespace mtf
