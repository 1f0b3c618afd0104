#include "models/teacher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "models/bitransformer.h"

namespace mtf {
namespace {

bool predict_the_same_classes(const ClassLoss& a, const ClassLoss& b) {
  const Shape &of_a = a.logits.shape(), &of_b = b.logits.shape();
  return known_classes(a) == known_classes(b) &&
         same_dimensions(of_a - of_a.dimension(a.classes), of_b - of_b.dimension(b.classes));
}

}  // namespace

int64_t known_classes(const ClassLoss& loss) {
  return loss.known > 0 ? loss.known : loss.logits.shape().dimension(loss.classes).size;
}

bool predict_the_same(const ModelOutput& a, const ModelOutput& b) {
  if (a.numbers && b.numbers) return same_dimensions(a.numbers.shape(), b.numbers.shape());
  return !a.numbers && !b.numbers &&
         std::ranges::equal(a.class_losses, b.class_losses, predict_the_same_classes);
}

std::string predicted(const ModelOutput& output) {
  if (output.numbers) return "numbers " + output.numbers.shape().to_string();
  std::vector<std::string> shapes;
  for (const ClassLoss& loss : output.class_losses) shapes.push_back(loss.logits.shape().to_string());
  return fmt::format("{}", fmt::join(shapes, ", "));
}

void describe_teacher(config::Visitor& visit, TeacherOptions& options, std::string_view name) {
  visit("config", options.config,
        fmt::format("configuration whose section `model` is that of the {}; by default the one that the "
                    "checkpoint was trained with",
                    name));
  visit("layout", options.layout,
        fmt::format("tensor dimension: mesh dimension that splits it in the {}, in place of `layout`; by "
                    "default that is used there, too",
                    name),
        config::free_on_resume);
  visit("parameter_layout", options.parameter_layout,
        fmt::format("weights of the {} at rest: its layout plus these rules (FSDP)", name),
        config::free_on_resume);
}

TaughtModel::TaughtModel(std::unique_ptr<Model> student, std::unique_ptr<Model> teacher, Mark mark,
                         std::string_view name)
    : student_(std::move(student)), teacher_(std::move(teacher)), mark_(std::move(mark)), name_(name) {}

std::vector<std::string> TaughtModel::optional_features() const {
  std::vector<std::string> names = student_->optional_features();
  for (const auto& more : {teacher_->features(), teacher_->optional_features()})
    std::ranges::copy_if(more, std::back_inserter(names), [](const std::string& name) {
      return name != kGuideFeature;
    });  // a teacher is taught nothing
  return names;
}

std::optional<int64_t> TaughtModel::positions(int64_t length) const {
  const std::optional<int64_t> of_student = student_->positions(length),
                               of_teacher = teacher_->positions(length);
  if (!of_student || !of_teacher) return of_student ? of_student : of_teacher;
  return std::min(*of_student, *of_teacher);
}

ModelOutput TaughtModel::built_student(Context& context, const Features& features) const {
  ModelOutput output = student_->build(context, features);
  if (output.logits) return output;
  throw Error(
      ErrorKind::kConfig, mark_,
      fmt::format("a {} is compared with all logits at once, and `train.loss_chunks` computes parts of them",
                  name_),
      "`train.loss_chunks: 1`");
}

ModelOutput TaughtModel::applied_teacher(const Context& context, const Features& features) const {
  const std::string hint = fmt::format("a {} that reads what the trained model reads", name_);
  for (const std::string& feature : teacher_->features()) {
    if (features.contains(feature)) continue;
    throw Error(ErrorKind::kConfig, mark_,
                fmt::format("the {} reads feature `{}`, which the data do not have", name_, feature), hint);
  }
  Context applied = Context::applied(context);
  const auto scope = applied.graph().scope(std::string(kTeacher), mark_);
  try {
    return teacher_->build(applied, features);
  } catch (const Error& error) {
    const Problem& problem = error.problems().front();
    if (problem.mark.known()) throw;  // in the teacher's configuration
    throw Error(ErrorKind::kConfig, mark_,
                fmt::format("the {} does not read these data: {}", name_, problem.message), hint);
  }
}

}  // namespace mtf
