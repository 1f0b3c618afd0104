#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "layers/dense.h"
#include "layers/registry.h"

namespace mtf {
namespace {

constexpr std::string_view kRowLength = "length";

enum class PoolFrom { kFirst, kMean };
config::EnumNames enum_names(PoolFrom) { return {{"first", PoolFrom::kFirst}, {"mean", PoolFrom::kMean}}; }

struct PoolerOptions {
  static constexpr std::string_view shorthand = "from";
  PoolFrom from = PoolFrom::kFirst;
  Activation activation = Activation::kTanh;
  bool bias = true;
  InitializerOptions kernel_initializer = TruncatedNormalInitializer{0.02};
};

void describe(config::Visitor& visit, PoolerOptions& options) {
  visit("from", options.from, "the vector at the first token, or the mean of those that are no padding");
  visit("activation", options.activation, "the function of the dense layer");
  visit("bias", options.bias, "the dense layer adds a bias");
  visit("kernel_initializer", options.kernel_initializer, "initial values of the kernel");
}

/// x: [batch, length, model] -> [batch, model]
class PoolerLayer final : public Layer {
 public:
  using Options = PoolerOptions;
  explicit PoolerLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Dimension length = find_dimension(x, std::string(kRowLength));
    const Shape model = context.made(x);
    const Tensor pooled =
        options_.from == PoolFrom::kFirst ? gather(x, 0, length.name) : mean(context, x, length);
    const DenseArguments arguments{.over = model,
                                   .activation = options_.activation,
                                   .bias = options_.bias,
                                   .kernel_initializer = options_.kernel_initializer};
    return {dense(context, "", pooled, model, arguments), model};
  }

 private:
  /// Rows without a token give zeros.
  static Tensor mean(const Context& context, const Tensor& x, const Dimension& length) {
    const Tensor& segment = context.input_tokens().segmentation;
    if (!segment || !segment.shape().contains(length)) return reduce_mean(x, x.shape() - length);
    Graph& graph = x.graph();
    const Tensor counts = cast(not_equal(segment, graph.constant(0, segment.dtype())), DType::kFloat32);
    const Tensor tokens = maximum(reduce_sum(counts, counts.shape() - length), graph.constant(1));
    const Tensor sum = reduce_sum(multiply(cast(x, DType::kFloat32), counts, x.shape()), x.shape() - length);
    return cast(divide(sum, tokens, sum.shape()), x.dtype());
  }

  Options options_;
};

const LayerRegistration<PoolerLayer> pooler(
    "pooler",
    "y = activation(v * kernel + bias), v = the vector at the first token of x: [batch, length, vector]",
    {"bert_pooler", "cls_pooling"});

}  // namespace
}  // namespace mtf
