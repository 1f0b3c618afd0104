#include "models/distillation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "models/resized.h"

namespace mtf {
namespace {

/// The input with the share of the soft loss at this step.
constexpr const char* kWeightInput = "distill/weight";

/// The logits in float32, with -infinity for entries of `dimension` from `known` on.
Tensor without_padding(const Tensor& logits, const Dimension& dimension, int64_t known) {
  const Tensor wide = cast(logits, DType::kFloat32);
  if (known == dimension.size) return wide;
  Graph& graph = logits.graph();
  const Tensor is_known =
      less(range(graph, dimension), graph.constant(static_cast<double>(known), DType::kInt32));
  return where(is_known, wide, graph.constant(-std::numeric_limits<double>::infinity()), wide.shape());
}

}  // namespace

void describe(config::Visitor& visit, DistillOptions& options) {
  visit("checkpoint", options.checkpoint,
        "weights of the teacher: a run's directory (its newest checkpoint), a checkpoint or a .safetensors "
        "file",
        config::required);
  visit("config", options.config,
        "configuration whose section `model` is the teacher's; by default the one that the checkpoint was "
        "trained "
        "with");
  visit("weight", options.weight,
        "share of the soft loss, against the loss of the data's targets; 0: no teacher", config::probability);
  visit("temperature", options.temperature,
        "what the logits of both are divided by, so that the teacher's less likely answers count more",
        config::positive);
  visit("start_step", options.start_step, "the teacher counts from the step behind this one on",
        config::non_negative);
  visit(
      "layout", options.layout,
      "tensor dimension: mesh dimension that splits it in the teacher, in place of `layout`; by default that "
      "is the teacher's, too",
      config::free_on_resume);
  visit("parameter_layout", options.parameter_layout,
        "the teacher's weights at rest: its layout plus these rules (FSDP)", config::free_on_resume);
}

Distillation::Distillation(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher,
                           const DistillOptions& options, Mark mark)
    : student_(std::move(student)), teacher_(std::move(teacher)), options_(options), mark_(std::move(mark)) {}

std::vector<std::string> Distillation::optional_features() const {
  std::vector<std::string> names = student_->optional_features();
  for (const auto& more : {teacher_->features(), teacher_->optional_features()})
    names.insert(names.end(), more.begin(), more.end());
  return names;
}

std::optional<int64_t> Distillation::positions(int64_t length) const {
  const std::optional<int64_t> of_student = student_->positions(length),
                               of_teacher = teacher_->positions(length);
  if (!of_student || !of_teacher) return of_student ? of_student : of_teacher;
  return std::min(*of_student, *of_teacher);
}

std::vector<StepScalar> Distillation::scalars() const {
  // Steps count from 1 in the configuration and in reports.
  return {{kWeightInput, [weight = options_.weight, start = options_.start_step](int64_t step) {
             return step + 1 > start ? weight : 0.0;
           }}};
}

ModelOutput Distillation::build(Context& context, const Features& features) const {
  ModelOutput output = student_->build(context, features);
  if (!context.training()) return output;
  const ModelOutput teacher = applied_teacher(context, features);
  const auto scope = context.graph().scope("distill", mark_);
  const Tensor hard = output.loss, soft = soft_loss(context, output, soft_targets(output, teacher));
  context.report("hard_loss", hard);
  context.report("soft_loss", soft);
  const Tensor weight = context.scalar(kWeightInput);
  const double gradients_scale = options_.temperature * options_.temperature;
  output.loss = add(multiply(hard, scalar_add(negative(weight), 1)),
                    multiply(soft, scalar_multiply(weight, gradients_scale)));
  return output;
}

ModelOutput Distillation::applied_teacher(const Context& context, const Features& features) const {
  for (const std::string& name : teacher_->features()) {
    if (features.contains(name)) continue;
    throw Error(ErrorKind::kConfig, mark_,
                fmt::format("the teacher reads feature `{}`, which the data do not have", name),
                "a teacher that reads what the student reads");
  }
  Context applied = Context::applied(context);
  const auto scope = applied.graph().scope(std::string(kTeacher), mark_);
  return teacher_->build(applied, features);
}

Tensor Distillation::soft_targets(const ModelOutput& student, const ModelOutput& teacher) const {
  if (!student.class_loss || !teacher.class_loss) {
    throw Error(
        ErrorKind::kConfig, mark_,
        fmt::format("the {} predicts neither classes nor tokens", student.class_loss ? "teacher" : "student"),
        "distillation is for language models, translation and classifiers");
  }
  const ClassLoss &own = *student.class_loss, &other = *teacher.class_loss;
  const Dimension &classes = student.logits.shape().dimension(own.classes),
                  &taught = teacher.logits.shape().dimension(other.classes);
  const auto known = [](const ClassLoss& loss, const Dimension& all) {
    return loss.known > 0 ? loss.known : all.size;
  };
  const Shape rows = student.logits.shape() - classes;
  if (known(own, classes) != known(other, taught) ||
      !same_dimensions(rows, teacher.logits.shape() - taught)) {
    throw Error(ErrorKind::kConfig, mark_,
                fmt::format("the teacher predicts {} and the student {}", teacher.logits.shape().to_string(),
                            student.logits.shape().to_string()),
                "models of the same classes or tokens, for the same places");
  }
  const Tensor logits = without_padding(teacher.logits, taught, known(other, taught));
  const Tensor soft = softmax(scalar_multiply(logits, 1 / options_.temperature), taught.name);
  return stop_gradient(
      resized(taught.name == classes.name ? soft : rename(soft, taught.name, classes.name), classes));
}

Tensor Distillation::soft_loss(const Context& context, const ModelOutput& student,
                               const Tensor& targets) const {
  const ClassLoss& loss = *student.class_loss;
  const Tensor logits = scalar_multiply(cast(student.logits, DType::kFloat32), 1 / options_.temperature);
  const Tensor losses = softmax_cross_entropy(logits, targets, loss.classes, {.z_loss = loss.z_loss}).loss;
  const Tensor sums =
      reduce_sum(loss.weights ? multiply(losses, loss.weights) : losses, Shape{context.batch()});
  return scalar_multiply(reduce_mean(sums, Shape{}), loss.scale);
}

}  // namespace mtf
