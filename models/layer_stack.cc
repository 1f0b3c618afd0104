#include "models/layer_stack.h"

#include <fmt/format.h>

#include "layers/mask_padding.h"

namespace mtf {

void describe(config::Visitor& visit, StackOptions& options) {
  visit("num_layers", options.num_layers, "how often the block is repeated", config::positive);
  visit("block", options.block, "list of layers, such as SelfAttention, DenseReluDense", config::required);
}

void describe(config::Visitor& visit, SublayerLists& options) {
  visit("initial", options.initial, "before the first layer (default: dropout)");
  visit(
      "per_layer", options.per_layer,
      "for each layer of the block; `call_layer` is the layer, `residual` adds its input (default: rms_norm, "
      "call_layer, dropout, residual)");
  visit("final", options.final, "after the last layer (default: rms_norm, dropout)");
}

void describe_sublayers(config::Visitor& visit, SublayerOptions& options) {
  visit("dropout", options.dropout, "rate of the default sublayers' dropout, shared along `length`",
        config::probability, config::reported_on_resume);
  visit("sublayers", options.sublayers, "lists of layers around each layer of the block");
  visit("block_scope", options.block_scope,
        "variables are called block_BBB/layer_LLL/..; false: layer_LLL/..");
}

namespace {

using config::Entry;
using config::Node;

/// The list that was given, else the default.
LayerList sublayers(const Node& given, const std::vector<Node>& standard, LayerParser& parser) {
  return parser.parse(given.is_null() ? Node::list(standard) : given);
}

}  // namespace

LayerStack::LayerStack(const StackOptions& options, const SublayerOptions& around, LayerParser& parser)
    : num_layers_(options.num_layers), block_scope_(around.block_scope) {
  if (options.block.is_null()) return;  // reported as missing
  block_ = parser.parse(options.block);
  const Node dropout =
      Node::map({Entry{"dropout",
                       {},
                       Node::map({Entry{"rate", {}, Node::scalar(fmt::format("{}", around.dropout))},
                                  Entry{"share", {}, Node::list({Node::scalar("length")})}})}});
  const Node norm = Node::scalar("rms_norm");
  initial_ = sublayers(around.sublayers.initial, {dropout}, parser);
  per_layer_ = sublayers(around.sublayers.per_layer,
                         {norm, Node::scalar("call_layer"), dropout, Node::scalar("residual")}, parser);
  final_ = sublayers(around.sublayers.final, {norm, dropout}, parser);
}

Tensor LayerStack::apply(Context& context, const LayerList::Item& item, const std::string& scope,
                         const Tensor& x) const {
  Sequence& sequence = context.sequence("a stack of layers");
  const auto outer = context.graph().scope(scope, item.mark);
  const auto layer = context.graph().layer();
  sequence.layer_input = x;
  sequence.layer = [&](const Tensor& input) {
    const auto inner = context.graph().scope(item.kind, item.mark);
    const Tensor y = (*item.layer)(context, input);
    context.inherit_made(y, input);
    return y;
  };
  const Tensor y = per_layer_(context, x);
  if (!same_dimensions(x.shape(), y.shape())) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{} makes {} of {}", item.kind, y.shape().to_string(), x.shape().to_string()),
                "layers of a block keep the dimensions of their input");
  }
  return y;
}

Tensor LayerStack::operator()(Context& context, const Tensor& input) const {
  Tensor x = initial_(context, input);
  for (int64_t b = 0; b < num_layers_; ++b) {
    for (size_t l = 0; l < block_.items().size(); ++l) {
      const LayerList::Item& item = block_.items()[l];
      const int64_t number = block_scope_
                                 ? static_cast<int64_t>(l)
                                 : b * static_cast<int64_t>(block_.items().size()) + static_cast<int64_t>(l);
      const std::string name = item.named ? item.name : fmt::format("layer_{:03}", number);
      const std::string scope = block_scope_ ? fmt::format("block_{:03}/{}", b, name) : name;
      try {
        const auto layer = [&](const Tensor& y) { return apply(context, item, scope, y); };
        const Tensor y = apply_layer(context, {"block", item.kind, item.name}, layer, x);
        context.inherit_made(y, x);
        x = y;
      } catch (const Error& error) {
        throw with_mark(error, item.mark);
      }
    }
  }
  context.sequence("a stack of layers").layer = {};
  context.sequence("a stack of layers").layer_input = {};
  const Tensor y = mask_padding(context, final_(context, x));
  context.inherit_made(y, x);
  return y;
}

}  // namespace mtf
