#include "engine/graph/gradients.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/check.h"
#include "engine/graph/structural.h"

namespace mtf {
namespace {

using TensorSet = std::unordered_set<Tensor, TensorHash>;

/// An operation that passes on the results of custom_gradient. Its inputs are the results, then the tensors
/// to which the gradients go.
class CustomGradient final : public OperationBase<CustomGradient> {
 public:
  CustomGradient(const Tensors& results, const Tensors& targets, GradientFunction gradient)
      : OperationBase(join(results, targets), infos(results)),
        results_(results.size()),
        gradient_(std::move(gradient)) {}
  std::string_view name() const override { return "custom_gradient"; }
  bool is_view() const override { return true; }

  ShardingRule sharding_rule(const ShardingRequest& request) const override {
    ShardingRule rule{request.inputs, {}};
    for (size_t i = 0; i < results_; ++i) rule.outputs.push_back(request.inputs[i]);
    return rule;
  }

  Tensors gradient(const Tensors& dy) const override {
    const Tensors targets(inputs().begin() + results_, inputs().end());
    const Tensors results(inputs().begin(), inputs().begin() + results_);
    Tensors given = gradient_(targets, results, dy);
    MTF_CHECK(given.size() == targets.size(), "a custom gradient returned {} of {} gradients", given.size(),
              targets.size());
    Tensors all(results_);
    all.insert(all.end(), given.begin(), given.end());
    return all;
  }

