#include "layers/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/ops/cast.h"

namespace mtf {
namespace {

bool denotes(const std::string& name, const AppliedLayer& layer) {
  if (name.find('/') != std::string::npos) return std::regex_search(layer.path, std::regex(name));
  return std::ranges::find(layer.names, name) != layer.names.end();
}

}  // namespace

Context::Context(Applied, const Context& trained)
    : graph_(trained.graph_),
      mode_(Mode::kEvaluate),
      precision_(trained.precision_),
      batch_(trained.batch_),
      is_applied_(true),
      vocabularies_(trained.vocabularies_),
      single_texts_(trained.single_texts_),
      expert_parts_(trained.expert_parts_) {}

const Variable& Context::declare(const std::string& name, const Shape& shape, DType dtype,
                                 Variable::Kind kind, const Initializer& initializer, double step_scale) {
  const std::string full = graph_.scoped(name);
  check_elements(full, shape);
  if (is_applied_) return graph_.variable(full, shape, dtype, initializer, Variable::Kind::kConstant);
  if (averaged_ && kind == Variable::Kind::kWeight) {
    if (const std::string mean = averaged_(full); !mean.empty())
      return graph_.variable(mean, shape, DType::kFloat32, Initializer::zeros(), Variable::Kind::kSlot);
  }
  return graph_.variable(full, shape, dtype, initializer, kind, step_scale);
}

Tensor Context::variable(const std::string& name, const Shape& shape, const Initializer& initializer,
                         double step_scale, std::optional<DType> dtype) {
  // What is only read needs no wider type than the one that it is read in.
  const DType read = dtype.value_or(precision_.activation);
  const Variable& variable = declare(name, shape, is_applied_ ? read : precision_.slice,
                                     Variable::Kind::kWeight, initializer, step_scale);
  const Tensor value = graph_.read(variable);
  // The cast belongs to the variable at rest: what is gathered is the narrower type.
  const auto domain = graph_.domain(Domain::kParameter);
  return cast(value, read);
}

Tensor Context::statistic(const std::string& name, const Shape& shape, const Initializer& initializer) {
  return graph_.read(declare(name, shape, DType::kFloat32, Variable::Kind::kStatistic, initializer));
}

bool Context::moves(const std::string& name) const {
  return training() && (!moved_ || moved_(graph_.scoped(name)));
}

void Context::update_statistic(const std::string& name, const Tensor& value,
                               std::function<Tensor(const Tensor&, const Tensor&)> updated) {
  if (!moves(name)) return;
  const std::string full = graph_.scoped(name);
  const Variable* variable = graph_.find_variable(full);
  MTF_CHECK(variable != nullptr && variable->kind == Variable::Kind::kStatistic, "{} is no statistic", full);
  terms_.push_back({LayerTerm::Kind::kStatistic, full, value, variable, std::move(updated)});
}

void Context::use_batch_statistics() {
  const std::string& layer = graph_.provenance().path();
  if (!training() || std::ranges::find(batch_statistics_, layer) != batch_statistics_.end()) return;
  batch_statistics_.push_back(layer);
}

void Context::add_loss(const std::string& name, const Tensor& loss) {
  MTF_CHECK(loss.shape().rank() == 0, "the loss {} has the shape {}", name, loss.shape().to_string());
  if (training()) terms_.push_back({LayerTerm::Kind::kLoss, name, cast(loss, DType::kFloat32)});
}

void Context::report(const std::string& name, const Tensor& value) {
  MTF_CHECK(value.shape().rank() == 0, "the report {} has the shape {}", name, value.shape().to_string());
  if (training()) terms_.push_back({LayerTerm::Kind::kReport, name, cast(value, DType::kFloat32)});
}

void Context::report(const Tensor& value,
                     std::function<std::map<std::string, Tensor>(const Tensor&)> numbers) {
  if (!training()) return;
  terms_.push_back({.kind = LayerTerm::Kind::kReport,
                    .name = graph_.scoped("reports"),
                    .value = cast(value, DType::kFloat32),
                    .numbers = std::move(numbers)});
}

void Context::set_recompute(std::vector<RecomputedLayers> layers) {
  recompute_ = std::move(layers);
  found_.assign(recompute_.size(), 0);
}

bool Context::note_applied(AppliedLayer layer) {
  bool chosen = false;
  for (size_t i = 0; i < recompute_.size(); ++i) {
    if (!denotes(recompute_[i].layers, layer)) continue;
    chosen |= found_[i] < recompute_[i].first.value_or(found_[i] + 1);
    ++found_[i];
  }
  applied_.push_back(std::move(layer));
  return chosen;
}

Sequence& Context::sequence(std::string_view layer) const {
  if (sequence_ != nullptr) return *sequence_;
  throw Error(ErrorKind::kConfig, fmt::format("{} works on rows of tokens only", layer),
              "it belongs into the `block` of the layer `transformer`, or of a model of type lm, "
              "delimited_lm, aligned or bitransformer");
}

LayerTensor Context::saved(const config::Name& name) const {
  const auto found = saved_.find(name.text);
  if (found != saved_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [saved, tensor] : saved_) names.push_back(saved);
  throw Error(ErrorKind::kConfig, name.mark, fmt::format("no layer before this one saves `{}`", name.text),
              names.empty() ? "put `save: " + name.text + "` behind the layer that is meant"
                            : did_you_mean(name.text, names));
}

Dimension Context::batch_of(const Tensor& x) const {
  const auto renamed =
      std::ranges::find_if(batch_names_, [&](const std::string& name) { return x.shape().contains(name); });
  return renamed == batch_names_.end() || x.shape().contains(batch_.name) ? batch_
                                                                          : x.shape().dimension(*renamed);
}

void Context::note_rename(const std::string& from, const std::string& to) {
  if (from == to || (from != batch_.name && !batch_names_.contains(from))) return;
  if (to != batch_.name) batch_names_.insert(to);
  graph_.add_microbatch_name(to);
}

Shape Context::made(const LayerTensor& x) const {
  if (x.made()) return *x.made();
  std::vector<Dimension> dimensions;
  for (const Dimension& d : x.shape()) {
    if (d != batch_of(x)) dimensions.push_back(d);
  }
  return Shape(std::move(dimensions));
}

const Dimension& find_dimension(const Tensor& x, const config::Name& name) {
  if (x.shape().contains(name.text)) return x.shape().dimension(name.text);
  throw Error(ErrorKind::kConfig, name.mark,
              fmt::format("there is no dimension `{}` in {}", name.text, x.shape().to_string()),
              did_you_mean(name.text, x.shape().names()));
}

Shape find_dimensions(const Tensor& x, const std::vector<config::Name>& names) {
  std::vector<Dimension> dimensions;
  for (const config::Name& name : names) dimensions.push_back(find_dimension(x, name));
  return Shape(std::move(dimensions));
}

bool can_be_joined(const Tensor& x, const Tensor& y, const std::string& along) {
  if (!x.shape().contains(along) || !y.shape().contains(along)) return false;
  return same_dimensions(x.shape().resized(along, 1), y.shape().resized(along, 1));
}

void check_elements(const std::string& name, const Shape& shape) {
  constexpr int64_t kMostElements = int64_t{1} << 48;
  int64_t elements = 1;
  for (const Dimension& d : shape) {
    if (__builtin_mul_overflow(elements, d.size, &elements) || elements > kMostElements) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} {} has more than 2^48 elements", name, shape.to_string()),
                  "sizes that a memory can hold");
    }
  }
}

}  // namespace mtf
