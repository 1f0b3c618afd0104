#include "models/distillation.h"

#include <fmt/format.h>

#include <limits>
#include <string>
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

const Dimension& classes_of(const ClassLoss& loss) { return loss.logits.shape().dimension(loss.classes); }

}  // namespace

void describe(config::Visitor& visit, DistillOptions& options) {
  visit("checkpoint", options.teacher.checkpoint,
        "weights of the teacher: a run's directory (its newest checkpoint), a checkpoint or a .safetensors "
        "file",
        config::required);
  visit("weight", options.weight,
        "share of the soft loss, against the loss of the data's targets; 0: no teacher", config::probability);
  visit(
      "temperature", options.temperature,
      "what the logits of both are divided by, so that the teacher's less likely answers count more; 1 where "
      "models predict numbers",
      config::positive);
  visit("start_step", options.start_step, "the teacher counts from the step behind this one on",
        config::non_negative);
  describe_teacher(visit, options.teacher, "teacher");
}

Distillation::Distillation(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher,
                           const DistillOptions& options, Mark mark)
    : TaughtModel(std::move(student), std::move(teacher), std::move(mark), "teacher"), options_(options) {}

std::vector<StepScalar> Distillation::scalars() const {
  // Steps count from 1 in the configuration and in reports.
  return {{kWeightInput, [weight = options_.weight, start = options_.start_step](int64_t step) {
             return step + 1 > start ? weight : 0.0;
           }}};
}

ModelOutput Distillation::build(Context& context, const Features& features) const {
  if (!context.training()) return student().build(context, features);
  ModelOutput output = built_student(context, features);
  const ModelOutput teacher = applied_teacher(context, features);
  const auto scope = context.graph().scope("distill", mark());
  const Tensor hard = output.loss, soft = soft_loss(context, output, teacher);
  context.report("hard_loss", hard);
  context.report("soft_loss", soft);
  const Tensor weight = context.scalar(kWeightInput);
  const double gradients_scale = options_.temperature * options_.temperature;
  output.loss = add(multiply(hard, scalar_add(negative(weight), 1)),
                    multiply(soft, scalar_multiply(weight, gradients_scale)));
  return output;
}

Tensor Distillation::soft_loss(const Context& context, const ModelOutput& student,
                               const ModelOutput& teacher) const {
  for (const auto& [who, output] : {std::pair("teacher", &teacher), std::pair("student", &student)}) {
    if (!output->class_losses.empty() || output->numbers) continue;
    throw Error(ErrorKind::kConfig, mark(),
                fmt::format("the {} predicts neither classes, tokens nor numbers", who),
                "a model of another type");
  }
  if (!predict_the_same(student, teacher)) {
    throw Error(
        ErrorKind::kConfig, mark(),
        fmt::format("the teacher predicts {} and the student {}", predicted(teacher), predicted(student)),
        "models of the same classes, tokens or numbers, for the same places");
  }
  if (student.numbers) return number_loss(student, teacher);
  Tensor sum;
  for (size_t i = 0; i < student.class_losses.size(); ++i) {
    const Tensor part = class_loss(context, student.class_losses[i], teacher.class_losses[i]);
    sum = sum ? add(sum, part) : part;
  }
  return sum;
}

Tensor Distillation::class_loss(const Context& context, const ClassLoss& student,
                                const ClassLoss& teacher) const {
  const Tensor targets = soft_targets(student, teacher);
  const Tensor logits = scalar_multiply(cast(student.logits, DType::kFloat32), 1 / options_.temperature);
  const Tensor losses =
      softmax_cross_entropy(logits, targets, student.classes, {.z_loss = student.z_loss}).loss;
  const Tensor sums =
      reduce_sum(student.weights ? multiply(losses, student.weights) : losses, Shape{context.batch()});
  return scalar_multiply(reduce_mean(sums, Shape{}), student.scale);
}

Tensor Distillation::soft_targets(const ClassLoss& student, const ClassLoss& teacher) const {
  const Dimension &classes = classes_of(student), &taught = classes_of(teacher);
  const Tensor logits = without_padding(teacher.logits, taught, known_classes(teacher));
  const Tensor soft = softmax(scalar_multiply(logits, 1 / options_.temperature), taught.name);
  return stop_gradient(
      resized(taught.name == classes.name ? soft : rename(soft, taught.name, classes.name), classes));
}

Tensor Distillation::number_loss(const ModelOutput& student, const ModelOutput& teacher) const {
  if (options_.temperature != 1) {
    throw Error(
        ErrorKind::kConfig, mark(),
        fmt::format("the models predict numbers, which have no temperature ({})", options_.temperature),
        "`temperature: 1`");
  }
  const Tensor difference =
      subtract(student.numbers, stop_gradient(teacher.numbers), student.numbers.shape());
  return reduce_mean(square(difference), Shape{});
}

}  // namespace mtf
