#include "engine/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/check.h"
#include "engine/core/layout.h"
#include "engine/graph/structural.h"

namespace mtf {
namespace {

/// Files of tensors list names with commas between them, and layouts take names with kApart apart.
void check_names(const std::string& tensor, const Shape& shape) {
  for (const Dimension& d : shape) {
    if (d.name.empty())
      throw Error(ErrorKind::kConfig, fmt::format("a dimension of `{}` has no name", tensor), "a word");
    if (d.name.find_first_of(std::string{',', kApart}) != std::string::npos)
      throw Error(ErrorKind::kConfig, fmt::format("a dimension of `{}` is called `{}`", tensor, d.name),
                  fmt::format("a name without `,` and `{}`", kApart));
  }
}

}  // namespace

void Graph::append(std::shared_ptr<Operation> operation) {
  for (const Tensor& input : operation->inputs()) {
    MTF_CHECK(input && &input.graph() == this, "{} gets a tensor of another graph", operation->name());
  }
  operation->graph_ = this;
  operation->scope_ = scope_;
  current_block().push_back(std::move(operation));
}

Operation& Graph::add_clone(const Operation& operation, Tensors inputs) {
  std::shared_ptr<Operation> copy = operation.clone();
  copy->inputs_ = std::move(inputs);
  Operation& result = *copy;
  append(std::move(copy));
  return result;
}

Tensor Graph::input(const std::string& name, const Shape& shape, DType dtype) {
  check_names(name, shape);
  return add<Input>(name, shape, dtype).output();
}

Tensor Graph::constant(double value, DType dtype, const Shape& shape) {
  return add<Constant>(value, dtype, shape).output();
}

const Variable& Graph::variable(const std::string& name, const Shape& shape, DType dtype,
                                const Initializer& initializer, Variable::Kind kind, double step_scale) {
  if (const Variable* existing = find_variable(name)) {
    if (existing->shape != shape || existing->dtype != dtype) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("variable `{}` exists as {} {} and is asked for as {} {}", name,
                              name_of(existing->dtype), existing->shape.to_string(), name_of(dtype),
                              shape.to_string()),
                  "layers that share a name share weights: give one of them another `name`");
    }
    return *existing;
  }
  check_names(name, shape);
  variables_.push_back(std::make_unique<Variable>(Variable{name, shape, dtype, initializer, kind, step_scale,
                                                           static_cast<int>(variables_.size()), false}));
  variable_by_name_[name] = variables_.back().get();
  return *variables_.back();
}

void Graph::place_on_host(const Variable& variable) { variables_[variable.index]->on_host = true; }

const Variable* Graph::find_variable(const std::string& name) const {
  const auto found = variable_by_name_.find(name);
  return found == variable_by_name_.end() ? nullptr : found->second;
}

Tensor Graph::read(const Variable& variable) {
  Tensor& tensor = reads_[{&variable, &current_block()}];
  if (!tensor) {
    const Scope scope = domain(domain_of(variable));
    tensor = add<ReadVariable>(variable).output();
  }
  return tensor;
}

void Graph::assign(const Variable& variable, const Tensor& value, const Tensor& guard) {
  const Scope scope = domain(domain_of(variable));
  add<Assign>(variable, value, guard);
}

void Graph::set_output(const std::string& name, const Tensor& tensor) { outputs_.emplace_back(name, tensor); }

std::string Graph::scoped(const std::string& name) const {
  const std::string& path = scope_.provenance.path();
  if (name.empty()) return path;
  return path.empty() ? name : path + "/" + name;
}

std::string Graph::unique_name(const std::string& name) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  const std::string base = scoped(name);
  std::string candidate = base;
  for (int i = 1; !names_.insert(lower(candidate)).second; ++i) candidate = fmt::format("{}_{}", base, i);
  return candidate;
}

Graph::Scope Graph::scope(const std::string& name, const Mark& mark) {
  OperationScope inner = scope_;
  NamedScope& outer = inner.provenance.scope;
  outer = NamedScope(scoped(name), mark.known() ? mark : outer.mark());
  return with(inner);
}

Graph::Scope Graph::domain(Domain domain) {
  OperationScope inner = scope_;
  inner.hints.domain = domain;
  return with(inner);
}

Graph::Scope Graph::phase(Phase phase) {
  OperationScope inner = scope_;
  inner.provenance.phase = phase;
  return with(inner);
}

Graph::Scope Graph::layer() {
  OperationScope inner = scope_;
  if (inner.hints.layer < 0) inner.hints.layer = layers_++;
  return with(inner);
}

Graph::Scope Graph::unit(const std::string& name, bool is_block) {
  OperationScope inner = scope_;
  if (inner.hints.unit < 0) {
    std::string unique = scoped(name);
    for (int i = 1; std::ranges::find(units_, unique, &Unit::name) != units_.end(); ++i)
      unique = fmt::format("{}_{}", scoped(name), i);
    inner.hints.unit = static_cast<int>(units_.size());
    units_.push_back({std::move(unique), is_block});
  }
  return with(inner);
}

Graph::Scope Graph::with(const OperationScope& scope) { return Scope(*this, scope); }

Microbatching Graph::microbatching_of(const Shape& shape) const {
  if (shape.contains(microbatching_.dimension)) return microbatching_;
  const auto renamed =
      std::ranges::find_if(microbatch_names_, [&](const std::string& name) { return shape.contains(name); });
  return renamed == microbatch_names_.end() ? microbatching_ : Microbatching{*renamed, microbatching_.count};
}

/// Makes a block the current one, and ends that when it is destroyed.
class Graph::BlockScope {
 public:
  BlockScope(Graph& graph, Block& block, const Microbatching& microbatching)
      : graph_(graph), block_(block), saved_(graph.microbatching_) {
    graph.blocks_.push_back(&block);
    graph.microbatching_ = microbatching;
  }
  ~BlockScope() {
    graph_.microbatching_ = saved_;
    graph_.blocks_.pop_back();
    std::erase_if(graph_.reads_, [this](const auto& entry) { return entry.first.second == &block_; });
  }
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

 private:
  Graph& graph_;
  const Block& block_;
  const Microbatching saved_;
};

Block Graph::capture(const Microbatching& microbatching, const std::function<void()>& build) {
  Block block;
  const BlockScope inside(*this, block, microbatching);
  build();
  return block;
}

}  // namespace mtf
