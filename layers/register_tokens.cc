#include <fmt/format.h>

#include "engine/ops/broadcast.h"
#include "engine/ops/concat.h"
#include "engine/ops/reshape.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct RegisterTokensOptions {
  static constexpr std::string_view shorthand = "count";
  int64_t count = 4;
  double stddev = 0.02;
};

void describe(config::Visitor& visit, RegisterTokensOptions& options) {
  visit("count", options.count, "how many vectors", config::positive);
  visit("stddev", options.stddev, "of their initial values", config::positive);
}

class RegisterTokensLayer final : public Layer {
 public:
  using Options = RegisterTokensOptions;
  explicit RegisterTokensLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Dimension length = find_dimension(x, std::string("length"));
    const Dimension registers{"registers", options_.count};
    const Tensor tokens = context.variable("register_tokens", Shape{registers} + context.made(x),
                                           Initializer::normal(options_.stddev));
    const Shape shape = x.shape().resized(length.name, options_.count);
    return concat({broadcast(rename(tokens, registers.name, length.name), shape), x}, length.name);
  }

 private:
  Options options_;
};

const LayerRegistration<RegisterTokensLayer> register_tokens_registration(
    "register_tokens",
    "y = x with `count` learned vectors before the entries of `length`, which no class is read from. "
    "Darcet et al., Vision Transformers Need Registers, 2024",
    {"registers"});

}  // namespace
}  // namespace mtf
