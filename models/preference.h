// Direct preference optimisation: of two answers to a prompt, a policy learns to prefer the chosen one to the rejected one,
// compared with a frozen reference model, from which it starts. Rafailov et al., Direct Preference Optimization, 2023.
//
//   margin = (log p(chosen) - log p_ref(chosen)) - (log p(rejected) - log p_ref(rejected))
//   sigmoid  -(1 - s) log sigmoid(beta * margin) - s log sigmoid(-beta * margin),   s = label_smoothing
//   hinge    max(0, 1 - beta * margin)
//   ipo      (margin - 1 / (2 beta))^2, where log p is the mean over the tokens of an answer
// and the loss is the mean over the pairs. log p is the sum over the tokens of the answer. A row holds one pair: segment 1 is
// the prompt and the chosen answer, segment 2 the prompt and the rejected one, and tokens of prompts are negative. The
// names of the metrics are those of TRL's DPOTrainer.
//
//   const Preference model(std::move(policy), std::move(reference), options, mark);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/teacher.h"

namespace mtf {

enum class PreferenceLoss { kSigmoid, kHinge, kIpo };
inline config::EnumNames enum_names(PreferenceLoss) {
  return {{"sigmoid", PreferenceLoss::kSigmoid},
          {"hinge", PreferenceLoss::kHinge},
          {"ipo", PreferenceLoss::kIpo}};
}

/// Section `preference`.
struct PreferenceOptions {
  TeacherOptions teacher = {};  ///< the reference model; an empty `checkpoint` is checkpoint.init
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
};
void describe(config::Visitor& visit, PreferenceOptions& options);

class Preference final : public TaughtModel {
 public:
  /// `mark`: the place of section `preference`, for messages.
  Preference(std::unique_ptr<Model> policy, std::unique_ptr<Model> reference,
             const PreferenceOptions& options, Mark mark);

  std::vector<std::string> features() const override;
  std::vector<std::string> metrics() const override;
  /// Throws Error (kConfig) when the data lack a feature, and unless both models predict the tokens of `targets` from the
  /// same vocabulary.
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  void check(const ModelOutput& policy, const ModelOutput& reference, const Tensor& targets) const;
  /// float32 [batch]: log p of both answers of each row, or for the ipo loss the means over their tokens.
  struct Scores {
    Tensor chosen, rejected;
  };
  Scores scores(const Context& context, const ModelOutput& output, const Features& features) const;
  /// float32 [batch]
  Tensor pair_losses(const Tensor& margin) const;

  PreferenceOptions options_;
};

}  // namespace mtf
