#include "layers/dense.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reshape.h"
#include "layers/registry.h"

namespace mtf {
namespace {

Tensor dense_here(Context& context, const Tensor& input, const Shape& output,
                  const DenseArguments& arguments) {
  Shape over = arguments.over ? *arguments.over : Shape{input.shape()[input.shape().rank() - 1]};
  const Tensor x = rename_reused("dense", input, over, output);
  const Initializer initializer = make_initializer(arguments.kernel_initializer, over.size(), output.size());
  const Tensor kernel = context.variable("kernel", arguments.experts + over + output, initializer);
  Tensor y = einsum({x, kernel}, x.shape() - over + output);
  if (arguments.lora) y = add(y, lora_update(context, "kernel", x, over, output, *arguments.lora), y.shape());
  if (arguments.bias) {
    const Initializer of_bias = make_initializer(arguments.bias_initializer, over.size(), output.size());
    y = add(y, context.variable("bias", arguments.experts + output, of_bias));
  }
  return activate(y, arguments.activation);
}

}  // namespace

Tensor rename_reused(std::string_view layer, Tensor x, Shape& over, const Shape& output) {
  for (const Dimension& d : output) {
    if (!x.shape().contains(d.name) || over.contains(d.name)) continue;
    throw Error(ErrorKind::kConfig,
                fmt::format("{}: output dimension `{}` is one of {} that is not contracted", layer, d.name,
                            x.shape().to_string()),
                fmt::format("put it into `over`, or give the output another name than `{}`", d.name));
  }
  for (const Dimension& d : Shape(over)) {
    if (!output.contains(d.name)) continue;
    x = rename(x, d.name, "_" + d.name);
    over = over.renamed(d.name, "_" + d.name);
  }
  return x;
}

Tensor dense(Context& context, const std::string& name, const Tensor& x, const Shape& output,
             const DenseArguments& arguments) {
  if (name.empty()) return dense_here(context, x, output, arguments);
  const auto scope = context.graph().scope(name);
  return dense_here(context, x, output, arguments);
}

Tensor dense_product(Context& context, const std::string& name, const Tensor& x, const Shape& output,
                     const std::vector<Activation>& activations, const DenseArguments& arguments) {
  Tensor product;
  for (size_t i = 0; i < activations.size(); ++i) {
    DenseArguments factor = arguments;
    factor.activation = activations[i];
    const std::string scope = activations.size() == 1 ? name : fmt::format("{}_{}", name, i);
    const Tensor y = dense(context, scope, x, output, factor);
    product = product ? multiply(product, y) : y;
  }
  return product;
}

namespace {

struct DenseOptions {
  Shape output;
  std::vector<config::Name> over;
  std::vector<Activation> activation = {Activation::kLinear};
  bool bias = true;
  InitializerOptions kernel_initializer;
  InitializerOptions bias_initializer = ZerosInitializer{};
  std::optional<LoraOptions> lora;
};

void describe(config::Visitor& visit, DenseOptions& options) {
  visit("output", options.output, "names and sizes of the dimensions that are made", config::required);
  visit("over", options.over,
        "dimensions that are contracted (default: those that the layer before made; at first all but the "
        "batch)");
  describe_activations(visit, options.activation,
                       "a function, or several whose results are multiplied (gated units)");
  visit("bias", options.bias, "adds a bias");
  visit("kernel_initializer", options.kernel_initializer, "initial values of the kernel");
  visit("bias_initializer", options.bias_initializer, "initial values of the bias");
  visit("lora", options.lora, kLoraHelp);
}

class DenseLayer final : public Layer {
 public:
  using Options = DenseOptions;
  explicit DenseLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const DenseArguments arguments{
        .over = options_.over.empty() ? context.made(x) : find_dimensions(x, options_.over),
        .bias = options_.bias,
        .kernel_initializer = options_.kernel_initializer,
        .bias_initializer = options_.bias_initializer,
        .lora = options_.lora};
    const std::string name = options_.activation.size() == 1 ? "" : "wi";
    const Tensor y = dense_product(context, name, x, options_.output, options_.activation, arguments);
    return {y, options_.output};
  }

 private:
  Options options_;
};

const LayerRegistration<DenseLayer> dense_registration(
    "dense",
    "y = activation(sum over `over` of x * kernel + bias)\n"
    "kernel: [over.., output..], bias: [output..]; several "
    "activations: y = product of one such dense layer for each",
    {"linear", "fully_connected", "fc", "affine"});

}  // namespace
}  // namespace mtf
