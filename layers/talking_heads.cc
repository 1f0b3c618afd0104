// Talking-heads attention: learned maps among the heads before and after the softmax. Shazeer et al., 2020.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/attention_masks.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/fused.h"
#include "engine/ops/reshape.h"
#include "engine/ops/softmax.h"
#include "layers/dense.h"
#include "layers/registry.h"
#include "layers/relative_bias.h"

namespace mtf {
namespace {

/// Maps that are computed of the vectors of queries (x) or memory (m), for logits (l) or weights (w).
enum class DynamicProjection { kQueryToLogits, kMemoryToLogits, kQueryToWeights, kMemoryToWeights };
config::EnumNames enum_names(DynamicProjection) {
  return {{"x2l", DynamicProjection::kQueryToLogits},
          {"m2l", DynamicProjection::kMemoryToLogits},
          {"x2w", DynamicProjection::kQueryToWeights},
          {"m2w", DynamicProjection::kMemoryToWeights}};
}

struct TalkingHeadsOptions {
  Shape key_heads{{"heads", 12}};
  Shape softmax_heads{{"heads", 12}};
  Shape value_heads{{"heads", 12}};
  int64_t key_size = 64;
  int64_t value_size = 64;
  double dropout = 0;
  std::vector<DynamicProjection> dynamic_projections;
  double dynamic_projections_init_scale = 1e-2;
};

void describe(config::Visitor& visit, TalkingHeadsOptions& options) {
  visit("key_heads", options.key_heads, "dimensions of the heads of queries and keys");
  visit("softmax_heads", options.softmax_heads,
        "dimensions of the heads of the softmax; those that are key_heads, too, stay as they are");
  visit("value_heads", options.value_heads,
        "dimensions of the heads of the values; those that are softmax_heads, too, stay as they are");
  visit("key_size", options.key_size, "size of a key, `d_k`", config::positive);
  visit("value_size", options.value_size, "size of a value, `d_v`", config::positive);
  visit("dropout", options.dropout, "rate for the attention weights, shared along `length`",
        config::probability, config::reported_on_resume);
  visit(
      "dynamic_projections", options.dynamic_projections,
      "maps of heads that are computed for each position: x2l, x2w of the queries' vectors, m2l, m2w of the "
      "memory's, for logits or weights");
  visit("dynamic_projections_init_scale", options.dynamic_projections_init_scale,
        "variance of their initial values", config::positive);
  visit.check([&options](const config::Report& report) {
    if (options.dropout >= 1) report.error("dropout", "a dropout rate of 1 leaves nothing", "a rate below 1");
  });
}

struct TalkingHeadsSelfOptions : TalkingHeadsOptions, RelativeBiasOptions {};

void describe(config::Visitor& visit, TalkingHeadsSelfOptions& options) {
  describe(visit, static_cast<TalkingHeadsOptions&>(options));
  describe_relative_bias(visit, options, "adds a learned number for each head of the softmax and distance");
}

/// The dimensions of a that are in b, or those that are not.
Shape chosen(const Shape& a, const Shape& b, bool in_b) {
  Shape result;
  for (const Dimension& d : a) {
    const bool both = b.contains(d.name) && b.dimension(d.name) == d;
    if (both == in_b) result = result + Shape{d};
  }
  return result;
}

class TalkingHeads {
 public:
  TalkingHeads(Context& context, const TalkingHeadsOptions& options, const Dimension& model)
      : context_(context),
        options_(options),
        model_(model),
        key_{"d_k", options.key_size},
        value_{"d_v", options.value_size} {}

  /// What is known of the memory: keys [.., memory_length, key_heads.., d_k], values [.., memory_length, value_heads..,
  /// d_v], and, for dynamic projections, vectors [.., memory_length, model].
  struct Memory {
    Tensor keys, values, vectors;
  };
  Memory memory(const Tensor& x) const {
    return {dense(context_, "k", x, key_shape(), arguments(1)),
            dense(context_, "v", x, value_shape(), arguments(1)), has_dynamic_memory() ? x : Tensor{}};
  }
  Shape key_shape() const { return options_.key_heads + Shape{key_}; }
  Shape value_shape() const { return options_.value_heads + Shape{value_}; }
  bool has_dynamic_memory() const {
    return is_dynamic(DynamicProjection::kMemoryToLogits) || is_dynamic(DynamicProjection::kMemoryToWeights);
  }

