#include "layers/experts/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace mtf {

config::EnumNames enum_names(Gating) {
  return {{"top_2", Gating::kTop2},    {"top_n", Gating::kTopN},
          {"switch", Gating::kSwitch}, {"switch_max", Gating::kSwitchMax},
          {"ntlb", Gating::kNtlb},     {"expert_selection", Gating::kExpertSelection},
          {"top_k", Gating::kTopK}};
}
config::EnumNames enum_names(SecondPolicy) {
  return {{"all", SecondPolicy::kAll},
          {"none", SecondPolicy::kNone},
          {"threshold", SecondPolicy::kThreshold},
          {"random", SecondPolicy::kRandom}};
}
config::EnumNames enum_names(SwitchPolicy) {
  return {{"argmax", SwitchPolicy::kArgmax},
          {"input_dropout", SwitchPolicy::kInputDropout},
          {"input_jitter", SwitchPolicy::kInputJitter},
          {"sample", SwitchPolicy::kSample}};
}
config::EnumNames enum_names(Grouping) { return {{"row", Grouping::kRow}, {"flat", Grouping::kFlat}}; }
config::EnumNames enum_names(DispatchForm) {
  return {{"capacity", DispatchForm::kCapacity}, {"dropless", DispatchForm::kDropless}};
}
config::EnumNames enum_names(DropOrder) {
  return {{"position", DropOrder::kPosition}, {"probability", DropOrder::kProbability}};
}
config::EnumNames enum_names(Score) { return {{"softmax", Score::kSoftmax}, {"sigmoid", Score::kSigmoid}}; }
config::EnumNames enum_names(GroupScore) { return {{"sum_2", GroupScore::kSum2}, {"max", GroupScore::kMax}}; }
config::EnumNames enum_names(WeightOn) {
  return {{"output", WeightOn::kOutput}, {"input", WeightOn::kInput}};
}
config::EnumNames enum_names(BalanceScope) {
  return {{"sequence", BalanceScope::kSequence}, {"batch", BalanceScope::kBatch}};
}

int64_t MoeOptions::choices() const {
  switch (gating) {
    case Gating::kTop2:
      return 2;
    case Gating::kTopN:
      return top_n_num_experts_per_token;
    case Gating::kNtlb:
      return ntlb_top_k;
    case Gating::kExpertSelection:
      return num_experts;
    case Gating::kTopK:
      return experts_per_token;
    case Gating::kSwitch:
    case Gating::kSwitchMax:
      break;
  }
  return 1;
}

void describe(config::Visitor& visit, BalanceOptions& options) {
  visit("coef", options.coef, "weight of the balance loss; 0: none", config::non_negative);
  visit("scope", options.scope,
        "`sequence`: the mean over the rows of each row's loss; `batch`: the loss of all tokens of a "
        "microbatch");
}

