// A Transformer in the list of layers of any model, and what its rows need at both ends.
#include <fmt/format.h>

#include <optional>

#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/concat.h"
#include "engine/ops/indexing.h"
#include "layers/layer_stack.h"
#include "layers/mask_padding.h"
#include "layers/positions.h"

namespace mtf {
namespace {

constexpr std::string_view kLength = "length";

struct TransformerLayerOptions : StackOptions, SublayerOptions {
  bool causal = false;
};

void describe(config::Visitor& visit, TransformerLayerOptions& options) {
  describe(visit, static_cast<StackOptions&>(options));
  describe_sublayers(visit, options);
  visit("causal", options.causal, "each entry of `length` sees only itself and those before it");
}

class TransformerLayer final : public Layer {
 public:
  using Options = TransformerLayerOptions;
  TransformerLayer(const Options& options, LayerParser& parser)
      : stack_(options, options, parser), causal_(options.causal) {}
  bool is_group() const override { return true; }

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const auto axis = x.shape().find(kLength);
    if (!axis || context.made(x).rank() != 1 || context.made(x)[0].name == kLength) {
      throw Error(
          ErrorKind::kConfig, fmt::format("transformer: {} are no rows of vectors", x.shape().to_string()),
          "a dimension `length`, and one dimension that the layer before made: `patches`, then `dense`");
    }
    Sequence sequence{.length = x.shape()[*axis], .causal = causal_};
    const Tensor& segment = context.input_tokens().segmentation;
    if (segment && segment.shape().contains(sequence.length)) set_segments(sequence, segment);
    const auto entered = context.enter(sequence);
    return stack_(context, x);
  }

 private:
  LayerStack stack_;
  bool causal_;
};

struct PositionsOptions {
  static constexpr std::string_view shorthand = "type";
  Positions type = Positions::kLearned;
  double stddev = 0.02;
  std::optional<int64_t> max_length;
  int64_t first_position = 0;
};

void describe(config::Visitor& visit, PositionsOptions& options) {
  visit("type", options.type, "a table of vectors, or sines and cosines");
  visit("stddev", options.stddev, "of the initial values of the table", config::non_negative);
  visit("max_length", options.max_length, "rows of the table (default: as many as x has entries of `length`)",
        config::positive);
  visit("first_position", options.first_position,
        "the row of the table that position 0 reads; those before it are never read, as in RoBERTa (2)",
        config::non_negative);
  visit.check([&options](const config::Report& report) {
    if (options.first_position > 0 && options.type != Positions::kLearned)
      report.error("first_position", "sines and cosines begin at position 0", "`type: learned`");
  });
}

class PositionsLayer final : public Layer {
 public:
  using Options = PositionsOptions;
  explicit PositionsLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Dimension length = find_dimension(x, std::string(kLength));
    const Shape model = context.made(x);
    switch (options_.type) {
      case Positions::kLearned:
        return add(x, learned(context, length, model), x.shape());
      case Positions::kSinusoid:
      case Positions::kSinusoidHuggingFace:
        if (model.rank() == 1)
          return add(
              x, sinusoid_positions(context, options_.type, position_of(context, length), length, model[0]),
              x.shape());
        throw Error(ErrorKind::kConfig, fmt::format("positions: {} is no vector", model.to_string()),
                    "one dimension");
      case Positions::kNone:
        break;
    }
    return x;
  }

 private:
  /// Where the entries of x stand in their texts; null: the data do not say.
  static Tensor position_of(const Context& context, const Dimension& length) {
    const Tensor& position = context.input_tokens().position;
    return position && position.shape().contains(length) ? position : Tensor{};
  }

  Tensor learned(Context& context, const Dimension& length, const Shape& model) const {
    const Initializer initializer = Initializer::normal(options_.stddev);
    const auto table = [&](const Dimension& rows) {
      return context.variable("positional_embedding", Shape{rows} + model, initializer);
    };
    const Tensor position = position_of(context, length);
    const int64_t first = options_.first_position;
    if (!position && !options_.max_length && first == 0) return table(length);
    const Dimension rows{"max_length", options_.max_length.value_or(first + length.size)};
    if (rows.size - first < length.size)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("positions: x has {} entries of `length`, and `max_length` is {}{}", length.size,
                      rows.size, first > 0 ? fmt::format(", from `first_position` {} on", first) : ""),
          "a larger `max_length`, or a smaller `data.sequence_length`");
    Tensor place = position ? position : range(context.graph(), length);
    if (first > 0)
      place = add(place, context.graph().constant(static_cast<double>(first), place.dtype()), place.shape());
    return gather(table(rows), place, rows.name);
  }

  Options options_;
};

struct ClassTokenOptions {};
void describe(config::Visitor&, ClassTokenOptions&) {}

class ClassTokenLayer final : public Layer {
 public:
  using Options = ClassTokenOptions;
  explicit ClassTokenLayer(const Options&) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Dimension length = find_dimension(x, std::string(kLength));
    const Tensor token = context.variable("class_token", context.made(x), Initializer::zeros());
    const Tensor first = broadcast(token, x.shape().resized(length.name, 1));
    return concat({first, x}, length.name);
  }
};

struct TakeOptions {
  config::Name along;
  int64_t index = 0;
};

void describe(config::Visitor& visit, TakeOptions& options) {
  visit("along", options.along, "the dimension of which one entry is taken", config::required);
  visit("index", options.index, "which one, from 0", config::non_negative);
}

class TakeLayer final : public Layer {
 public:
  using Options = TakeOptions;
  explicit TakeLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context&, const LayerTensor& x) const override {
    const Dimension along = find_dimension(x, options_.along);
    if (options_.index >= along.size) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("take: `{}` = {} has no entry {}", along.name, along.size, options_.index));
    }
    return gather(x, options_.index, along.name);
  }

 private:
  Options options_;
};

const LayerRegistration<TransformerLayer> transformer(
    "transformer",
    "y = the layers of `block`, `num_layers` times, on rows x: [batch, length, vector]; tokens do not see "
    "padding",
    {"encoder", "transformer_encoder", "vit"});
const LayerRegistration<PositionsLayer> positions("positions", "y = x + a vector for each entry of `length`",
                                                  {"positional_embedding", "position_embedding",
                                                   "pos_embed"});
const LayerRegistration<ClassTokenLayer> class_token(
    "class_token", "y = x with one learned vector before the entries of `length`", {"cls_token", "cls"});
const LayerRegistration<TakeLayer> take("take", "y = entry `index` of x along a dimension",
                                        {"select", "first"});

}  // namespace
}  // namespace mtf
