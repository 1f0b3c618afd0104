#include "layers/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/config/variables.h"
#include "layers/layer_entry.h"

namespace mtf {
namespace {

using config::Entry;
using config::Node;

std::vector<LayerKind>& registry() {
  static std::vector<LayerKind> kinds;
  return kinds;
}

const LayerKind* find_kind(std::string_view name) {
  for (const LayerKind& kind : registry()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const LayerKind& kind : registry()) names.push_back(kind.name);
  return names;
}

/// The keys of a layer's options; not those below them.
std::vector<std::string> option_keys(const LayerKind& kind) {
  std::vector<std::string> keys;
  for (const config::KnownKey& known : kind.keys("")) {
    const std::string key = known.path.substr(0, known.path.find('.'));
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

/// The layer that someone may mean by this name; else how to find it.
std::string hint_at_layer(std::string_view name) {
  for (const LayerKind& kind : registry()) {
    const auto means = [name](std::string_view common) { return is_same_name(name, common); };
    if (std::ranges::any_of(kind.common_names, means)) return fmt::format("did you mean `{}`?", kind.name);
  }
  return nearest(name, kind_names()) ? did_you_mean(name, kind_names())
                                     : "`mtf-train --list-layers` shows them all";
}

void report_unknown_layer(const std::string& name, const Mark& mark, Diagnostics& diagnostics) {
  diagnostics.error(mark, fmt::format("unknown layer `{}`", name), hint_at_layer(name));
}

std::string indented(const std::string& text, std::string_view indent) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result += line.empty() ? "\n" : fmt::format("{}{}\n", indent, line);
  return result;
}

std::string description_of(const LayerKind& kind) {
  return fmt::format("{}\n{}{}\n", kind.name, indented(kind.formula, "  "), indented(kind.help(), "    "));
}

/// Options as a map: a scalar or list becomes the option that it stands for.
Node as_map(const Node& options, std::string_view shorthand) {
  if (options.is_map() || options.is_null() || shorthand.empty()) return options;
  return Node::map({Entry{std::string(shorthand), options.mark(), options}}, options.mark());
}

/// Options of all layers of a kind, as they stand beside those of one layer.
Node implied(const Node& defaults) {
  if (!defaults.is_map()) return defaults;
  std::vector<Entry> entries = defaults.entries();
  for (Entry& entry : entries) entry.implied = true;
  const Node result = Node::map(std::move(entries), defaults.mark());
  return defaults.incomplete() ? result.as_incomplete() : result;
}

struct Unnamed {
  LayerList::Item item;
  std::string base;  ///< what to number; empty: the user gave the name
};

/// base, base_1, ... for layers without a name, none of which a user's name may be, nor one of `taken`.
std::vector<LayerList::Item> with_names(std::vector<Unnamed> layers, std::set<std::string> taken) {
  for (const Unnamed& layer : layers) {
    if (layer.base.empty()) taken.insert(layer.item.name);
  }
  std::vector<LayerList::Item> items;
  for (Unnamed& layer : layers) {
    if (!layer.base.empty()) {
      layer.item.name = layer.base;
      for (int i = 1; !taken.insert(layer.item.name).second; ++i)
        layer.item.name = fmt::format("{}_{}", layer.base, i);
    }
    items.push_back(std::move(layer.item));
  }
  return items;
}

int64_t count_values(const Node& node) {
  int64_t count = 1;
  for (const Node& element : node.elements()) count += count_values(element);
  for (const Entry& entry : node.entries()) count += count_values(entry.value);
  return count;
}

/// Arguments that a block does not use are mistakes. The result has them also under the names that are meant.
Node check_arguments(const std::string& name, const Node& block, const Node& arguments,
                     Diagnostics& diagnostics) {
  Node corrected = arguments;
  const std::set<std::string> used = config::references(block);
  for (const Entry& argument : arguments.entries()) {
    if (used.contains(argument.key)) continue;
    diagnostics.error(argument.mark, fmt::format("block `{}` does not use `${}`", name, argument.key),
                      did_you_mean(argument.key, {used.begin(), used.end()}));
    if (const auto near = nearest(argument.key, {used.begin(), used.end()}); near && !arguments.entry(*near))
      corrected = corrected.with({*near, argument.mark, argument.value});
  }
  return corrected;
}

}  // namespace

void internal::register_layer(LayerKind kind) {
  MTF_CHECK(!find_kind(kind.name), "layer {} is registered twice", kind.name);
  const auto place = std::find_if(registry().begin(), registry().end(),
                                  [&kind](const LayerKind& other) { return other.name > kind.name; });
  registry().insert(place, std::move(kind));
}

Node internal::split_arguments(const Node& node, const std::vector<std::string>& keys, Node& arguments) {
  std::vector<Entry> own, others;
  for (const Entry& entry : node.entries()) {
    const bool known = std::find(keys.begin(), keys.end(), entry.key) != keys.end();
    (known ? own : others).push_back(entry);
  }
  arguments = Node::map(std::move(others), node.mark());
  return node.is_map() ? Node::map(std::move(own), node.mark()) : node;
}

const std::vector<LayerKind>& layer_kinds() { return registry(); }

const std::vector<config::KnownKey>& layer_keys() {
  static const std::vector<config::KnownKey> keys = [] {
    std::vector<config::KnownKey> all;
    for (const LayerKind& kind : registry()) {
      const std::vector<config::KnownKey> own = kind.keys(kind.name);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }();
  return keys;
}

std::string list_layers(std::string_view name) {
  if (!name.empty()) {
    if (const LayerKind* kind = find_kind(name)) return description_of(*kind);
    throw Error(ErrorKind::kUsage, fmt::format("unknown layer `{}`", name), hint_at_layer(name));
  }
  std::string text =
      "A layer in a list is `LAYER` or `LAYER: {options}`. Every layer has the option `name`, the scope of "
      "its variables:\n"
      "layers of one name share them. Without it, it is the layer's own name, numbered: dense, dense_1, "
      "...\n\n";
  for (const LayerKind& kind : registry()) text += description_of(kind);
  return text;
}

LayerParser::LayerParser(const Node& defaults, const config::Named<Node>& blocks, Diagnostics& diagnostics,
                         std::string path)
    : defaults_(defaults), blocks_(blocks), diagnostics_(diagnostics), path_(std::move(path)) {
  check_defaults();
}

void LayerParser::check_defaults() {
  for (const Entry& entry : defaults_.entries()) {
    if (const LayerKind* kind = find_kind(entry.key))
      check_default(*kind, entry);
    else
      report_unknown_layer(entry.key, entry.mark, diagnostics_);
  }
}

/// Where no layer of the kind is used nothing else looks at them.
void LayerParser::check_default(const LayerKind& kind, const Entry& defaults) {
  const Node options = as_map(defaults.value, kind.shorthand);
  if (!options.is_map() && !options.is_null()) {
    diagnostics_.error(
        options.mark(), fmt::format("the defaults of `{}` are no map of options", kind.name),
        fmt::format("write for example `{}: {{{}: ...}}`", kind.name, option_keys(kind).back()));
  }
  if (kind.takes_arguments) return;
  const std::vector<std::string> keys = option_keys(kind);
  for (const Entry& option : options.entries()) {
    if (std::ranges::find(keys, option.key) != keys.end()) continue;
    const std::string path = kind.name + "." + option.key;
    diagnostics_.error(option.mark, fmt::format("unknown key `{}`", path),
                       config::hint_for_unknown_key(path, keys, layer_keys()));
  }
}

Node LayerParser::with_defaults(const std::string& layer, std::string_view shorthand,
                                const Node& options) const {
  const Node* defaults = defaults_.find(layer);
  const Node own = as_map(options, shorthand);
  if (!defaults) return own;
  const Node base = as_map(*defaults, shorthand);
  return own.is_null() ? base : config::merge(implied(base), own);
}

LayerList LayerParser::parse(const Node& list, const std::set<std::string>& taken) {
  std::vector<Unnamed> layers;
  const Mark outer = mark_;
  const std::vector<Node> entries = list.is_list() ? list.elements() : std::vector<Node>{list};
  for (const Node& node : entries) {
    const LayerEntry entry = layer_entry(node, diagnostics_);
    if (entry.name.empty()) continue;
    const LayerKind* kind = find_kind(entry.name);
    if (!kind) {
      report_unknown_layer(entry.name, entry.mark, diagnostics_);
      continue;
    }
    mark_ = entry.mark;
    const Node options = with_defaults(entry.name, kind->shorthand, entry.options);
    const ParsedLayer parsed = kind->parse(options.is_null() ? Node::map({}, entry.mark) : options, *this);
    reads_ids_ = reads_ids_ || parsed.layer->reads_ids();
    std::string base;
    if (parsed.name.empty())
      base = parsed.layer->default_name().empty() ? kind->name : parsed.layer->default_name();
    layers.push_back({{parsed.name, entry.mark, parsed.layer, kind->name, base.empty()}, base});
  }
  mark_ = outer;
  return LayerList(with_names(std::move(layers), taken));
}

LayerList LayerParser::parse_block(const std::string& name, const Node& arguments) {
  const Node* block = blocks_.find(name);
  if (!block) {
    std::vector<std::string> names;
    for (const auto& [known, layers] : blocks_) names.push_back(known);
    diagnostics_.error(mark_, fmt::format("there is no block `{}` in `model.blocks`", name),
                       did_you_mean(name, names));
    return {};
  }
  if (std::find(open_blocks_.begin(), open_blocks_.end(), name) != open_blocks_.end()) {
    diagnostics_.error(mark_, fmt::format("block `{}` uses itself", name),
                       "take a `repeat` for a number of times");
    return {};
  }
  if (block_values_ > config::kMostValues) return {};
  block_values_ += count_values(*block);
  if (block_values_ > config::kMostValues) {
    diagnostics_.error(mark_, fmt::format("blocks within blocks make more than {} values of `{}`",
                                          config::kMostValues, path_));
    return {};
  }
  const Node corrected = check_arguments(name, *block, arguments, diagnostics_);
  open_blocks_.push_back(name);
  LayerList layers = parse(config::substitute(*block, corrected, diagnostics_));
  open_blocks_.pop_back();
  return layers;
}

}  // namespace mtf
