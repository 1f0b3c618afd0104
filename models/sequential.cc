#include "models/sequential.h"

#include <fmt/format.h>

#include "engine/base/nearest.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
#include "engine/ops/top_k.h"
#include "engine/ops/transpose.h"
#include "layers/registry.h"

namespace mtf {

void describe_sequential(config::Visitor& visit, SequentialOptions& options) {
  visit("name", options.name, "scope of all variables", config::fixed_on_resume);
  visit("input", options.input,
        "the feature that goes into the first layer; whole numbers become floating-point numbers, unless an "
        "`embedding` looks them up",
        config::fixed_on_resume);
  visit("layers", options.layers, "list of layers from the input to the prediction (`--list-layers`)",
        config::required);
  visit("layer_defaults", options.layer_defaults, "options by layer, for each use of it");
  visit("blocks", options.blocks, "lists of layers by name, for the layer `block`");
}

Sequential::Sequential(const SequentialOptions& options, Diagnostics& diagnostics)
    : name_(options.name), input_(options.input), mark_(options.layers.mark()) {
  if (options.layers.is_null()) return;  // reported as missing
  if (options.layers.is_list() && options.layers.elements().empty()) {
    diagnostics.error(mark_, "there are no layers", "a list such as `[{dense: {output: {classes: 10}}}]`");
    return;
  }
  LayerParser parser(options.layer_defaults, options.blocks, diagnostics);
  list_ = parser.parse(options.layers);
  reads_ids_ = parser.reads_ids();
  if (!list_.empty()) mark_ = list_.last_mark();
}

namespace {

/// Features of the tokens of a text, behind its name.
constexpr const char *kSegmentation = "_segmentation", *kType = "_type", *kPosition = "_position";

Tensor find_feature(const Features& features, const std::string& name) {
  const auto found = features.find(name);
  return found == features.end() ? Tensor{} : found->second;
}

}  // namespace

std::vector<std::string> Sequential::optional_features() const {
  return {input_.text + kSegmentation, input_.text + kType, input_.text + kPosition};
}

Tensor Sequential::prepared(const Context& context, const Tensor& input) const {
  if (!is_floating(input.dtype()) && reads_ids_) return input;
  if (context.vocabulary(input_.text) > 0 && !list_.empty())
    throw Error(ErrorKind::kConfig, list_.items().front().mark,
                fmt::format("feature `{}` has ids of a vocabulary, and no layer looks them up", input_.text),
                "begin with `embedding: {output: {d_model: 256}}`");
  return cast(input, context.precision().activation);
}

LayerTensor Sequential::operator()(Context& context, const Features& features) const {
  const Tensor& input = feature(features, input_);
  check_elements("`" + input_.text + "`", input.shape());
  const Tensor x = prepared(context, input);
  context.set_input_vocabulary(context.vocabulary(input_.text));
  const std::string type = input_.text + std::string(kType);
  context.set_input_tokens({find_feature(features, input_.text + kSegmentation),
                            find_feature(features, input_.text + kType),
                            find_feature(features, input_.text + kPosition),
                            context.has_one_text(type) || context.vocabulary(type) < 2});
  if (name_.empty()) return list_(context, x);
  const auto scope = context.graph().scope(name_);
  return list_(context, x);
}

const Tensor& Sequential::feature(const Features& features, const config::Name& name) const {
  const auto found = features.find(name.text);
  if (found != features.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [feature, tensor] : features) names.push_back(feature);
  throw Error(ErrorKind::kConfig, name.mark.known() ? name.mark : mark_,
              fmt::format("the data have no feature `{}`", name.text), did_you_mean(name.text, names));
}

Tensor mean_of_examples(const Context& context, const Tensor& x) {
  return reduce_mean(x, Shape{context.batch()});
}

Classification classification_of(const Tensor& logits, const Dimension& classes, const Tensor& labels) {
  const Tensor probabilities = softmax(cast(logits, DType::kFloat32), classes.name);
  return {labels, transpose(argmax(logits, classes.name), labels.shape()),
          transpose(reduce_max(probabilities, classes), labels.shape())};
}

}  // namespace mtf
