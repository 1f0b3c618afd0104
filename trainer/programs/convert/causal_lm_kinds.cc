// Reads which layers of a language model have windows and rotary positions.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/with_article.h"
#include "trainer/programs/convert/causal_lm_parsing.h"
#include "trainer/programs/convert/layer_types.h"

namespace mtf {
namespace {

/// Returns the window of local attention; nothing: there is none.
std::optional<int64_t> parse_window(const HuggingFaceJson& json, const CausalLmModel& model) {
  const bool has_window =
      has_switch(model.windows) ? json.flag("use_sliding_window", false) : model.windows != Windows::kNone;
  const bool is_given = json.has("sliding_window") || model.windows != Windows::kAllIfGiven;
  if (!has_window || !is_given || json.has_null("sliding_window")) return std::nullopt;
  return json.size("sliding_window", 4096);
}

/// Says whether the attention of a layer is local in a model with windows, where `layer_types` does not say.
bool is_local(const HuggingFaceJson& json, Windows windows, int64_t layer, bool has_rotary) {
  const auto upper = [&] { return layer >= json.size("max_window_layers", 28, 0); };
  switch (windows) {
    case Windows::kNone:
      return false;
    case Windows::kAll:
    case Windows::kAllUnlessListed:
    case Windows::kAllIfGiven:
    case Windows::kAllIfUsed:
      return true;
    case Windows::kUpper:
      return upper();
    case Windows::kLowerAlternate:
      return layer % 2 == 0 && !upper();
    case Windows::kWithoutRotary:
      return !has_rotary;
    case Windows::kAlternate:
      return layer % 2 == 0;
    case Windows::kThreeOfFour:
      return (layer + 1) % 4 != 0;
    case Windows::kFiveOfSix:
      return (layer + 1) % json.size("sliding_window_pattern", 6) != 0;
  }
  MTF_CHECK(false, "windows {}", static_cast<int>(windows));
}

/// Says of each layer of a SmolLM3 whether it has rotary positions; those of the others all have them.
std::vector<AttentionKind> parse_rotary_layers(const HuggingFaceJson& json, const CausalLmConfig& lm) {
  std::vector<AttentionKind> kinds(static_cast<size_t>(lm.num_layers));
  if (lm.family != CausalLmFamily::kSmolLm3) return kinds;
  const char* const key = "no_rope_layers";
  if (!json.has(key)) {
    const int64_t interval = json.size("no_rope_layer_interval", 4);
    for (int64_t layer = interval - 1; layer < lm.num_layers; layer += interval)
      kinds[static_cast<size_t>(layer)].has_rotary = false;
  } else {
    const nlohmann::json& given = json.at(key);
    if (!given.is_array() || std::ssize(given) < lm.num_layers)
      json.fail(fmt::format("`{}` is no list of {} numbers", key, lm.num_layers), "one for each layer");
    for (size_t layer = 0; layer < kinds.size(); ++layer) {
      if (given[layer] != 0 && given[layer] != 1)
        json.fail(fmt::format("`{}` has {}", key, given[layer].dump()),
                  "1 for a layer with rotary positions, 0 for another one");
      kinds[layer].has_rotary = given[layer] == 1;
    }
  }
  if (std::ranges::none_of(kinds, &AttentionKind::has_rotary))
    json.fail(fmt::format("`{}` leaves no layer with rotary positions", key), "1 for some layers");
  return kinds;
}

/// A family whose layers all are alike is that of a model without windows, whose class has the same tensors; a Phi-3 whose
/// rotary positions another class has is that one.
void settle_family_of_kinds(CausalLmConfig& lm) {
  using enum CausalLmFamily;
  if (lm.family == kOlmo3 && !lm.window) {
    lm.family = kOlmo2;
    lm.local_rotary_base.reset();
  }
  if (lm.family == kMinistral && lm.pattern() == 1) lm.family = kMistral;
  if (lm.family == kPhi3 && !lm.rotary_size && !lm.has_longrope()) lm.family = kMistral;
  const bool is_llama = !lm.window && !lm.has_odd_heads();
  if (lm.family == kMistral && is_llama) lm.family = kLlama;
}

}  // namespace

void parse_layer_kinds(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  lm.window = parse_window(json, model);
  lm.kinds = parse_rotary_layers(json, lm);
  for (int64_t layer = 0; layer < lm.num_layers; ++layer) {
    AttentionKind& kind = lm.kinds[static_cast<size_t>(layer)];
    kind.is_local = lm.window && is_local(json, model.windows, layer, kind.has_rotary);
  }
  if (json.has("layer_types")) {
    const std::vector<bool> types = parse_layer_types(json, lm.num_layers);
    const bool may_differ = lm.window && !are_alike(model.windows);
    if (!may_differ && !std::ranges::equal(types, lm.kinds, {}, {}, &AttentionKind::is_local))
      json.fail(fmt::format("`layer_types` has other windows than {} of this file", with_article(model.type)),
                lm.window ? "sliding_attention" : "full_attention");
    for (size_t layer = 0; layer < types.size(); ++layer) lm.kinds[layer].is_local = types[layer];
  }
  // A window that is as long as the longest row hides nothing; local attention may have rotary positions of its own.
  if (lm.window && *lm.window >= lm.max_positions && !lm.local_rotary_base)
    for (AttentionKind& kind : lm.kinds) kind.is_local = false;
  reduce_to_pattern(lm.kinds);
  if (std::ranges::none_of(lm.kinds, &AttentionKind::is_local)) lm.window.reset();
  settle_family_of_kinds(lm);
}

}  // namespace mtf
