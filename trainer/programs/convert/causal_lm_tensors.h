// The tensors of language models in Hugging Face format, by the variables that they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/expert_tensors.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {

/// The scope of all variables of a language model.
inline constexpr std::string_view kLmScope = "transformer/";

/// Rows of a file's tensor.
struct FileRows {
  std::vector<int32_t> of_each;  ///< the file's row of each row of the variable
  int64_t count = 0;  ///< rows of the file; those that no row of the variable has are zeros in an export
};

/// The tensor of a Hugging Face file that holds a variable of a language model.
struct CausalLmTensor : HuggingFaceTensor {
  std::optional<TensorPart> part = {};  ///< nothing: the tensor holds this variable alone
  bool has_row_of_each_id = false;
  bool is_less_one = false;                   ///< the file has the variable less 1
  std::optional<ExpertTensors> experts = {};  ///< those of the kernels of experts, in place of `name`
  std::optional<FileRows> rows = {};          ///< nothing: those of the variable
};

/// Maps "transformer/block_007/layer_000/SelfAttention/q" to "model.layers.7.self_attn.q_proj.weight", transposed. Returns
/// nullopt for variables that such a model does not have.
std::optional<CausalLmTensor> causal_lm_tensor(const std::string& variable, const CausalLmConfig& lm);

}  // namespace mtf
