#include "trainer/programs/convert/causal_lm_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/load.h"
#include "layers/embeddings/vocab.h"
#include "layers/experts/options.h"

namespace mtf {

namespace {

using config::Node;

void describe_both(config::Visitor& visit, CausalLmAttention& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  describe_convolution(visit, options);
  describe_rotary(visit, options);
}

struct LocalCausalLmAttention : CausalLmAttention {};
void describe(config::Visitor& visit, LocalCausalLmAttention& options) {
  describe_both(visit, options);
  visit("radius", options.radius, "");
}

struct ConvertedParallel {
  static constexpr std::string_view shorthand = "layers";
  Node layers;
  std::string scale = "sqrt";
};
void describe(config::Visitor& visit, ConvertedParallel& options) {
  visit("layers", options.layers, "");
  visit("scale", options.scale, "");
}

/// A list of layers in `model.blocks`.
struct ConvertedBlock {
  std::string use, name;
};
void describe(config::Visitor& visit, ConvertedBlock& options) {
  visit("use", options.use, "");
  visit("name", options.name, "");
}

/// The options of the norms of a language model: those of layer_norm, since rms_norm refuses `bias` itself.
struct CausalLmNorm : ConvertedNorm {
  bool bias = true;
};
void describe(config::Visitor& visit, CausalLmNorm& options) {
  describe(visit, static_cast<ConvertedNorm&>(options));
  visit("bias", options.bias, "");
}

struct ConvertedScale {
  static constexpr std::string_view shorthand = "factor";
  double factor = 1;
};
void describe(config::Visitor& visit, ConvertedScale& options) { visit("factor", options.factor, ""); }

bool is_norm(const LayerEntry& entry) { return entry.name == "layer_norm" || entry.name == "rms_norm"; }

/// The language model of a configuration, from which its hyperparameters are read.
class CausalLmReader {
 public:
  CausalLmReader(const LanguageModelOptions& model, const Mark& mark) : model_(model), mark_(mark) {}

