#include "layers/layer_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/placed_at.h"
#include "layers/copies.h"
#include "layers/mask_padding.h"

namespace mtf {

void describe(config::Visitor& visit, StackOptions& options) {
  visit("num_layers", options.num_layers, "how often the block is repeated", config::positive,
        config::at_most(kMostCopies));
  visit("block", options.block, "list of layers, such as SelfAttention, DenseReluDense", config::required);
}

void describe(config::Visitor& visit, SublayerLists& options) {
  visit("initial", options.initial, "before the first layer (default: dropout)");
  visit("first", options.first,
        "for the first layer of the first block, in place of `per_layer`, such as one without a norm");
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

/// The list that was given, else the default. `taken`: names of layers in the same scope.
LayerList sublayers(const Node& given, const std::vector<Node>& standard, LayerParser& parser,
                    const std::set<std::string>& taken = {}) {
  return parser.parse(given.is_null() ? Node::list(standard) : given, taken);
}

/// Takes what belongs to the layer in hand out of `sequence` while the layer itself is at work.
class LayerInHand {
 public:
  explicit LayerInHand(Sequence& sequence)
      : sequence_(sequence),
        layer_(std::exchange(sequence.layer, nullptr)),
        input_(std::exchange(sequence.layer_input, {})) {}
  ~LayerInHand() {
    sequence_.layer = layer_;
    sequence_.layer_input = input_;
  }
  LayerInHand(const LayerInHand&) = delete;

 private:
  Sequence& sequence_;
  const LayerFunction* layer_;
  LayerTensor input_;
};

}  // namespace

LayerStack::LayerStack(const StackOptions& options, const SublayerOptions& around, LayerParser& parser)
    : num_layers_(options.num_layers), block_scope_(around.block_scope) {
  if (options.block.is_null()) return;  // reported as missing
  block_ = parser.parse(options.block);
  const double rate = around.dropout < 1 ? around.dropout : 0;  // 1 is reported by the model
  const Node dropout =
      Node::map({Entry{"dropout",
                       {},
                       Node::map({Entry{"rate", {}, Node::scalar(fmt::format("{}", rate))},
                                  Entry{"share", {}, Node::list({Node::scalar("length")})}})}});
  const Node norm = Node::scalar("rms_norm");
  std::set<std::string> kinds, of_final;
  has_first_ = !around.sublayers.first.is_null();
  for (const LayerList::Item& item : block_.items()) kinds.insert(item.kind);
  per_layer_ =
      sublayers(around.sublayers.per_layer,
                {norm, Node::scalar("call_layer"), dropout, Node::scalar("residual")}, parser, kinds);
  if (has_first_) first_ = parser.parse(around.sublayers.first, kinds);
  final_ = sublayers(around.sublayers.final, {norm, dropout}, parser);
  if (!around.sublayers.initial.is_null()) {
    for (const LayerList::Item& item : final_.items()) of_final.insert(item.name);
  }
  initial_ = sublayers(around.sublayers.initial, {dropout}, parser, of_final);
  block_mark_ = options.block.mark();
  first_mark_ = around.sublayers.first.mark();
  per_layer_mark_ = around.sublayers.per_layer.mark();
}

LayerTensor LayerStack::apply(Context& context, const LayerList::Item& item, const std::string& scope,
                              bool is_first, const LayerTensor& x) const {
  Sequence& sequence = context.sequence("a stack of layers");
  const auto outer = context.graph().scope(scope, item.mark);
  const auto layer = context.graph().layer();
  bool called = false;
  const LayerFunction call = [&](const LayerTensor& input) {
    called = true;
    const auto inner = context.graph().scope(item.kind, item.mark);
    const LayerInHand none(sequence);
    return (*item.layer)(context, input).made_from(input);
  };
  const LayerInHand before(sequence);
  sequence.layer_input = x;
  sequence.layer = &call;
  const bool has_own = is_first && has_first_;
  const LayerTensor y = (has_own ? first_ : per_layer_)(context, x);
  if (!called) {
    throw Error(
        ErrorKind::kConfig, has_own ? first_mark_ : per_layer_mark_,
        fmt::format("`sublayers.{}` leaves out the layers of the block", has_own ? "first" : "per_layer"),
        "`call_layer` where they belong, as in [rms_norm, call_layer, residual]");
  }
  if (!same_dimensions(x.shape(), y.shape())) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{} makes {} of {}", item.kind, y.shape().to_string(), x.shape().to_string()),
                "layers of a block keep the dimensions of their input");
  }
  return y;
}

LayerTensor LayerStack::around(Context& context, const LayerList& list, const LayerTensor& x) {
  const LayerTensor y = list(context, x);
  const Shape rows = x.shape() - Shape{x.shape()[x.shape().rank() - 1]};
  const bool keeps = y.shape().rank() == x.shape().rank() &&
                     std::ranges::all_of(rows, [&y](const Dimension& d) { return y.shape().contains(d); });
  if (keeps) return y;
  throw Error(ErrorKind::kConfig, list.last_mark(),
              fmt::format("the sublayers make {} of {}", y.shape().to_string(), x.shape().to_string()),
              fmt::format("a vector for each entry of {}", rows.to_string()));
}

LayerTensor LayerStack::operator()(Context& context, const LayerTensor& input) const {
  const CopyLimit limit(context.graph());
  Sequence& sequence = context.sequence("a stack of layers");
  LayerTensor x = around(context, initial_, input);
  sequence.layer_outputs = {x};
  for (int64_t b = 0; b < num_layers_; ++b) {
    const auto unit = context.graph().unit(fmt::format("block_{:03}", b), true);
    sequence.block_number = b;
    for (size_t l = 0; l < block_.items().size(); ++l) {
      const LayerList::Item& item = block_.items()[l];
      const int64_t number = block_scope_
                                 ? static_cast<int64_t>(l)
                                 : b * static_cast<int64_t>(block_.items().size()) + static_cast<int64_t>(l);
      const std::string name = item.named ? item.name : fmt::format("layer_{:03}", number);
      const std::string scope = block_scope_ ? fmt::format("block_{:03}/{}", b, name) : name;
      sequence.layer_number = b * static_cast<int64_t>(block_.items().size()) + static_cast<int64_t>(l);
      try {
        const bool is_first = sequence.layer_number == 0;
        const auto layer = [&](const LayerTensor& y) { return apply(context, item, scope, is_first, y); };
        AppliedLayer applied{{"block", item.kind, item.name}, context.graph().scoped(scope)};
        x = apply_layer(context, std::move(applied), layer, x).made_from(x);
        sequence.layer_outputs.push_back(x);
      } catch (const Error& error) {
        throw placed_at(error, item.mark);
      }
    }
    if (b == 0) limit.check("num_layers", num_layers_, block_mark_);
  }
  const LayerTensor y = mask_padding(context, around(context, final_, x)).made_from(x);
  sequence.layer_outputs.back() = y;
  return y;
}

}  // namespace mtf