  /// `masks`: segments, priorities, positions and the table of the bias.
  LayerTensor attend(const Tensor& x, const Memory& memory, AttentionInputs masks,
                     const AttentionOptions& mixing, const Shape& noise_rows) const {
    const Dimension length = memory.keys.shape().dimension(kMemoryLength);
    const Tensor q =
        dense(context_, "q", x, key_shape(), arguments(1 / static_cast<double>(options_.key_size)));
    const DType wide = accumulation_dtype(q.dtype());
    Tensor logits = einsum({cast(q, wide), cast(memory.keys, wide)}, q.shape() - Shape{key_} + Shape{length});
    logits = talk("logits", logits, options_.key_heads, options_.softmax_heads, x, memory.vectors,
                  DynamicProjection::kQueryToLogits, DynamicProjection::kMemoryToLogits);
    masks.q = q;
    if (masks.bias_table) logits = add(logits, attention_bias(masks, mixing, length, wide), logits.shape());
    if (const Tensor hidden = attention_masks(masks, mixing, length, wide))
      logits = add(logits, hidden, logits.shape());
    Tensor weights =
        talk("weights", softmax(logits, length.name), options_.softmax_heads, options_.value_heads, x,
             memory.vectors, DynamicProjection::kQueryToWeights, DynamicProjection::kMemoryToWeights);
    const Shape noise_shape = noise_rows + options_.value_heads + Shape{length};
    if (const Tensor noise = weight_noise(context_, noise_shape, options_.dropout))
      weights = multiply(weights, cast(noise, wide), weights.shape());
    const Tensor mixed = einsum({cast(weights, memory.values.dtype()), memory.values},
                                weights.shape() - Shape{length} + Shape{value_});
    DenseArguments outwards = arguments(1);
    outwards.over = value_shape();
    return {dense(context_, "y", mixed, Shape{model_}, outwards), {model_}};
  }

 private:
  DenseArguments arguments(double variance) const {
    return {.over = Shape{model_}, .bias = false, .kernel_initializer = VarianceScaling{.scale = variance}};
  }
  bool is_dynamic(DynamicProjection projection) const {
    return std::ranges::find(options_.dynamic_projections, projection) != options_.dynamic_projections.end();
  }

  /// x [.., from..] -> [.., to..], by a matrix over the dimensions that only one of them has.
  Tensor talk(const std::string& name, const Tensor& logits, const Shape& from, const Shape& to,
              const Tensor& x, const Tensor& memory, DynamicProjection of_query,
              DynamicProjection of_memory) const {
    const Shape shared = chosen(from, to, true), reduced = chosen(from, to, false),
                made = chosen(to, from, false);
    if (reduced.rank() == 0 && made.rank() == 0) return logits;
    const Shape all = shared + reduced + made, result = logits.shape() - reduced + made;
    const auto scope = context_.graph().scope(name);
    const Initializer initializer = make_initializer(VarianceScaling{}, reduced.size(), made.size());
    const Tensor fixed = context_.variable("kernel", all, initializer, 1, logits.dtype());
    DenseArguments dynamic =
        arguments(options_.dynamic_projections_init_scale / static_cast<double>(reduced.size()));
    Tensors maps;
    for (const auto& [source, projection] : {std::pair(x, of_query), std::pair(memory, of_memory)}) {
      if (is_dynamic(projection))
        maps.push_back(cast(dense(context_, fmt::format("dynamic_{}", maps.size()), source, all, dynamic),
                            logits.dtype()));
    }
    if (maps.empty()) return einsum({logits, fixed}, result);
    maps[0] = add(maps[0], fixed, maps[0].shape());
    Tensor sum;
    for (const Tensor& map : maps) {
      const Tensor term = einsum({logits, map}, result);
      sum = sum ? add(sum, term) : term;
    }
    return sum;
  }

