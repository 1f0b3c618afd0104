#include <fmt/format.h>

#include <cmath>

#include "engine/base/placed_at.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

enum class ParallelScale { kRoot, kNone };
config::EnumNames enum_names(ParallelScale) {
  return {{"sqrt", ParallelScale::kRoot}, {"none", ParallelScale::kNone}};
}

struct ParallelOptions {
  static constexpr std::string_view shorthand = "layers";
  config::Node layers;
  ParallelScale scale = ParallelScale::kRoot;
};

void describe(config::Visitor& visit, ParallelOptions& options) {
  visit("layers", options.layers, "list of layers that all see x, such as SelfAttention, DenseReluDense",
        config::required);
  visit("scale", options.scale,
        "`sqrt`: the sum is divided by the root of their number; `none`: as in GPT-J and PaLM");
}

class ParallelLayer final : public Layer {
 public:
  using Options = ParallelOptions;
  ParallelLayer(const Options& options, LayerParser& parser)
      : layers_(options.layers.is_null() ? LayerList() : parser.parse(options.layers)),
        scale_(options.scale) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    Tensor sum;
    LayerTensor first;
    for (size_t i = 0; i < layers_.items().size(); ++i) {
      const LayerList::Item& item = layers_.items()[i];
      try {
        const LayerTensor y = apply(context, item, i, x);
        if (!sum) first = y;
        check_dimensions(first, y, item.kind);
        sum = sum ? add(sum, y, sum.shape()) : Tensor(y);
      } catch (const Error& error) {
        throw placed_at(error, item.mark);
      }
    }
    if (!sum) return x;
    const double number = static_cast<double>(layers_.items().size());
    if (scale_ == ParallelScale::kRoot) sum = scalar_multiply(sum, 1 / std::sqrt(number));
    return LayerTensor(sum).made_from(first);
  }

 private:
  static LayerTensor apply(Context& context, const LayerList::Item& item, size_t i, const LayerTensor& x) {
    const std::string name = item.named ? item.name : fmt::format("parallel_layer_{}", i);
    const auto layer = [&](const LayerTensor& input) {
      const auto scope = context.graph().scope(name, item.mark);
      return (*item.layer)(context, input).made_from(input);
    };
    return apply_layer(context, {{item.kind, item.name}, context.graph().scoped(name)}, layer, x);
  }

  static void check_dimensions(const Tensor& first, const Tensor& y, const std::string& kind) {
    if (same_dimensions(first.shape(), y.shape())) return;
    throw Error(ErrorKind::kConfig,
                fmt::format("parallel: the first layer makes {}, {} makes {}", first.shape().to_string(),
                            kind, y.shape().to_string()),
                "the results are added, and must have the same dimensions");
  }

  LayerList layers_;
  ParallelScale scale_;
};

const LayerRegistration<ParallelLayer> parallel_registration(
    "parallel",
    "y = (layer_0(x) + layer_1(x) + ...) / sqrt(their number); scopes parallel_layer_0, parallel_layer_1, "
    "...\n"
    "Wang and Komatsuzaki, GPT-J, 2021; Chowdhery et al., PaLM, 2022, section 2",
    {"ParallelLayer", "parallel_layer", "parallel_block"});

}  // namespace
}  // namespace mtf