namespace {

void describe_places(config::Visitor& visit, MoeOptions& options) {
  visit(
      "dispatch", options.dispatch,
      "`capacity`: an expert takes so many tokens of a group, others are dropped; `dropless`: all (default: "
      "dropless for top_k, capacity for others)");
  visit("drop", options.drop,
        "which tokens an expert keeps that has too many: the first ones, or those of largest weight (top_k)");
  visit("capacity_factor_train", options.capacity_factor_train,
        "places of all experts for each token of a group (top_k: for each choice)", config::positive);
  visit("capacity_factor_eval", options.capacity_factor_eval, "the same in evaluation", config::positive);
  visit("min_expert_capacity", options.min_expert_capacity, "least places of an expert (not top_k)",
        config::positive);
  visit("grouping", options.grouping,
        "tokens that compete for places: runs of a row, or of all rows of a microbatch one after the other");
  visit("group_size", options.group_size, "most tokens of a group", config::positive);
}

void describe_original(config::Visitor& visit, MoeOptions& options) {
  visit("top_n_num_experts_per_token", options.top_n_num_experts_per_token, "top_n: experts of a token",
        config::positive);
  visit("ntlb_top_k", options.ntlb_top_k, "ntlb: experts that a token tries one after the other",
        config::positive);
  visit(
      "second_policy_train", options.second_policy_train,
      "top_2, top_n: which choices behind the first count: all, none, those of a weight above the threshold, "
      "or with probability weight / threshold");
  visit("second_policy_eval", options.second_policy_eval, "the same in evaluation, where `random` is `all`");
  visit("second_threshold_train", options.second_threshold_train, "threshold of the policy",
        config::probability);
  visit("second_threshold_eval", options.second_threshold_eval, "the same in evaluation",
        config::probability);
  visit("use_second_place_loss", options.use_second_place_loss,
        "top_2, top_n: second choices are balanced, too");
  visit("switch_policy_train", options.switch_policy_train,
        "switch, switch_max, ntlb, expert_selection: noise of the router: dropout or jitter of its input, or "
        "an "
        "expert drawn from the softmax (switch, switch_max)");
  visit("switch_policy_eval", options.switch_policy_eval,
        "the same in evaluation, where inputs have no noise");
  visit("switch_dropout", options.switch_dropout, "rate of input_dropout", config::probability);
  visit("switch_jitter", options.switch_jitter, "input_jitter multiplies by 1 - jitter to 1 + jitter",
        config::probability);
  visit("switch_temperature", options.switch_temperature, "temperature of `sample`", config::non_negative);
  visit("loss_coef", options.loss_coef, "weight of the balance loss and of z_loss (top_k: `balance`)",
        config::non_negative);
  visit("z_loss", options.z_loss, "weight, times loss_coef, of the squared log-sum-exp of router logits",
        config::non_negative);
  visit("parity", options.parity, "evaluation draws second choices where the policy is `random`");
}

void describe_top_k(config::Visitor& visit, TopKOptions& options) {
  visit("experts_per_token", options.experts_per_token, "top_k: experts of a token", config::positive);
  visit("score", options.score, "top_k: scores of experts are a softmax, or sigmoids");
  visit("selection_bias", options.selection_bias,
        "top_k: scores plus a bias choose; each step moves the biases of experts with many tokens down");
  visit("bias_update_rate", options.bias_update_rate, "step of the selection bias", config::non_negative);
  visit("centered", options.centered, "the mean of the biases stays as it is");
  visit("expert_groups", options.expert_groups, "top_k: experts form so many groups", config::positive);
  visit("groups_per_token", options.groups_per_token, "top_k: groups that a token's experts are in",
        config::positive);
  visit("group_score", options.group_score,
        "a group counts as the sum of its two best scores, or as its best");
  visit("normalize", options.normalize, "top_k: the weights of a token's experts add up to 1");
  visit("scale", options.scale, "top_k: factor of the weights", config::positive);
  visit("weight_on", options.weight_on, "top_k: weights multiply what experts make, or what they get");
  visit("shared_experts", options.shared_experts, "top_k: experts of every token", config::non_negative);
  visit("shared_hidden_size", options.shared_hidden_size,
        "size of their `d_ff` together (default: shared_experts * hidden_size)", config::positive);
  visit("shared_gate", options.shared_gate, "their result is multiplied by a sigmoid of the input");
  visit("balance", options.balance, "top_k: loss that balances the experts");
  visit("router_z", options.router_z, "top_k: weight of the squared log-sum-exp of router logits",
        config::non_negative);
}

/// Reports options that have no effect with the others. One of `model.layer_defaults` may be for other layers where this
/// layer itself says what it depends on.
class Effects {
 public:
  Effects(const MoeOptions& options, const config::Report& report) : options_(options), report_(report) {}

  void check() const {
    check_gating();
    check_dispatch();
    if (!options_.is_top_k()) return;
    if (options_.shared_experts == 0)
      unread({"shared_hidden_size", "shared_gate"}, "shared_experts", "without `shared_experts`",
             "`shared_experts: 1`");
    if (!options_.selection_bias)
      unread({"bias_update_rate", "centered"}, "selection_bias", "without `selection_bias`",
             "`selection_bias: true`");
    if (options_.expert_groups == 1)
      unread({"groups_per_token", "group_score"}, "expert_groups", "without `expert_groups`",
             "a number of `expert_groups`");
  }

 private:
  using Keys = std::initializer_list<std::string_view>;

  void check_gating() const {
    using enum Gating;
    only({kTop2, kTopN},
         {"second_policy_train", "second_policy_eval", "second_threshold_train", "second_threshold_eval",
          "use_second_place_loss", "parity"},
         "gating `top_2` or `top_n`");
    only({kTopN}, {"top_n_num_experts_per_token"}, "gating `top_n`");
    only({kNtlb}, {"ntlb_top_k"}, "gating `ntlb`");
    only({kSwitch, kSwitchMax, kNtlb, kExpertSelection},
         {"switch_policy_train", "switch_policy_eval", "switch_jitter"},
         "gating `switch`, `switch_max`, `ntlb` or `expert_selection`");
    only({kSwitch, kSwitchMax, kExpertSelection}, {"switch_dropout"},
         "gating `switch`, `switch_max` or `expert_selection`");
    only({kSwitch, kSwitchMax}, {"switch_temperature"}, "gating `switch` or `switch_max`");
    only({kTopK},
         {"experts_per_token", "score", "selection_bias", "bias_update_rate", "centered", "expert_groups",
          "groups_per_token", "group_score", "normalize", "scale", "weight_on", "drop", "shared_experts",
          "shared_gate", "shared_hidden_size"},
         "gating `top_k`");
    only({kTopK}, {"balance"}, "`loss_coef`");
    only({kTopK}, {"router_z"}, "`z_loss`");
    if (!options_.is_top_k()) return;
    only({}, {"loss_coef"}, "`balance`");
    only({}, {"z_loss"}, "`router_z`");
    only({}, {"min_expert_capacity"}, "another gating");
  }

