#include "trainer/programs/convert/model_layers.h"

#include <fmt/format.h>

#include "engine/base/check.h"

namespace mtf {
namespace {

using config::Node;

struct ConvertedSequential : SequentialOptions {};
void describe(config::Visitor& visit, ConvertedSequential& options) { describe_sequential(visit, options); }

/// The keys that all models of one list of layers have.
SequentialOptions sequential_of(const Node& model) {
  Node own = Node::map({}, model.mark());
  for (const char* key : {"name", "input", "layers", "layer_defaults", "blocks"}) {
    if (const config::Entry* entry = model.entry(key)) own = own.with(*entry);
  }
  Diagnostics diagnostics;
  SequentialOptions options = config::parse<ConvertedSequential>(own, diagnostics, "model");
  diagnostics.throw_if_errors();
  return options;
}

Node as_list(const Node& list) { return list.is_list() ? list : Node::list({list}, list.mark()); }

std::string within(const std::string& scope, const std::string& name) {
  return scope.empty() ? name : fmt::format("{}/{}", scope, name);
}

struct ConvertedRepeat {
  int64_t times = 1;
  Node layers;
};
void describe(config::Visitor& visit, ConvertedRepeat& options) {
  visit("times", options.times, "");
  visit("layers", options.layers, "");
}

}  // namespace

ModelLayers::ModelLayers(const Node& model) : model_(sequential_of(model)) {}

std::vector<ScopedLayer> ModelLayers::all() const { return of(model_.layers, model_.name); }

std::vector<ScopedLayer> ModelLayers::of(const Node& list, const std::string& scope) const {
  if (list.is_null()) return {};
  Diagnostics diagnostics;
  const LayerList parsed = LayerParser(model_.layer_defaults, model_.blocks, diagnostics).parse(list);
  diagnostics.throw_if_errors();
  const std::vector<LayerEntry> entries = layer_entries(as_list(list));
  MTF_CHECK(parsed.items().size() == entries.size(), "{} layers of {}", parsed.items().size(),
            entries.size());
  std::vector<ScopedLayer> layers;
  for (size_t i = 0; i < entries.size(); ++i) add(entries[i], within(scope, parsed.items()[i].name), layers);
  return layers;
}

void ModelLayers::add(const LayerEntry& given, const std::string& scope,
                      std::vector<ScopedLayer>& layers) const {
  LayerEntry entry = given;
  if (given.options.is_map()) entry.options = given.options.without("name");
  const auto add_list = [&](const Node& list, const std::string& inner) {
    for (ScopedLayer& layer : of(list, inner)) layers.push_back(std::move(layer));
  };
  if (entry.name == "block") {
    const Node arguments = merged_options(entry, &model_.layer_defaults);
    const Node* block = model_.blocks.find(arguments.find("use")->text());
    Diagnostics diagnostics;
    const Node list = config::substitute(*block, arguments.without("use"), diagnostics);
    diagnostics.throw_if_errors();
    add_list(list, scope);
  } else if (entry.name == "repeat") {
    const auto repeat =
        parse_layer<ConvertedRepeat>(entry, &model_.layer_defaults,
                                     [](const Mark& mark, const std::string& what, const std::string& hint) {
                                       throw Error(ErrorKind::kConfig, mark, what, hint);
                                     });
    for (int64_t i = 0; i < repeat.times; ++i)
      add_list(repeat.layers, within(scope, fmt::format("{:03}", i)));
  } else {
    layers.push_back({std::move(entry), scope});
  }
}

}  // namespace mtf
