// Which layers a configuration can name. Each layer's own .cc file registers it, with its options and its
// formula:
//
//   struct ScaleOptions {
//     static constexpr std::string_view shorthand = "factor";   // scale: 0.5
//     double factor = 1;
//   };
//   void describe(config::Visitor& visit, ScaleOptions& options) {
//     visit("factor", options.factor, "multiplies x");
//   }
//
//   class ScaleLayer final : public Layer {
//    public:
//     using Options = ScaleOptions;
//     explicit ScaleLayer(const Options& options) : options_(options) {}
//     LayerTensor operator()(Context& context, const LayerTensor& x) const override {
//       return scalar_multiply(x, options_.factor);
//     }
//     ...
//   };
//   const LayerRegistration<ScaleLayer> scale_registration("scale", "y = factor * x");
//
// A layer that holds lists of layers has a constructor (options, LayerParser&); its lists are options of type
// config::Node. Options with a member `config::Node arguments` receive there all keys that they do not
// describe (block).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/config/load.h"
#include "engine/config/schema.h"
#include "layers/layer.h"

namespace mtf {

struct LayerKind;

/// Turns lists of layers in a configuration into LayerLists. Everything that is wrong goes to the
/// diagnostics.
class LayerParser {
 public:
  /// `defaults`: options by layer name (model.layer_defaults), may be null; `blocks`: lists of layers by name
  /// (model.blocks). `path` is where the lists stand ("model"), for messages.
  LayerParser(const config::Node& defaults, const config::Named<config::Node>& blocks,
              Diagnostics& diagnostics, std::string path = "model");

  /// The layers of a list; one layer alone is a list of one. Those without a name get one that is not among
  /// `taken`.
  LayerList parse(const config::Node& list, const std::set<std::string>& taken = {});
  /// The layers of block `name`, with `$names` replaced by `arguments` (a map), else by the configuration's
  /// variables.
  LayerList parse_block(const std::string& name, const config::Node& arguments);

  Diagnostics& diagnostics() { return diagnostics_; }
  /// True when a layer that was parsed, in any list, reads ids (Layer::reads_ids).
  bool reads_ids() const { return reads_ids_; }

 private:
  void check_defaults();
  void check_default(const LayerKind& kind, const config::Entry& defaults);
  config::Node with_defaults(const std::string& layer, std::string_view shorthand,
                             const config::Node& options) const;

  config::Node defaults_;
  config::Named<config::Node> blocks_;
  Diagnostics& diagnostics_;
  std::string path_;
  Mark mark_;  ///< the place of the layer being parsed
  bool reads_ids_ = false;
  std::vector<std::string> open_blocks_;
  int64_t block_values_ = 0;  ///< values of all blocks where they were used so far
};

/// A layer and the `name` that the configuration gave it (may be empty).
struct ParsedLayer {
  std::string name;
  std::shared_ptr<const Layer> layer;
};

/// What is known of the layers of one name.
struct LayerKind {
  std::string name;
  std::string formula;
  std::string_view
      shorthand;  ///< the option that a scalar or a list in place of the map stands for; may be empty
  std::string (*help)() = nullptr;  ///< the options with types, defaults and meaning
  std::vector<config::KnownKey> (*keys)(std::string_view path) = nullptr;  ///< names of the options
  std::function<ParsedLayer(const config::Node& options, LayerParser& parser)> parse;
  bool takes_arguments = false;  ///< any further keys beside the options
  /// What other programs call it, for hints: "ffn". Literals.
  std::vector<std::string_view> common_names = {};
};

/// All layers by name.
const std::vector<LayerKind>& layer_kinds();
/// The keys of all layers: "dense.output", ...
const std::vector<config::KnownKey>& layer_keys();
/// The text of --list-layers: each layer with its formula and its options, or only the one that is called
/// `name`. Throws Error (kUsage) where there is none of that name.
std::string list_layers(std::string_view name = {});

/// Options of a layer as an entry of a list: its own, and `name`.
template <class Options>
struct EntryOptions : Options {
  std::string name;
};
template <class Options>
void describe(config::Visitor& visit, EntryOptions<Options>& options) {
  visit("name", options.name,
        "scope of the variables; layers of one name share them (default: the layer, numbered)");
  describe(visit, static_cast<Options&>(options));
}

namespace internal {
void register_layer(LayerKind kind);
/// `node` without the keys that are not among `keys`; those go to `arguments`.
config::Node split_arguments(const config::Node& node, const std::vector<std::string>& keys,
                             config::Node& arguments);
}  // namespace internal

/// A file-scope object that makes layer `L` known.
template <class L>
class LayerRegistration {
  using Options = EntryOptions<typename L::Options>;
  static constexpr bool kTakesArguments = requires(Options options) { options.arguments; };

 public:
  /// `formula` in the notation of the field, one line or more. `common_names`: what other programs call the
  /// layer, literals.
  LayerRegistration(std::string_view name, std::string_view formula,
                    std::vector<std::string_view> common_names = {}) {
    std::string_view shorthand;
    if constexpr (requires { Options::shorthand; }) shorthand = Options::shorthand;
    internal::register_layer({std::string(name), std::string(formula), shorthand, &LayerRegistration::help,
                              &config::known_keys<Options>,
                              [name = std::string(name)](const config::Node& node, LayerParser& parser) {
                                return parse(name, node, parser);
                              },
                              kTakesArguments, std::move(common_names)});
  }

 private:
  static std::string help() { return config::help<typename L::Options>(); }

  static ParsedLayer parse(const std::string& name, const config::Node& node, LayerParser& parser) {
    Options options;
    config::Node own = node;
    if constexpr (kTakesArguments) {
      own = internal::split_arguments(node, config::keys<Options>(), options.arguments);
    }
    options = config::parse<Options>(own, parser.diagnostics(), name, std::move(options), &layer_keys);
    if constexpr (std::is_constructible_v<L, const Options&, LayerParser&>) {
      return {options.name, std::make_shared<L>(options, parser)};
    } else {
      return {options.name, std::make_shared<L>(options)};
    }
  }
};

}  // namespace mtf
