#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct FeedForwardOptions {
  int64_t hidden_size = 4096;
  std::vector<Activation> activation = {Activation::kRelu};
  bool bias = false;
  double dropout = 0;
  InitializerOptions kernel_initializer;
  InitializerOptions bias_initializer = ZerosInitializer{};
  std::optional<LoraOptions> lora;
};

void describe(config::Visitor& visit, FeedForwardOptions& options) {
  visit("hidden_size", options.hidden_size, "size of `d_ff`", config::positive);
  describe_activations(
      visit, options.activation,
      "a function, or several whose results are multiplied: [gelu, linear] is GEGLU, [swish, linear] SwiGLU");
  visit("bias", options.bias, "adds biases");
  visit("dropout", options.dropout, "rate for the hidden layer, shared along `length`", config::probability,
        config::reported_on_resume);
  visit("kernel_initializer", options.kernel_initializer, "initial values of the kernels");
  visit("bias_initializer", options.bias_initializer, "initial values of the biases");
  visit("lora", options.lora, kLoraHelp);
}

class FeedForwardLayer final : public Layer {
 public:
  using Options = FeedForwardOptions;
  explicit FeedForwardLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Sequence& sequence = context.sequence("DenseReluDense");
    const Shape model = context.made(x), hidden{{"d_ff", options_.hidden_size}};
    DenseArguments arguments{.over = model,
                             .bias = options_.bias,
                             .kernel_initializer = options_.kernel_initializer,
                             .bias_initializer = options_.bias_initializer,
                             .lora = options_.lora};
    Tensor h = dense_product(context, "wi", x, hidden, options_.activation, arguments);
    h = dropout(context, h, options_.dropout, Shape{sequence.length});
    arguments.over = hidden;
    return {dense(context, "wo", h, model, arguments), model};
  }

 private:
  Options options_;
};

const LayerRegistration<FeedForwardLayer> feed_forward_registration(
    "DenseReluDense",
    "h = dropout(activation(x wi)), y = h wo; several activations: their product\n"
    "wi (or wi_0, wi_1, ...): [d_model, d_ff], wo: [d_ff, d_model]. Shazeer, GLU Variants Improve "
    "Transformer, "
    "2020, eq. 2",
    {"ffn", "mlp", "feed_forward", "position_wise_feed_forward", "dense_relu_dense"});

}  // namespace
}  // namespace mtf
