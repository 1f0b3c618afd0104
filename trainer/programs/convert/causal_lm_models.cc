#include "trainer/programs/convert/causal_lm_models.h"

#include <algorithm>
#include <array>

namespace mtf {
namespace {

constexpr std::array<CausalLmModel, 19> kModels = {{
    {.type = "gpt2",
     .family = CausalLmFamily::kGpt2,
     .architecture = "GPT2LMHeadModel",
     .max_positions = 1024,
     .tied = true},
    {.type = "gpt_neox",
     .family = CausalLmFamily::kGptNeoX,
     .architecture = "GPTNeoXForCausalLM",
     .form = BlockForm::kParallelNorms,
     .max_positions = 2048,
     .rotary_share = 0.25,
     .epsilon = 1e-5},
    {.type = "phi",
     .family = CausalLmFamily::kPhi,
     .architecture = "PhiForCausalLM",
     .form = BlockForm::kParallel,
     .max_positions = 2048,
     .rotary_share = 0.5,
     .epsilon = 1e-5},
    {.type = "stablelm",
     .family = CausalLmFamily::kStableLm,
     .architecture = "StableLmForCausalLM",
     .memory_heads = 32,
     .max_positions = 4096,
     .rotary_share = 0.25,
     .epsilon = 1e-5},
    {.type = "llama",
     .family = CausalLmFamily::kLlama,
     .architecture = "LlamaForCausalLM",
     .max_positions = 2048},
    {.type = "granite",
     .family = CausalLmFamily::kGranite,
     .architecture = "GraniteForCausalLM",
     .max_positions = 2048},
    {.type = "mistral",
     .family = CausalLmFamily::kMistral,
     .architecture = "MistralForCausalLM",
     .memory_heads = 8,
     .max_positions = 131072,
     .windows = Windows::kAll},
    {.type = "ministral",
     .family = CausalLmFamily::kMinistral,
     .architecture = "MinistralForCausalLM",
     .memory_heads = 8,
     .max_positions = 131072,
     .windows = Windows::kAllUnlessListed},
    {.type = "qwen2",
     .family = CausalLmFamily::kQwen2,
     .architecture = "Qwen2ForCausalLM",
     .memory_heads = 32,
     .max_positions = 32768,
     .windows = Windows::kUpper},
    {.type = "qwen3",
     .family = CausalLmFamily::kQwen3,
     .architecture = "Qwen3ForCausalLM",
     .memory_heads = 32,
     .head_size = 128,
     .max_positions = 32768,
     .windows = Windows::kUpper},
    {.type = "olmo2",
     .family = CausalLmFamily::kOlmo2,
     .architecture = "Olmo2ForCausalLM",
     .form = BlockForm::kNormsBehind,
     .max_positions = 2048,
     .epsilon = 1e-5},
    {.type = "gemma",
     .family = CausalLmFamily::kGemma,
     .architecture = "GemmaForCausalLM",
     .memory_heads = 16,
     .head_size = 256,
     .max_positions = 8192,
     .tied = true},
    {.type = "gemma2",
     .family = CausalLmFamily::kGemma2,
     .architecture = "Gemma2ForCausalLM",
     .form = BlockForm::kNormsAround,
     .memory_heads = 4,
     .head_size = 256,
     .max_positions = 8192,
     .windows = Windows::kAlternate,
     .tied = true,
     .attention_soft_cap = 50,
     .logit_soft_cap = 30},
    {.type = "gemma3_text",
     .family = CausalLmFamily::kGemma3,
     .architecture = "Gemma3ForCausalLM",
     .form = BlockForm::kNormsAround,
     .memory_heads = 4,
     .head_size = 256,
     .max_positions = 131072,
     .windows = Windows::kFiveOfSix,
     .tied = true,
     .rotary_base = 1e6},
    {.type = "phi3",
     .family = CausalLmFamily::kMistral,
     .max_positions = 4096,
     .windows = Windows::kAllIfGiven,
     .epsilon = 1e-5,
     .is_fused = true},
    {.type = "mixtral",
     .family = CausalLmFamily::kMixtral,
     .architecture = "MixtralForCausalLM",
     .memory_heads = 8,
     .max_positions = 131072,
     .windows = Windows::kAllIfGiven,
     .rotary_base = 1e6,
     .epsilon = 1e-5,
     .experts_per_token = 2},
    {.type = "olmoe",
     .family = CausalLmFamily::kOlmoe,
     .architecture = "OlmoeForCausalLM",
     .max_positions = 4096,
     .epsilon = 1e-5,
     .experts_per_token = 8,
     .balance_coef = 0.01},
    {.type = "qwen2_moe",
     .family = CausalLmFamily::kQwen2Moe,
     .architecture = "Qwen2MoeForCausalLM",
     .memory_heads = 16,
     .max_positions = 32768,
     .windows = Windows::kLowerAlternate,
     .experts_per_token = 4},
    {.type = "qwen3_moe",
     .family = CausalLmFamily::kQwen3Moe,
     .architecture = "Qwen3MoeForCausalLM",
     .memory_heads = 4,
     .max_positions = 32768,
     .windows = Windows::kAllIfUsed,
     .experts_per_token = 8},
}};

}  // namespace

bool has_switch(Windows windows) {
  return windows == Windows::kAllIfUsed || windows == Windows::kUpper || windows == Windows::kLowerAlternate;
}

bool are_alike(Windows windows) {
  return windows == Windows::kAll || windows == Windows::kAllIfGiven || windows == Windows::kAllIfUsed;
}

std::span<const CausalLmModel> causal_lm_models() { return kModels; }

std::vector<std::string_view> causal_lm_types() {
  std::vector<std::string_view> types;
  for (const CausalLmModel& model : kModels) types.push_back(model.type);
  return types;
}

const CausalLmModel& model_of(CausalLmFamily family) {
  return *std::ranges::find(kModels, family, &CausalLmModel::family);
}

bool may_have_all_biases(CausalLmFamily family) {
  using enum CausalLmFamily;
  constexpr std::array kWithout = {kGpt2, kPhi, kStableLm, kMistral, kMinistral, kQwen2, kMixtral, kQwen2Moe};
  return std::ranges::find(kWithout, family) == kWithout.end();
}

bool may_have_unit_biases(CausalLmFamily family) {
  return family == CausalLmFamily::kLlama || family == CausalLmFamily::kGranite;
}

}  // namespace mtf
