#include "models/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/nearest.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {

void describe_sequential(config::Visitor& visit, SequentialOptions& options) {
  visit("name", options.name, "scope of all variables", config::fixed_on_resume);
  visit("input", options.input, "the feature that goes into the first layer", config::fixed_on_resume);
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
  if (!list_.empty()) mark_ = list_.last_mark();
}

Tensor Sequential::operator()(Context& context, const Features& features) const {
  const Tensor& input = feature(features, input_);
  check_elements("`" + input_.text + "`", input.shape());
  const Tensor x = is_floating(input.dtype()) ? cast(input, context.precision().activation) : input;
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

/// Names of losses in other programs.
static constexpr std::array kCommonLosses = {
    CommonName{"mse", "`mean_squared_error`"},
    CommonName{"l2", "`mean_squared_error`"},
    CommonName{"mae", "`mean_absolute_error`"},
    CommonName{"l1", "`mean_absolute_error`"},
    CommonName{"softmax", "`cross_entropy`"},
    CommonName{"nll", "`cross_entropy`"},
    CommonName{"cce", "`cross_entropy`"},
    CommonName{"categorical_cross_entropy", "`cross_entropy`"},
    CommonName{"sparse_categorical_cross_entropy", "`cross_entropy`"}};

void describe_loss(config::Visitor& visit, LossOptions& options, const std::vector<std::string>& names) {
  visit("loss", options, fmt::format("{}; or a map of losses with weights", fmt::join(names, ", ")));
  visit.check([&options, names](const config::Report& report) {
    const auto check = [&](const std::string& name) {
      if (std::find(names.begin(), names.end(), name) != names.end()) return;
      report.error("loss", fmt::format("unknown loss `{}`", name), did_you_mean(name, names, kCommonLosses));
    };
    if (const auto* name = std::get_if<std::string>(&options)) return check(*name);
    for (const auto& [name, weight] : std::get<config::Named<double>>(options)) check(name);
  });
}

Tensor weighted_loss(const LossOptions& options,
                     const std::function<Tensor(const std::string& name)>& loss_of) {
  if (const auto* name = std::get_if<std::string>(&options)) return loss_of(*name);
  Tensor sum;
  for (const auto& [name, weight] : std::get<config::Named<double>>(options)) {
    const Tensor term = scalar_multiply(loss_of(name), weight);
    sum = sum ? add(sum, term) : term;
  }
  return sum;
}

Tensor mean_of_examples(const Context& context, const Tensor& x) {
  return reduce_mean(x, Shape{context.batch()});
}

}  // namespace mtf