  Context& context_;
  const TalkingHeadsOptions& options_;
  Dimension model_, key_, value_;
};

class TalkingHeadsSelfAttentionLayer final : public Layer {
 public:
  using Options = TalkingHeadsSelfOptions;
  explicit TalkingHeadsSelfAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Sequence& sequence = context.sequence("TalkingHeadsSelfAttention");
    const std::string memory_length(kMemoryLength);
    const auto as_memory = [&](const Tensor& y) {
      return y ? rename(y, sequence.length.name, memory_length) : Tensor{};
    };
    const TalkingHeads heads(context, options_, context.made(x)[0]);
    TalkingHeads::Memory memory = heads.memory(sequence.is_step() ? Tensor(x) : as_memory(x));
    AttentionInputs masks;
    AttentionOptions mixing{.query_length = sequence.length.name};
    mixing.bidirectional = sequence.looks_ahead();
    if (const Decoding* decoding = sequence.decoding) {
      memory.keys = decoding->remember(context, "key_cache", memory.keys);
      memory.values = decoding->remember(context, "value_cache", memory.values);
      if (memory.vectors) memory.vectors = decoding->remember(context, "memory_cache", memory.vectors);
    }
    if (sequence.is_step()) {
      masks.query_priority = masks.query_position = sequence.decoding->position();
    } else {
      masks.query_segment = sequence.segment;
      masks.memory_segment = as_memory(sequence.segment);
      masks.query_priority = sequence.read_priority;
      masks.memory_priority = as_memory(sequence.write_priority);
    }
    mixing.causal = sequence.causal && !sequence.read_priority;
    masks.bias_table = RelativeBias{options_}.table(context, options_.softmax_heads, mixing);
    return heads.attend(x, memory, masks, mixing, Shape{context.batch()});
  }

 private:
  Options options_;
};

class TalkingHeadsEncDecAttentionLayer final : public Layer {
 public:
  using Options = TalkingHeadsOptions;
  explicit TalkingHeadsEncDecAttentionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Sequence& sequence = context.sequence("TalkingHeadsEncDecAttention");
    const Dimension model = context.made(x)[0];
    const TalkingHeads heads(context, options_, model);
    AttentionInputs masks;
    masks.memory_segment = sequence.memory_segment;
    masks.query_segment = sequence.segment
                              ? sequence.segment
                              : context.graph().constant(1, DType::kInt32, Shape{context.batch()});
    return heads.attend(x, memory(context, sequence, heads, x.dtype(), model), masks,
                        {.query_length = sequence.length.name}, Shape{context.batch()});
  }

 private:
  static TalkingHeads::Memory memory(Context& context, const Sequence& sequence, const TalkingHeads& heads,
                                     DType dtype, const Dimension& model) {
    if (sequence.is_step()) {
      const Dimension length = sequence.memory_segment.shape().dimension(kMemoryLength);
      const auto kept = [&](const char* name, const Shape& entries) {
        return sequence.decoding->kept(context, name, Shape{context.batch(), length} + entries, dtype);
      };
      return {kept("memory_keys", heads.key_shape()), kept("memory_values", heads.value_shape()),
              heads.has_dynamic_memory() ? kept("memory_vectors", Shape{model}) : Tensor{}};
    }
    if (!sequence.memory) {
      throw Error(ErrorKind::kConfig, "TalkingHeadsEncDecAttention has no encoder to look at",
                  "it belongs into the decoder of a bitransformer");
    }
    const TalkingHeads::Memory made = heads.memory(sequence.memory);
    if (const Decoding* decoding = sequence.decoding) {
      decoding->keep(context, "memory_keys", made.keys);
      decoding->keep(context, "memory_values", made.values);
      if (made.vectors) decoding->keep(context, "memory_vectors", made.vectors);
    }
    return made;
  }

  Options options_;
};

const LayerRegistration<TalkingHeadsSelfAttentionLayer> talking_self_registration(
    "TalkingHeadsSelfAttention",
    "weights = softmax over memory_length of (q · k over d_k) logits, y = ((weights weights_map) · v) y\n"
    "q, k: [d_model, key_heads.., d_k], v: [d_model, value_heads.., d_v], y: [value_heads.., d_v, d_model]; "
    "logits and\n"
    "weights map heads to heads. All logits are kept in memory. Shazeer et al., Talking-Heads Attention, "
    "2020",
    {"talking_heads", "talking_heads_attention"});
const LayerRegistration<TalkingHeadsEncDecAttentionLayer> talking_encoder_registration(
    "TalkingHeadsEncDecAttention", "as TalkingHeadsSelfAttention, with k and v of the encoder's output");

}  // namespace
}  // namespace mtf
