#include "layers/causal_convolution.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reshape.h"
#include "engine/ops/shift.h"
#include "layers/registry.h"

namespace mtf {
namespace {

/// x[t], x[t - 1], ..., x[t - width + 1], which are zero outside the segment of t.
Tensors entries_before(Context& context, const std::string& name, const Tensor& x, int64_t width,
                       const std::string& length) {
  const Sequence& sequence = context.sequence("causal_conv");
  if (sequence.is_step()) return sequence.decoding->recall(context, name + "_before", x, width);
  if (sequence.decoding != nullptr) sequence.decoding->keep_last(context, name + "_before", x, length, width);
  const Tensor segment = sequence.segment ? rename(sequence.segment, sequence.length.name, length) : Tensor{};
  Tensors entries{x};
  for (int64_t i = 1; i < width; ++i) {
    Tensor before = shift(x, i, length, false);
    if (segment) {
      const Tensor same = equal(shift(segment, i, length, false), segment);
      before = multiply(before, cast(same, x.dtype()), x.shape());
    }
    entries.push_back(before);
  }
  return entries;
}

}  // namespace

Tensor causal_convolution(Context& context, const std::string& name, const Tensor& x, const Shape& channels,
                          int64_t width, const std::string& length) {
  const Tensors entries = entries_before(context, name, x, width, length);
  Tensor y;
  for (int64_t i = 0; i < width; ++i) {
    const double initial = i == 0 ? 0.5 : 0.5 / static_cast<double>(width);
    const Tensor tap =
        context.variable(fmt::format("{}_{}", name, i), channels, Initializer::constant(initial));
    const Tensor term = multiply(entries[static_cast<size_t>(i)], tap, x.shape());
    y = y ? add(y, term) : term;
  }
  return y;
}

namespace {

struct CausalConvOptions {
  static constexpr std::string_view shorthand = "width";
  int64_t width = 3;
};

void describe(config::Visitor& visit, CausalConvOptions& options) {
  visit("width", options.width, "entries that are seen, the one in hand included", config::positive);
}

class CausalConvLayer final : public Layer {
 public:
  using Options = CausalConvOptions;
  explicit CausalConvLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const std::string& length = context.sequence("causal_conv").length.name;
    return causal_convolution(context, "kernel", x, context.made(x), options_.width, length);
  }

 private:
  Options options_;
};

const LayerRegistration<CausalConvLayer> causal_conv_registration(
    "causal_conv",
    "y[t] = sum over i < width of x[t - i] * kernel_i, for each channel; other segments count as zeros\n"
    "kernel_0, kernel_1, ...: [d_model]. So et al., Primer, 2021, section 3.2",
    {"depthwise_conv", "depthwise_conv1d", "causal_depthwise_conv", "causal_conv1d", "SeparableConv1DLayer"});

}  // namespace
}  // namespace mtf