 private:
  static Tensors join(Tensors a, const Tensors& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static std::vector<OutputInfo> infos(const Tensors& tensors) {
    std::vector<OutputInfo> result;
    for (const Tensor& t : tensors) result.push_back({t.shape(), t.dtype()});
    return result;
  }

  size_t results_;
  GradientFunction gradient_;
};

/// Returns the tensors of `block` that depend on one of `xs`.
TensorSet downstream(const Block& block, const Tensors& xs) {
  TensorSet reached(xs.begin(), xs.end());
  for (const auto& operation : block) {
    bool depends = false;
    for (const Tensor& input : operation->inputs()) depends |= reached.contains(input);
    if (!depends) continue;
    for (size_t i = 0; i < operation->outputs().size(); ++i) {
      if (is_floating(operation->outputs()[i].dtype)) reached.insert(operation->output(static_cast<int>(i)));
    }
  }
  return reached;
}

/// Returns the floating-point tensors from outside `block` that its operations use or that are among its
/// results. Variables that it reads count as outside.
Tensors outside_tensors(const Block& block, const Tensors& results) {
  std::unordered_set<const Operation*> inside;
  TensorSet seen;
  Tensors found;
  const auto look_at = [&](const Tensor& tensor) {
    if (inside.contains(&tensor.operation()) || !is_floating(tensor.dtype())) return;
    if (seen.insert(tensor).second) found.push_back(tensor);
  };
  for (const auto& operation : block) {
    for (const Tensor& input : operation->inputs()) look_at(input);
    if (operation->name() == "variable") {
      look_at(operation->output());
    } else {
      inside.insert(operation.get());
    }
  }
  for (const Tensor& result : results) look_at(result);
  return found;
}

/// Maps tensors to their copies.
using TensorMap = std::unordered_map<Tensor, Tensor, TensorHash>;

enum class CloneFor { kRecomputation, kAnotherPart };

/// Appends copies of the operations of `block`, which read the copies of tensors that have one; returns the
/// copies of `wanted`.
Tensors clone_block(Graph& graph, const Block& block, const Tensors& wanted, TensorMap copies,
                    CloneFor purpose) {
  const auto mapped = [&copies](const Tensor& t) {
    const auto found = copies.find(t);
    return found == copies.end() ? t : found->second;
  };
  for (const auto& operation : block) {
    if (operation->name() == "variable") continue;
    Tensors inputs;
    for (const Tensor& input : operation->inputs()) inputs.push_back(mapped(input));
    OperationScope repeated = operation->scope();
    if (purpose == CloneFor::kRecomputation) {
      repeated.provenance.phase = Phase::kBackward;
      repeated.provenance.recomputed = true;
    }
    const Graph::Scope scope = graph.with(repeated);
    Operation& copy = graph.add_clone(*operation, std::move(inputs));
    for (size_t i = 0; i < copy.outputs().size(); ++i) {
      copies[operation->output(static_cast<int>(i))] = copy.output(static_cast<int>(i));
    }
  }
  Tensors result;
  for (const Tensor& t : wanted) result.push_back(mapped(t));
  return result;
}

/// Returns the operations of the current block from number `first` on. It is a copy of the list, because
/// operations are appended while the caller walks over it.
Block operations_since(Graph& graph, size_t first) {
  const Block& block = graph.current_block();
  return {block.begin() + static_cast<std::ptrdiff_t>(first), block.end()};
}

/// Computes gradients() through the operations of `block` only.
Tensors gradients_through(const Block& block, const Tensors& ys, const Tensors& xs, const Tensors& grad_ys) {
  Graph& graph = ys[0].graph();
  const TensorSet reached = downstream(block, xs);
  std::unordered_map<Tensor, Tensors, TensorHash> contributions;
  for (size_t i = 0; i < ys.size(); ++i) {
    const Graph::Scope scope = graph.phase(Phase::kBackward);
    Tensor seed = i < grad_ys.size() ? grad_ys[i] : graph.constant(1, ys[i].dtype(), ys[i].shape());
    contributions[ys[i]].push_back(seed);
  }
  const auto total = [&](const Tensor& t) -> Tensor {
    const auto found = contributions.find(t);
    if (found == contributions.end()) return {};
    if (found->second.size() > 1) found->second = {add_n(found->second)};
    return found->second[0];
  };
  for (auto it = block.rbegin(); it != block.rend(); ++it) {
    const Operation& operation = **it;
    bool depends = false;
    for (const Tensor& input : operation.inputs()) depends |= reached.contains(input);
    if (!depends) continue;
    OperationScope backward = operation.scope();
    backward.provenance.phase = Phase::kBackward;
    backward.provenance.recomputed = false;
    const Graph::Scope scope = graph.with(backward);
    Tensors dy;
    bool any = false;
    for (size_t i = 0; i < operation.outputs().size(); ++i) {
      dy.push_back(total(operation.output(static_cast<int>(i))));
      any |= static_cast<bool>(dy.back());
    }
    if (!any) continue;
    const Tensors dx = operation.gradient(dy);
    MTF_CHECK(dx.size() == operation.inputs().size(), "{} returned {} gradients", operation.name(),
              dx.size());
    for (size_t i = 0; i < dx.size(); ++i) {
      if (dx[i] && reached.contains(operation.input(static_cast<int>(i)))) {
        contributions[operation.input(static_cast<int>(i))].push_back(dx[i]);
      }
    }
  }
  Tensors result;
  const Graph::Scope scope = graph.phase(Phase::kBackward);
  for (const Tensor& x : xs) result.push_back(total(x));
  return result;
}

/// Returns the operations of `block` that depend on one of `xs`.
Block dependents(const Block& block, const Tensors& xs) {
  TensorSet reached(xs.begin(), xs.end());
  Block found;
  for (const auto& operation : block) {
    const auto is_reached = [&reached](const Tensor& input) { return reached.contains(input); };
    if (std::ranges::none_of(operation->inputs(), is_reached)) continue;
    found.push_back(operation);
    for (size_t i = 0; i < operation->outputs().size(); ++i)
      reached.insert(operation->output(static_cast<int>(i)));
  }
  return found;
}

Tensors floating(const Tensors& tensors) {
  Tensors result;
  std::ranges::copy_if(tensors, std::back_inserter(result),
                       [](const Tensor& x) { return is_floating(x.dtype()); });
  return result;
}

}  // namespace

Tensors gradients(const Tensors& ys, const Tensors& xs, const Tensors& grad_ys) {
  MTF_CHECK(!ys.empty(), "gradients of nothing");
  return gradients_through(operations_since(ys[0].graph(), 0), ys, xs, grad_ys);
}

Tensors custom_gradient(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs,
                        const GradientFunction& gradient) {
  const Tensors results = fn(inputs);
  MTF_CHECK(!results.empty(), "custom_gradient of a function without results");
  Operation& operation = results[0].graph().add<CustomGradient>(results, inputs, gradient);
  Tensors outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.push_back(operation.output(static_cast<int>(i)));
  return outputs;
}

Tensors recompute(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs) {
  MTF_CHECK(!inputs.empty(), "recompute of a function without inputs");
  Graph& graph = inputs[0].graph();
  const size_t first = graph.current_block().size();
  const Tensors results = fn(inputs);
  const Block body = operations_since(graph, first);
  const Tensors targets = outside_tensors(body, results);
  return custom_gradient([&results](const Tensors&) { return Tensors(results); }, targets,
                         [=, &graph](const Tensors& sources, const Tensors&, const Tensors& dy) {
                           // If this operation was copied (nested recomputation), the sources are copies as
                           // well.
                           TensorMap sources_of;
                           for (size_t i = 0; i < targets.size(); ++i) sources_of[targets[i]] = sources[i];
                           const size_t begin = graph.current_block().size();
                           const Tensors copies = clone_block(graph, body, results, std::move(sources_of),
                                                              CloneFor::kRecomputation);
                           Tensors ys, seeds;
                           for (size_t i = 0; i < dy.size(); ++i) {
                             if (!dy[i]) continue;
                             ys.push_back(copies[i]);
                             seeds.push_back(dy[i]);
                           }
                           // The gradients end at the sources, because one source may depend on another.
                           return gradients_through(operations_since(graph, begin), ys, sources, seeds);
                         });
}

Tensors in_parts(const std::function<Tensors(const Tensors&)>& fn, int64_t count,
                 const std::function<Tensors(int64_t)>& part_of, bool differentiates,
                 const std::function<void(const PartOfWork&)>& visit) {
  const Tensors first_part = part_of(0);
  MTF_CHECK(!first_part.empty(), "a part of no tensors");
  Graph& graph = first_part[0].graph();
  size_t begin = graph.current_block().size();
  const Tensors originals = fn(first_part);
  const Block body = dependents(operations_since(graph, begin), first_part);
  Tensors sources = outside_tensors(body, {});
  std::erase_if(sources,
                [&](const Tensor& x) { return std::ranges::find(first_part, x) != first_part.end(); });
  Tensors part = first_part, results = originals;
  Block block = body;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) {
      part = part_of(i);
      TensorMap copies;
      for (size_t k = 0; k < part.size(); ++k) copies[first_part[k]] = part[k];
      begin = graph.current_block().size();
      results = clone_block(graph, body, originals, std::move(copies), CloneFor::kAnotherPart);
      block = operations_since(graph, begin);
    }
    PartOfWork work{.results = results, .gradient = {}, .source_gradient = {}};
    if (differentiates) {
      Tensors xs = floating(part);
      const size_t own = xs.size();
      xs.insert(xs.end(), sources.begin(), sources.end());
      const Tensors dx = gradients_through(block, {results[0]}, xs, {});
      size_t next = 0;
      for (const Tensor& x : part) work.gradient.push_back(is_floating(x.dtype()) ? dx[next++] : Tensor{});
      work.source_gradient.assign(dx.begin() + static_cast<std::ptrdiff_t>(own), dx.end());
    }
    visit(work);
  }
  return sources;
}

}  // namespace mtf
