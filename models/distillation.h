// Distillation: a student is trained to predict what a trained model, its teacher, predicts, besides the hard targets of
// the data. Hinton, Vinyals, Dean, Distilling the knowledge in a neural network, 2015.
//
//   loss = (1 - w) * hard + T^2 * w * soft,   w = weight after step start_step, before it 0
//   soft = like hard, with the targets softmax(teacher's logits / T), of softmax(logits / T)
// "hard" is the student's own loss. Where models predict numbers, soft is the mean of (prediction - teacher's
// prediction)^2, and T is 1. What layers add to the loss (Context::add_loss) is no part of the mean. The teacher is part
// of the training step alone: it runs as in evaluation, on the same batch, and its weights are constants below teacher/.
//
//   const Distillation model(std::move(student), std::move(teacher), options, mark);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/schema.h"
#include "engine/core/layout.h"
#include "models/model.h"

namespace mtf {

/// Section `distill`.
struct DistillOptions {
  config::Path checkpoint = {};  ///< weights of the teacher
  config::Path config = {};      ///< configuration of the teacher; empty: the checkpoint tells it
  double weight = 0.5;
  double temperature = 1;
  int64_t start_step = 0;
  std::optional<LayoutRules> layout = {};  ///< of the teacher; nothing: that of the run
  LayoutRules parameter_layout = {};
};
void describe(config::Visitor& visit, DistillOptions& options);

/// The scope of the teacher's variables.
inline constexpr std::string_view kTeacher = "teacher";

class Distillation final : public Model {
 public:
  /// `mark`: the place of section `distill`, for messages.
  Distillation(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher, const DistillOptions& options,
               Mark mark);

  std::vector<std::string> features() const override { return student_->features(); }
  std::vector<std::string> optional_features() const override;
  std::optional<int64_t> positions(int64_t length) const override;
  std::string_view one_embedding() const override { return student_->one_embedding(); }
  std::string_view inputs_part_setting() const override { return student_->inputs_part_setting(); }
  std::string_view labels_feature() const override { return student_->labels_feature(); }
  bool labels_may_lack() const override { return student_->labels_may_lack(); }
  bool is_aligned() const override { return student_->is_aligned() || teacher_->is_aligned(); }
  std::vector<std::string> metrics() const override { return student_->metrics(); }
  std::vector<std::string> outputs() const override { return student_->outputs(); }
  std::vector<StepScalar> scalars() const override;
  const TextDecoder* decoder() const override { return student_->decoder(); }
  /// Throws Error (kConfig) when the data lack a feature of the teacher, and when the models do not predict the same
  /// classes, tokens or numbers.
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  /// What the teacher predicts for the same batch.
  ModelOutput applied_teacher(const Context& context, const Features& features) const;
  Tensor soft_loss(const Context& context, const ModelOutput& student, const ModelOutput& teacher) const;
  /// The part of the soft loss that belongs to these logits of both.
  Tensor class_loss(const Context& context, const ClassLoss& student, const ClassLoss& teacher) const;
  /// float32 probabilities, in the shape of the student's logits; 0 for padding.
  Tensor soft_targets(const ClassLoss& student, const ClassLoss& teacher) const;
  Tensor number_loss(const ModelOutput& student, const ModelOutput& teacher) const;

  std::unique_ptr<Model> student_, teacher_;
  DistillOptions options_;
  Mark mark_;
};

}  // namespace mtf
