// What config.json says and omits for each language model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/programs/convert/causal_lm_config.h"

namespace mtf {

/// Which layers have local attention where `layer_types` does not say: WithoutRotary ones are those that have no rotary
/// positions, if `use_sliding_window` is true; IfGiven means that `sliding_window` is given, IfUsed that `use_sliding_window`
/// is true, UnlessListed that `layer_types` may say something else; upper ones begin at `max_window_layers`, lower ones end
/// there.
enum class Windows {
  kNone,
  kAll,
  kAllUnlessListed,
  kAllIfGiven,
  kAllIfUsed,
  kUpper,
  kLowerAlternate,
  kWithoutRotary,
  kAlternate,
  kThreeOfFour,
  kFiveOfSix
};

/// True if `use_sliding_window` says whether there are windows.
bool has_switch(Windows windows);
/// True if all layers have windows, or none.
bool are_alike(Windows windows);

/// What config.json says and omits, for each model. A size of 0 must be given.
struct CausalLmModel {
  std::string_view type = "";  ///< `model_type`
  CausalLmFamily family = CausalLmFamily::kLlama;
  std::string_view architecture = "";  ///< empty: it is exported as another model of its family
  std::string_view title = "";         ///< name in texts
  BlockForm form = BlockForm::kNormsBefore;
  // What its layers are.
  bool has_layer_norm = false;  ///< false: rms_norm
  bool has_norm_biases = true;  ///< layer_norm has a bias
  bool has_gates = true;        ///< units are multiplied by others
  bool has_dropout = false;     ///< elsewhere than in attention
  bool has_learned_positions = false;
  bool has_alibi = false;
  bool has_embedding_norm = false;  ///< embeddings are normalised
  bool has_local_rotary = false;    ///< `rope_parameters` has those of each type of layers
  bool has_pairs_together = false;  ///< entries of a head that are turned together are neighbours in the file
  // What transformers takes for keys that a file omits.
  int64_t memory_heads = 0;  ///< 0: as many as heads
  int64_t head_size = 0;     ///< 0: hidden_size / heads
  int64_t max_positions = 0;
  Windows windows = Windows::kNone;
  bool tied = false;
  double rotary_base = 10000;
  double rotary_share = 0;  ///< the share of a head's entries that are turned; 0: always all
  double epsilon = 1e-6;
  std::optional<double> attention_soft_cap = {}, logit_soft_cap = {};
  bool is_fused = false;
  int64_t experts_per_token = 0;  ///< 0: there are no experts
  double balance_coef = 0.001;

  bool has_rotary() const { return !has_learned_positions && !has_alibi; }
};

/// All models; several may be of one family.
std::span<const CausalLmModel> causal_lm_models();
/// Their `model_type`.
std::vector<std::string_view> causal_lm_types();
/// The model as which a family is exported.
const CausalLmModel& model_of(CausalLmFamily family);
/// True if `attention_bias` says whether all projections of attention have biases.
bool may_have_all_biases(CausalLmFamily family);
/// True if `mlp_bias` says whether gated units have biases.
bool may_have_unit_biases(CausalLmFamily family);

}  // namespace mtf
