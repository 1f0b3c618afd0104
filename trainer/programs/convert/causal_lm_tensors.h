// The tensors of language models in Hugging Face format, by the variables that they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/expert_tensors.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The scope of all variables of a language model, and the name of its softmax weights in a file.
inline constexpr std::string_view kLmScope = "transformer/", kLmHead = "lm_head.weight";

/// The tensor of a Hugging Face file that holds a variable of a language model.
struct CausalLmTensor : HuggingFaceTensor {
  /// A GPT-2 has queries, keys and values in one tensor, one behind another: the variable is that third of its columns.
  std::optional<int64_t> third = {};
  bool has_row_of_each_id = false;
  bool is_less_one = false;                   ///< the file has the variable less 1
  std::optional<ExpertTensors> experts = {};  ///< those of the kernels of experts, in place of `name`
};

/// Maps "transformer/block_007/layer_000/SelfAttention/q" to "model.layers.7.self_attn.q_proj.weight", transposed. Returns
/// nullopt for variables that such a model does not have.
std::optional<CausalLmTensor> causal_lm_tensor(const std::string& variable, const CausalLmConfig& lm);

}  // namespace mtf