  void check_dispatch() const {
    if (!options_.is_dropless()) return;
    const std::string_view with = options_.dispatch ? "with dispatch `dropless`"
                                                    : "with dispatch `dropless`, the default of this gating";
    unread({"capacity_factor_train", "capacity_factor_eval"}, "dispatch", with, "`dispatch: capacity`");
    if (options_.is_top_k())
      unread({"drop"}, "dispatch", with, "`dispatch: capacity`");
    else
      unread({"min_expert_capacity"}, "dispatch", with, "`dispatch: capacity`");
  }

  void only(std::initializer_list<Gating> readers, Keys keys, std::string_view instead) const {
    if (std::ranges::find(readers, options_.gating) == readers.end())
      unread(keys, "gating", fmt::format("with gating `{}`", config::dump(options_.gating).text()), instead);
  }

  /// `decider`: the key because of which the others have no effect.
  void unread(Keys keys, std::string_view decider, std::string_view with, std::string_view instead) const {
    for (const std::string_view key : keys) {
      if (!report_.given(key) || (report_.implied(key) && (is_own("gating") || is_own(decider)))) continue;
      report_.error(key, fmt::format("`{}` has no effect {}", key, with),
                    fmt::format("leave it out, or take {}", instead));
    }
  }
  bool is_own(std::string_view key) const { return report_.given(key) && !report_.implied(key); }

  const MoeOptions& options_;
  const config::Report& report_;
};

void check(const MoeOptions& options, const config::Report& report) {
  Effects(options, report).check();
  const int64_t experts = options.num_experts;
  const auto too_many = [&](std::string_view key, int64_t choices) {
    if (choices > experts)
      report.error(key,
                   fmt::format("`{}` is {}, but there {} {} expert{}", key, choices,
                               experts == 1 ? "is" : "are", experts, experts == 1 ? "" : "s"),
                   fmt::format("at most {}", experts));
  };
  if (options.gating == Gating::kTop2 && experts < 2)
    report.error("num_experts", "gating `top_2` chooses 2 experts of each token, and there is 1",
                 "at least 2, or gating `switch`");
  if (options.gating == Gating::kTopN)
    too_many("top_n_num_experts_per_token", options.top_n_num_experts_per_token);
  if (options.gating == Gating::kNtlb) too_many("ntlb_top_k", options.ntlb_top_k);
  if (options.is_top_k()) {
    too_many("experts_per_token", options.experts_per_token);
    const int64_t groups = options.expert_groups, kept = options.groups_per_token;
    if (experts % groups != 0) {
      report.error("expert_groups", fmt::format("{} experts cannot form {} groups", experts, groups),
                   "a divisor of `num_experts`");
    } else if (groups > 1 && kept > groups) {
      report.error("groups_per_token",
                   fmt::format("`groups_per_token` is {}, but there are {} groups", kept, groups),
                   fmt::format("at most {}", groups));
    } else if (options.experts_per_token <= experts && experts / groups * kept < options.experts_per_token) {
      report.error("groups_per_token",
                   fmt::format("{} of {} groups of {} experts do not have {} experts", kept, groups,
                               experts / groups, options.experts_per_token),
                   "more groups");
    }
    if (groups > 1 && options.group_score == GroupScore::kSum2 && experts / groups < 2)
      report.error("group_score", "groups of one expert have no two best ones", "`max`");
  }
  if (options.dispatch == DispatchForm::kDropless &&
      (options.gating == Gating::kSwitchMax || options.gating == Gating::kNtlb ||
       options.gating == Gating::kExpertSelection))
    report.error("dispatch", "this gating chooses by capacity",
                 "write `capacity`, or gating `switch`, `top_n` or `top_k`");
  if (options.dropout_rate >= 1)
    report.error("dropout_rate", "a dropout rate of 1 leaves nothing", "a rate below 1");
  if (options.switch_dropout >= 1)
    report.error("switch_dropout", "a dropout rate of 1 leaves nothing", "a rate below 1");
}

}  // namespace

void describe(config::Visitor& visit, MoeOptions& options) {
  visit("num_experts", options.num_experts, "size of `experts`", config::positive);
  visit("hidden_size", options.hidden_size, "size of `expert_hidden`", config::positive);
  describe_activations(
      visit, options.activation,
      "a function, or several whose results are multiplied: [gelu, linear] is GEGLU, [swish, linear] SwiGLU");
  visit("dropout_rate", options.dropout_rate, "rate for the hidden layer", config::probability,
        config::reported_on_resume);
  visit("gating", options.gating, "how experts are chosen");
  describe_places(visit, options);
  describe_original(visit, options);
  describe_top_k(visit, options);
  visit.check([&options](const config::Report& report) { check(options, report); });
}

}  // namespace mtf
