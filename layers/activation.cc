#include "layers/activation.h"

#include <array>

#include "engine/base/check.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {

config::EnumNames enum_names(Activation) {
  return {{"linear", Activation::kLinear},
          {"relu", Activation::kRelu},
          {"squared_relu", Activation::kSquaredRelu},
          {"leaky_relu", Activation::kLeakyRelu},
          {"gelu", Activation::kGelu},
          {"gelu_erf", Activation::kGeluErf},
          {"swish", Activation::kSwish},
          {"sigmoid", Activation::kSigmoid},
          {"tanh", Activation::kTanh},
          {"elu", Activation::kElu},
          {"selu", Activation::kSelu},
          {"softplus", Activation::kSoftplus},
          {"exp", Activation::kExp},
          {"square", Activation::kSquare},
          {"abs", Activation::kAbs},
          {"sin", Activation::kSin},
          {"cos", Activation::kCos},
          {"silu", Activation::kSwish},
          {"identity", Activation::kLinear},
          {"gelu_new", Activation::kGelu},
          {"gelu_tanh", Activation::kGelu},
          {"gelu_pytorch_tanh", Activation::kGelu},
          {"gelu_python", Activation::kGeluErf},
          {"relu2", Activation::kSquaredRelu},
          {"relu_squared", Activation::kSquaredRelu}};
}

config::CommonNames common_names(Activation) {
  static constexpr std::array names = {
      CommonName{"quick_gelu", "`gelu` or `swish`"},
      CommonName{"lrelu", "`leaky_relu` (slope 0.2)"},
      CommonName{"hard_swish", "`swish`"},
      CommonName{"logistic", "`sigmoid`"},
      CommonName{"none", "`linear`"},
      CommonName{"swiglu", "`[swish, linear]`, functions whose results are multiplied"},
      CommonName{"geglu", "`[gelu, linear]`, functions whose results are multiplied"},
      CommonName{"reglu", "`[relu, linear]`, functions whose results are multiplied"},
      CommonName{"glu", "`[sigmoid, linear]`, functions whose results are multiplied"},
  };
  return names;
}

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kLinear:
      return x;
    case Activation::kRelu:
      return relu(x);
    case Activation::kSquaredRelu:
      return squared_relu(x);
    case Activation::kLeakyRelu:
      return leaky_relu(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluErf:
      return gelu_erf(x);
    case Activation::kSwish:
      return swish(x);
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kTanh:
      return tanh(x);
    case Activation::kElu:
      return elu(x);
    case Activation::kSelu:
      return selu(x);
    case Activation::kSoftplus:
      return softplus(x);
    case Activation::kExp:
      return exp(x);
    case Activation::kSquare:
      return square(x);
    case Activation::kAbs:
      return abs(x);
    case Activation::kSin:
      return sin(x);
    case Activation::kCos:
      return cos(x);
  }
  MTF_CHECK(false, "activation {}", static_cast<int>(activation));
  return x;
}

void describe_activations(config::Visitor& visit, std::vector<Activation>& activations,
                          const std::string& meaning) {
  visit("activation", activations, meaning);
  visit.check([&activations](const config::Report& report) {
    if (activations.empty())
      report.error("activation", "a layer without a function has no result", "`linear` for none");
  });
}

namespace {

struct ActivationOptions {
  static constexpr std::string_view shorthand = "function";
  Activation function = Activation::kRelu;
};

void describe(config::Visitor& visit, ActivationOptions& options) {
  visit("function", options.function,
        "which function, such as relu (gelu is the tanh approximation, leaky_relu has slope 0.2)",
        config::required);
}

class ActivationLayer final : public Layer {
 public:
  using Options = ActivationOptions;
  explicit ActivationLayer(const Options& options) : function_(options.function) {}
  LayerTensor operator()(Context&, const LayerTensor& x) const override { return activate(x, function_); }

 private:
  Activation function_;
};

const LayerRegistration<ActivationLayer> activation_registration("activation", "y = function(x)");

}  // namespace
}  // namespace mtf
