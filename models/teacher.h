// A model that is trained beside a trained one, its teacher. The teacher is part of the same program: it reads the same
// batch as in evaluation, and its weights are constants below teacher/. What is made of the predictions of both is the
// subclass's: distillation.h, preference.h.
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

/// The keys of a section that names a teacher.
struct TeacherOptions {
  config::Path checkpoint = {};            ///< weights of the teacher
  config::Path config = {};                ///< configuration of the teacher; empty: the checkpoint tells it
  std::optional<LayoutRules> layout = {};  ///< the teacher's rules; nothing: those of the run
  LayoutRules parameter_layout = {};
};
/// The keys `config`, `layout` and `parameter_layout`. `name` is what the section calls the teacher.
void describe_teacher(config::Visitor& visit, TeacherOptions& options, std::string_view name);

/// The scope of the teacher's variables.
inline constexpr std::string_view kTeacher = "teacher";

class TaughtModel : public Model {
 public:
  std::vector<std::string> features() const override { return student_->features(); }
  std::vector<std::string> optional_features() const override;
  std::optional<int64_t> positions(int64_t length) const override;
  std::string_view one_embedding() const override { return student_->one_embedding(); }
  std::string_view inputs_part_setting() const override { return student_->inputs_part_setting(); }
  std::string_view labels_feature() const override { return student_->labels_feature(); }
  bool labels_may_lack() const override { return student_->labels_may_lack(); }
  bool labels_have_weights() const override { return student_->labels_have_weights(); }
  Tensor label_weights(const Tensor& labels) const override { return student_->label_weights(labels); }
  std::optional<int64_t> missing_label() const override { return student_->missing_label(); }
  bool is_aligned() const override { return student_->is_aligned() || teacher_->is_aligned(); }
  std::vector<std::string> metrics() const override { return student_->metrics(); }
  std::vector<std::string> outputs() const override { return student_->outputs(); }
  const TextDecoder* decoder() const override { return student_->decoder(); }

 protected:
  /// `mark`: the place of the section, for messages; `name`: what they call the teacher.
  TaughtModel(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher, Mark mark,
              std::string_view name);

  const Model& student() const { return *student_; }
  /// The student with all its logits. Throws Error (kConfig) where Context::loss_chunks() leaves them in parts.
  ModelOutput built_student(Context& context, const Features& features) const;
  const Mark& mark() const { return mark_; }
  /// What the teacher predicts for the same batch. Throws Error (kConfig) when the data lack a feature of the teacher.
  ModelOutput applied_teacher(const Context& context, const Features& features) const;

 private:
  std::unique_ptr<Model> student_, teacher_;
  Mark mark_;
  std::string name_;
};

/// So many entries of the dimension of classes are classes, and no padding.
int64_t known_classes(const ClassLoss& loss);
/// True if both predict the same numbers, or the same classes or tokens for the same places.
bool predict_the_same(const ModelOutput& a, const ModelOutput& b);
/// What a model predicts, for messages.
std::string predicted(const ModelOutput& output);

}  // namespace mtf