  CausalLmLayers read() {
    check_model();
    lm_.hidden = model_.d_model;
    lm_.max_positions = model_.max_length;
    lm_.tied = model_.shared_embedding_and_softmax;
    lm_.predicts_padding = model_.predict_padding;
    lm_.logit_bias = model_.logit_bias;
    lm_.logit_soft_cap = model_.logit_soft_cap;
    read_embedding();
    read_sublayers();
    const std::vector<LayerEntry> block = block_layers();
    const CausalLmAttention attention = read_attention(block);
    const ConvertedFeedForward feed_forward = read_feed_forward(block);
    read_heads(attention);
    lm_.intermediate = feed_forward.hidden_size;
    lm_.activation = feed_forward.activation[0];
    lm_.feed_forward_bias = feed_forward.bias;
    require(!activation_name(lm_.activation).empty(), block[1].mark,
            fmt::format("{} has the activation {}", block[1].name, activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, squared_relu, swish or tanh");
    read_.of_model = mark_;
    read_.of_sublayers = model_.around.sublayers.per_layer.mark();
    read_.of_attention = block[0].mark;
    read_.of_feed_forward = block[1].mark;
    read_.attention = attention;
    read_.feed_forward = feed_forward;
    read_.has_layer_norm = norm_ == "layer_norm";
    read_.has_learned_positions = model_.positions == Positions::kLearned;
    return read_;
  }

 private:
  static void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    if (!holds) not_causal_lm(mark, what, right);
  }

  template <class Options>
  Options layer(const LayerEntry& entry) const {
    return parse_layer<Options>(entry, &model_.layer_defaults, not_causal_lm);
  }

  static void expect_names(const std::vector<LayerEntry>& list, const std::vector<std::string>& wanted,
                           const Mark& mark, const std::string& what) {
    expect_layers(list, wanted, mark, what, not_causal_lm);
  }

  void check_model() const {
    require(!model_.delimited && !model_.input_full_attention, mark_, "it reads inputs as a whole",
            "`type: lm` with `input_full_attention: false`");
    require(model_.name == LanguageModelOptions().name, mark_, "its variables have another scope",
            "no `name` in `model`, or `name: transformer`");
    require(model_.around.block_scope, mark_, "`block_scope` is false", "block_scope: true");
    require(!are_sinusoids(model_.positions), mark_, "its positions are sinusoids",
            "positions: learned, or none with `rotary: true` of SelfAttention");
    require(model_.first_position == 0, mark_,
            fmt::format("its positions count from {}", model_.first_position), "first_position: 0");
  }

  void read_embedding() {
    const auto* vocab = model_.embedding.get_if<VocabEmbedding>();
    require(vocab && (vocab->scale_like_classifier || !(lm_.tied && vocab->scale_logits)), mark_,
            "it has another embedding, or divides logits", "embedding: {type: vocab, scale_logits: false}");
    read_.has_scaled_embedding = vocab->scale_like_classifier;
    const auto* normal = vocab->initializer ? std::get_if<NormalInitializer>(&*vocab->initializer) : nullptr;
    // config.json has a deviation for all weights, and cannot say 1 or more.
    if (normal && normal->stddev < 1) lm_.initializer_range = normal->stddev;
  }

  std::vector<LayerEntry> left_of(const Node& list, double& rate) const {
    return without_dropout(list, &model_.layer_defaults, not_causal_lm, rate);
  }

  void add_norm(const LayerEntry& entry) {
    const auto options = layer<CausalLmNorm>(entry);
    require(norm_.empty() || (entry.name == norm_ && options.epsilon == lm_.epsilon &&
                              options.bias == read_.has_norm_biases),
            entry.mark, "its norms are of several kinds",
            "one norm with one `epsilon` and one `bias` in `layer_defaults`");
    norm_ = entry.name;
    lm_.epsilon = options.epsilon;
    read_.has_norm_biases = options.bias;
  }

  void read_sublayers() {
    const SublayerLists& given = model_.around.sublayers;
    require_same_sublayers(given, not_causal_lm);
    const auto list = [](const Node& node, const std::vector<std::string>& usual) {
      if (!node.is_null()) return node;
      std::vector<Node> names;
      for (const std::string& name : usual) names.push_back(Node::scalar(name));
      return Node::list(std::move(names));
    };
    lm_.embedding_dropout = lm_.dropout = model_.around.dropout;
    double rate = 0;
    if (!given.initial.is_null()) {
      std::vector<LayerEntry> initial = left_of(given.initial, lm_.embedding_dropout);
      take_scale(initial, 0, &CausalLmScales::embedding);
      read_.has_embedding_norm = initial.size() == 1 && is_norm(initial[0]);
      if (read_.has_embedding_norm) {
        add_norm(initial[0]);
      } else {
        expect_names(initial, {}, given.initial.mark(), "`sublayers.initial` is");
      }
    }
    std::vector<LayerEntry> around =
        left_of(list(given.per_layer, {"rms_norm", "call_layer", "residual"}), rate);
    if (!given.per_layer.is_null()) lm_.dropout = rate;
    std::vector<LayerEntry> last = left_of(list(given.final, {"rms_norm"}), rate);
    take_scale(around, 2, &CausalLmScales::residual);
    take_scale(last, 1, &CausalLmScales::logit_divisor);
    if (lm_.scales) lm_.scales->logit_divisor = rounded_coefficient(1 / lm_.scales->logit_divisor);
    read_form(around, last, given.per_layer.mark());
    for (const LayerEntry& entry : around)
      if (is_norm(entry)) add_norm(entry);
    const bool names_norm = !last.empty() && is_norm(last[0]);
    const std::string norm = !norm_.empty() ? norm_ : names_norm ? last[0].name : "layer_norm";
    expect_names(last, {norm}, given.final.mark(), "`sublayers.final` is");
    add_norm(last[0]);
  }

  /// Takes a layer that multiplies by a number out of a list, if it stands at this place.
  void take_scale(std::vector<LayerEntry>& list, size_t place, double CausalLmScales::*number) {
    if (place >= list.size() || list[place].name != "scale") return;
    const double factor = layer<ConvertedScale>(list[place]).factor;
    require(factor > 0, list[place].mark, fmt::format("it multiplies by {}", factor), "a number above 0");
    if (!lm_.scales) lm_.scales.emplace();
    (*lm_.scales).*number = factor;
    list.erase(list.begin() + static_cast<ptrdiff_t>(place));
  }

  /// Sets the form of a block whose layers are applied one after the other.
  void read_form(const std::vector<LayerEntry>& around, const std::vector<LayerEntry>& last,
                 const Mark& mark) {
    std::string norm = "rms_norm";
    for (const auto* list : {&last, &around})
      if (const auto found = std::ranges::find_if(*list, is_norm); found != list->end()) norm = found->name;
    using enum BlockForm;
    const std::vector<std::pair<BlockForm, std::vector<std::string>>> forms = {
        {kNormsBefore, {norm, "call_layer", "residual"}},
        {kNormsAround, {norm, "call_layer", norm, "residual"}},
        {kNormsBehind, {"call_layer", norm, "residual"}},
        {kParallelNorms, {"call_layer", "residual"}}};
    std::vector<std::string> names;
    for (const LayerEntry& entry : around) names.push_back(entry.name);
    const auto form = std::ranges::find(forms, names, &decltype(forms)::value_type::second);
    if (form == forms.end()) expect_names(around, forms[0].second, mark, "`sublayers.per_layer` is");
    lm_.form = form->first;
  }

  /// Returns the layers of the block: attention and feed-forward by turns, or attention and experts.
  std::vector<LayerEntry> block_layers() {
    std::vector<LayerEntry> block = layer_entries(model_.block);
    if (block.size() == 1 && block[0].name == kParallel) return parallel_layers(block[0]);
    require(lm_.form != BlockForm::kParallelNorms, model_.around.sublayers.per_layer.mark(),
            "no norms stand around its layers, which are not parallel",
            "sublayers.per_layer: [rms_norm, call_layer, residual]");
    std::vector<std::string> wanted;
    for (size_t i = 0; i < std::max<size_t>(block.size(), 1); i += 2) {
      const bool is_local = i < block.size() && block[i].name == kLocalAttention;
      wanted.emplace_back(is_local ? kLocalAttention : kFullAttention);
      wanted.emplace_back(block.size() > 1 && block[1].name == kExperts ? kExperts : kFeedForward);
    }
    expect_names(block, wanted, model_.block.mark(), "its block is");
    return block;
  }

  /// Returns the layers of a block whose layers see one input: attention and feed-forward.
  std::vector<LayerEntry> parallel_layers(const LayerEntry& parallel) {
    const auto options = layer<ConvertedParallel>(parallel);
    const Mark& around = model_.around.sublayers.per_layer.mark();
    require(options.scale == "none", parallel.mark, "the sum of its parallel layers is divided",
            "scale: none");
    require(lm_.form == BlockForm::kNormsBefore || lm_.form == BlockForm::kParallelNorms, around,
            "norms stand behind its parallel layers", "[layer_norm, call_layer, residual]");
    require(lm_.dropout == 0, around, "the sum of its parallel layers has dropout",
            "`dropout` in both lists of `blocks`");
    if (lm_.form == BlockForm::kNormsBefore) lm_.form = BlockForm::kParallel;
    const std::vector<LayerEntry> parts = layer_entries(options.layers);
    expect_names(parts, {"block", "block"}, parallel.mark, "parallel has");
    double rate = 0;
    const LayerEntry attention = parallel_layer(parts[0], kAttentionBlock, kFullAttention, lm_.dropout),
                     feed_forward = parallel_layer(parts[1], kFeedForwardBlock, kFeedForward, rate);
    require(rate == lm_.dropout, parallel.mark, "its parallel layers have several rates of dropout",
            "the same one in both lists of `blocks`");
    return {attention, feed_forward};
  }

  /// Returns the layer of a list in `model.blocks`. `rate` becomes that of its dropout.
  LayerEntry parallel_layer(const LayerEntry& block, std::string_view name, std::string_view kind,
                            double& rate) {
    const auto options = layer<ConvertedBlock>(block);
    require(options.name == name, block.mark,
            fmt::format("a block of its parallel layers has the name `{}`", options.name),
            fmt::format("name: {}", name));
    const Node* list = model_.blocks.find(options.use);
    require(list != nullptr, block.mark, fmt::format("there is no block `{}`", options.use),
            "a list in `model.blocks`");
    Diagnostics diagnostics;
    const Node layers = config::substitute(*list, Node::map({}), diagnostics);
    diagnostics.throw_if_errors();
    const std::vector<LayerEntry> left = left_of(layers, rate);
    std::vector<std::string> wanted = {std::string(kind)};
    const bool has_norm = lm_.form == BlockForm::kParallelNorms;
    if (has_norm) wanted.insert(wanted.begin(), norm_);
    expect_names(left, wanted, list->mark(), fmt::format("the block `{}` is", options.use));
    if (has_norm) add_norm(left[0]);
    return left.back();
  }

  /// Refuses a layer with other options than those of the first one. Low-rank updates are merged before.
  template <class Options>
  static void require_same(Options options, Options first, const LayerEntry& entry) {
    if constexpr (requires { options.lora; }) {
      options.lora.reset();
      first.lora.reset();
    }
    require(config::dump(options) == config::dump(first), entry.mark,
            fmt::format("{} has other options than the first of these layers", entry.name),
            "the same options for all layers, as in `layer_defaults`");
  }

  /// Sets the kinds of layers, and returns what all layers of attention have.
  CausalLmAttention read_attention(const std::vector<LayerEntry>& block) {
    std::optional<CausalLmAttention> first;
    lm_.kinds.clear();
    for (size_t i = 0; i < block.size(); i += 2) {
      const bool is_local = block[i].name == kLocalAttention;
      CausalLmAttention options = is_local ? CausalLmAttention(layer<LocalCausalLmAttention>(block[i]))
                                           : layer<CausalLmAttention>(block[i]);
      check_attention(options, block[i]);
      lm_.kinds.push_back({.is_local = is_local, .has_rotary = options.rotary});
      if (!first) first = options;
      read_rotary(options, block[i]);
      static_cast<RotaryOptions&>(options) = *first;
      require_same(options, *first, block[i]);
      if (!is_local) continue;
      require(!lm_.window || lm_.window == options.radius, block[i].mark,
              "its windows are of several lengths", "one `radius` in `layer_defaults`");
      lm_.window = options.radius;
    }
    lm_.num_layers = model_.num_layers * lm_.pattern();
    for (const auto& rotary : {read_.local_rotary, read_.full_rotary})
      if (rotary) static_cast<RotaryOptions&>(*first) = *rotary;
    return *first;
  }

  /// Sets the rotary positions of layers of one kind, which are the same for all that have them.
  void read_rotary(const RotaryOptions& options, const LayerEntry& entry) {
    if (!options.rotary) return;
    std::optional<ConvertedRotary>& known =
        entry.name == kLocalAttention ? read_.local_rotary : read_.full_rotary;
    if (!known) known = ConvertedRotary{options};
    require_same(ConvertedRotary{options}, *known, entry);
  }

  static void check_attention(const CausalLmAttention& options, const LayerEntry& entry) {
    const auto has_not = [&](bool holds, const std::string& what, const std::string& right) {
      require(holds, entry.mark, fmt::format("{} has {}", entry.name, what), right);
    };
    has_not(!options.shared_kv, "shared_kv", "false");
    has_not(!options.extra_logit, "an extra_logit", "null");
    has_not(options.prefix_length == 0, "a prefix", "prefix_length: 0");
    has_not(options.convolution_width == 0, "convolutions", "convolution_width: 0");
    has_not(options.relative_attention_type == RelativeAttention::kNone, "relative positions",
            "relative_attention_type: none");
    // Norms of queries undo a scale before them; the layer then divides behind them.
    if (options.qk_norm != QkNorm::kNone)
      has_not(options.fold_scaling_into_initializer, "qk_norm without fold_scaling_into_initializer", "true");
  }

  void read_heads(const CausalLmAttention& options) {
    lm_.num_heads = options.num_heads;
    lm_.num_memory_heads = options.num_memory_heads == 0 ? options.num_heads : options.num_memory_heads;
    lm_.head_size = options.key_value_size;
    lm_.attention_bias = options.bias;
    lm_.attention_dropout = options.dropout;
    lm_.rotary_base = options.rotary_base;
    if (options.rotary_size != options.key_value_size) lm_.rotary_size = options.rotary_size;
    lm_.rotary_scaling = options.rotary_scaling;
    lm_.attention_soft_cap = options.soft_cap;
    if (options.scaling_size != options.key_value_size) lm_.scaling_size = options.scaling_size;
    lm_.has_scaled_queries = options.fold_scaling_into_initializer && options.qk_norm == QkNorm::kNone;
  }

  /// Returns the options that all layers of a block behind attention have.
  template <class Options>
  Options layer_behind_attention(const std::vector<LayerEntry>& block) const {
    const auto first = layer<Options>(block[1]);
    for (size_t i = 3; i < block.size(); i += 2) require_same(layer<Options>(block[i]), first, block[i]);
    return first;
  }

  ConvertedFeedForward read_feed_forward(const std::vector<LayerEntry>& block) {
    return block[1].name == kExperts ? read_experts(layer_behind_attention<MoeOptions>(block), block[1].mark)
                                     : layer_behind_attention<ConvertedFeedForward>(block);
  }

  /// Returns what experts have in common with a feed-forward layer.
  ConvertedFeedForward read_experts(const MoeOptions& options, const Mark& mark) {
    const auto has = [&](bool holds, const std::string& what, const std::string& right) {
      require(holds, mark, fmt::format("{} has {}", kExperts, what), right);
    };
    has(options.is_top_k(), "another gating", "gating: top_k");
    has(options.is_dropless(), "a capacity", "dispatch: dropless");
    has(options.score == Score::kSoftmax, "sigmoids as scores", "score: softmax");
    has(!options.selection_bias, "a selection_bias", "false");
    has(options.expert_groups == 1, "expert_groups", "1");
    has(options.scale == 1, "a scale of its weights", "scale: 1");
    has(options.weight_on == WeightOn::kOutput, "weights on inputs", "weight_on: output");
    has(options.shared_experts == 0 || options.shared_gate, "shared experts without a gate",
        "shared_gate: true");
    lm_.experts = {.count = options.num_experts,
                   .per_token = options.experts_per_token,
                   .normalized = options.normalize,
                   .shared_hidden = {}};
    if (options.shared_experts > 0)
      lm_.experts->shared_hidden =
          options.shared_hidden_size.value_or(options.shared_experts * options.hidden_size);
    lm_.experts->balance_coef = rounded_coefficient(options.balance.coef / balance_ratio(lm_));
    ConvertedFeedForward common;
    common.hidden_size = options.hidden_size;
    common.activation = options.activation;
    return common;
  }

  const LanguageModelOptions& model_;
  Mark mark_;
  CausalLmLayers read_;
  CausalLmConfig& lm_ = read_.lm;
  std::string norm_;
};

}  // namespace

void not_causal_lm(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "no language model of Hugging Face has these layers: " + what, hint);
}

bool CausalLmLayers::has_mixed_windows() const {
  const auto local = std::ranges::count(lm.kinds, true, &AttentionKind::is_local);
  return local > 0 && local < std::ssize(lm.kinds);
}

double balance_ratio(const CausalLmConfig& lm) {
  return static_cast<double>(lm.experts->per_token) / static_cast<double>(lm.num_layers);
}

void describe(config::Visitor& visit, CausalLmAttention& options) {
  describe_both(visit, options);
  visit("relative_attention_type", options.relative_attention_type, "");
  visit("alibi", options.alibi, "");
}

void describe(config::Visitor& visit, ConvertedRotary& options) { describe_rotary(visit, options); }

CausalLmLayers read_causal_lm_layers(const LanguageModelOptions& model, const Mark& mark) {
  return CausalLmReader(model, mark).read();
}

}  // namespace mtf
