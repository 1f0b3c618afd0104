// Options of the layer MoE1D, with the names and defaults of Mesh TensorFlow where it has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/config/schema.h"
#include "layers/activation.h"

namespace mtf {

/// How a token's experts are found: docs/experts.md.
enum class Gating { kTop2, kTopN, kSwitch, kSwitchMax, kNtlb, kExpertSelection, kTopK };
config::EnumNames enum_names(Gating);

/// Which further choices of top_2 and top_n count.
enum class SecondPolicy { kAll, kNone, kThreshold, kRandom };
config::EnumNames enum_names(SecondPolicy);

/// How switch and its relatives explore.
enum class SwitchPolicy { kArgmax, kInputDropout, kInputJitter, kSample };
config::EnumNames enum_names(SwitchPolicy);

enum class Grouping { kRow, kFlat };
config::EnumNames enum_names(Grouping);

enum class DispatchForm { kCapacity, kDropless };
config::EnumNames enum_names(DispatchForm);

enum class DropOrder { kPosition, kProbability };
config::EnumNames enum_names(DropOrder);

enum class Score { kSoftmax, kSigmoid };
config::EnumNames enum_names(Score);

enum class GroupScore { kSum2, kMax };
config::EnumNames enum_names(GroupScore);

enum class WeightOn { kOutput, kInput };
config::EnumNames enum_names(WeightOn);

enum class BalanceScope { kSequence, kBatch };
config::EnumNames enum_names(BalanceScope);

struct BalanceOptions {
  static constexpr std::string_view shorthand = "coef";
  double coef = 1e-2;
  BalanceScope scope = BalanceScope::kSequence;
};
void describe(config::Visitor& visit, BalanceOptions& options);

/// Options of gating top_k.
struct TopKOptions {
  int64_t experts_per_token = 2;
  Score score = Score::kSoftmax;
  bool selection_bias = false;
  double bias_update_rate = 1e-3;
  bool centered = false;
  int64_t expert_groups = 1;
  int64_t groups_per_token = 1;
  GroupScore group_score = GroupScore::kSum2;
  bool normalize = true;
  double scale = 1;
  WeightOn weight_on = WeightOn::kOutput;
  int64_t shared_experts = 0;
  std::optional<int64_t> shared_hidden_size;
  bool shared_gate = false;
  BalanceOptions balance;
  double router_z = 0;
};

struct MoeOptions : TopKOptions {
  int64_t num_experts = 16;
  int64_t hidden_size = 4096;
  std::vector<Activation> activation = {Activation::kRelu};
  double dropout_rate = 0;
  Gating gating = Gating::kTop2;
  int64_t top_n_num_experts_per_token = 3;
  int64_t ntlb_top_k = 4;
  Grouping grouping = Grouping::kRow;
  int64_t group_size = 1024;
  std::optional<DispatchForm> dispatch;
  DropOrder drop = DropOrder::kPosition;
  double capacity_factor_train = 1.25;
  double capacity_factor_eval = 2;
  int64_t min_expert_capacity = 4;
  SecondPolicy second_policy_train = SecondPolicy::kRandom;
  SecondPolicy second_policy_eval = SecondPolicy::kRandom;
  double second_threshold_train = 0.2;
  double second_threshold_eval = 0.2;
  bool use_second_place_loss = false;
  SwitchPolicy switch_policy_train = SwitchPolicy::kInputJitter;
  SwitchPolicy switch_policy_eval = SwitchPolicy::kInputJitter;
  double switch_dropout = 0.1;
  double switch_jitter = 1e-2;
  double switch_temperature = 1;
  double loss_coef = 1e-2;
  double z_loss = 0;
  bool parity = false;

  bool is_top_k() const { return gating == Gating::kTopK; }
  /// Choices that a token makes.
  int64_t choices() const;
  /// Tokens are never dropped, where no capacity is asked for.
  bool is_dropless() const { return dispatch ? *dispatch == DispatchForm::kDropless : is_top_k(); }
};
void describe(config::Visitor& visit, MoeOptions& options);

}  // namespace mtf
