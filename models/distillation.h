// Distillation: a student is trained to predict what a trained model, its teacher, predicts, besides the hard targets of
// the data. Hinton, Vinyals, Dean, Distilling the knowledge in a neural network, 2015.
//
//   loss = (1 - w) * hard + T^2 * w * soft,   w = weight after step start_step, before it 0
//   soft = like hard, with the targets softmax(teacher's logits / T), of softmax(logits / T)
// "hard" is the student's own loss. Where models predict numbers, soft is the mean of (prediction - teacher's
// prediction)^2, and T is 1. What layers add to the loss (Context::add_loss) is no part of the mean. The teacher is part
// of the training step alone.
//
//   const Distillation model(std::move(student), std::move(teacher), options, mark);
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/teacher.h"

namespace mtf {

/// Section `distill`.
struct DistillOptions {
  TeacherOptions teacher = {};
  double weight = 0.5;
  double temperature = 1;
  int64_t start_step = 0;
};
void describe(config::Visitor& visit, DistillOptions& options);

class Distillation final : public TaughtModel {
 public:
  /// `mark`: the place of section `distill`, for messages.
  Distillation(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher, const DistillOptions& options,
               Mark mark);

  std::vector<StepScalar> scalars() const override;
  /// Throws Error (kConfig) when the data lack a feature of the teacher, and when the models do not predict the same
  /// classes, tokens or numbers.
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  Tensor soft_loss(const Context& context, const ModelOutput& student, const ModelOutput& teacher) const;
  /// The part of the soft loss that belongs to these logits of both.
  Tensor class_loss(const Context& context, const ClassLoss& student, const ClassLoss& teacher) const;
  /// float32 probabilities, in the shape of the student's logits; 0 for padding.
  Tensor soft_targets(const ClassLoss& student, const ClassLoss& teacher) const;
  Tensor number_loss(const ModelOutput& student, const ModelOutput& teacher) const;

  DistillOptions options_;
};

}  // namespace mtf
