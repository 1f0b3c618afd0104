#include "trainer/programs/convert/layer_options.h"

#include <fmt/format.h>

namespace mtf {

ModelChoice parse_model_options(const config::Node& model) {
  Diagnostics diagnostics;
  auto options = config::parse<ModelChoice>(model, diagnostics, "model");
  diagnostics.throw_if_errors();
  return options;
}

config::Node merged_options(const LayerEntry& layer, const config::Node* defaults) {
  const config::Node* base = defaults ? defaults->find(layer.name) : nullptr;
  const config::Node own = layer.options.is_null() ? config::Node::map({}, layer.mark) : layer.options;
  return base ? config::merge(*base, own) : own;
}

void require_plain_attention(const HeadOptions& options, const Mark& mark, const RefuseLayer& refuse) {
  const auto require = [&](bool holds, const char* what, const char* right) {
    if (!holds) refuse(mark, what, right);
  };
  require(options.num_memory_heads == 0 || options.num_memory_heads == options.num_heads,
          "SelfAttention has num_memory_heads", "0");
  require(!options.shared_kv, "SelfAttention has shared_kv", "false");
  require(!options.fold_scaling_into_initializer, "SelfAttention has fold_scaling_into_initializer", "false");
  require(!options.extra_logit, "SelfAttention has an extra_logit", "null");
  require(!options.soft_cap, "SelfAttention has a soft_cap", "null");
  require(options.qk_norm == QkNorm::kNone, "SelfAttention has qk_norm", "false");
  require(options.prefix_length == 0, "SelfAttention has a prefix", "prefix_length: 0");
  require(!options.scaling_size, "SelfAttention has a scaling_size", "null");
}

std::vector<LayerEntry> layer_entries(const config::Node& list) {
  Diagnostics diagnostics;
  std::vector<LayerEntry> entries;
  for (const config::Node& node : list.elements()) entries.push_back(layer_entry(node, diagnostics));
  diagnostics.throw_if_errors();
  return entries;
}

std::vector<LayerEntry> without_dropout(const config::Node& list, const config::Node* defaults,
                                        const RefuseLayer& refuse, double& rate) {
  std::vector<LayerEntry> left;
  rate = 0;
  for (const LayerEntry& entry : layer_entries(list)) {
    if (entry.name == "dropout") {
      rate = parse_layer<ConvertedDropout>(entry, defaults, refuse).rate;
    } else {
      left.push_back(entry);
    }
  }
  return left;
}

void require_same_sublayers(const SublayerLists& lists, const RefuseLayer& refuse) {
  if (!lists.first.is_null())
    refuse(lists.first.mark(), "its first layer has `sublayers.first`", "no `sublayers.first`");
}

void expect_layers(const std::vector<LayerEntry>& list, const std::vector<std::string>& wanted,
                   const Mark& mark, const std::string& what, const RefuseLayer& refuse) {
  std::vector<std::string> names;
  for (const LayerEntry& entry : list) names.push_back(entry.name);
  if (names != wanted)
    refuse(mark, fmt::format("{} [{}]", what, fmt::join(names, ", ")),
           fmt::format("[{}]", fmt::join(wanted, ", ")));
}

std::string activation_text(const std::vector<Activation>& activation) {
  std::vector<std::string> words;
  for (const Activation function : activation) words.push_back(config::dump(function).text());
  return words.size() == 1 ? words[0] : fmt::format("[{}]", fmt::join(words, ", "));
}

}  // namespace mtf
