#include "tests/support/random_graph.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/concat.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"

namespace mtf::testing {
namespace {

const std::vector<Dimension> kDimensions{{"a", 4}, {"b", 6}, {"c", 8}, {"d", 12}, {"e", 2}};
constexpr double kLargest = 64;  ///< larger values are clipped, so that all sums are exact in float32

class Builder {
 public:
  explicit Builder(uint32_t seed) : random_(seed) { result_.graph = std::make_unique<Graph>(); }

  RandomGraph run() {
    Graph& graph = *result_.graph;
    for (int i = 0; i < 3; ++i) tensors_.push_back(input("x" + std::to_string(i), random_shape()));
    for (int i = 0; i < 3; ++i) variables_.push_back(variable("w" + std::to_string(i), random_shape()));
    for (const Variable* v : variables_) tensors_.push_back(graph.read(*v));
    for (int i = 0; i < 8; ++i) tensors_.push_back(random_operation());
    if (pick(3) == 0) add_loop();
    const Tensor loss = total();
    graph.set_output("loss", loss);
    for (int i = 0; i < 2; ++i) graph.set_output("y" + std::to_string(i), random_tensor());
    update(loss);
    return std::move(result_);
  }

 private:
  int pick(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  Tensor random_tensor() { return tensors_[static_cast<size_t>(pick(static_cast<int>(tensors_.size())))]; }

  Shape random_shape() {
    std::vector<Dimension> dimensions = kDimensions;
    std::shuffle(dimensions.begin(), dimensions.end(), random_);
    dimensions.resize(static_cast<size_t>(1 + pick(3)));
    return Shape(std::move(dimensions));
  }

  Values random_values(const Shape& shape) {
    Values values(static_cast<size_t>(shape.size()));
    for (double& v : values) v = pick(5) - 2;
    return values;
  }

  Tensor input(const std::string& name, const Shape& shape) {
    result_.feeds[name] = random_values(shape);
    return result_.graph->input(name, shape);
  }

  const Variable* variable(const std::string& name, const Shape& shape,
                           Variable::Kind kind = Variable::Kind::kWeight) {
    result_.variables[name] = random_values(shape);
    return &result_.graph->variable(name, shape, DType::kFloat32, Initializer::zeros(), kind);
  }

  Tensor constant(double value) { return result_.graph->constant(value); }
  Tensor clipped(const Tensor& x) { return maximum(minimum(x, constant(kLargest)), constant(-kLargest)); }

  /// Some of the dimensions of `shape`, in random order.
  Shape part_of(const Shape& shape) {
    std::vector<Dimension> dimensions = shape.dimensions();
    std::shuffle(dimensions.begin(), dimensions.end(), random_);
    dimensions.resize(static_cast<size_t>(pick(static_cast<int>(dimensions.size()) + 1)));
    return Shape(std::move(dimensions));
  }

  /// Dimensions of an output: at most three, so that tensors stay small.
  Shape output_of(const Tensor& a, const Tensor& b) {
    Shape output = part_of(a.shape() + b.shape());
    while (output.rank() > 3) output = output - output[0];
    return output;
  }

  static bool has_free_name(const Tensor& x) { return x.shape().contains("p") || x.shape().contains("q"); }

  Tensor reshaped(const Tensor& x) {
    const int64_t size = x.shape().size();
    std::vector<int64_t> divisors;
    for (int64_t n = 1; n <= size; ++n) {
      if (size % n == 0) divisors.push_back(n);
    }
    const int64_t outer = divisors[static_cast<size_t>(pick(static_cast<int>(divisors.size())))];
    const Tensor y = reshape(x, {{"p", outer}, {"q", size / outer}});
    return pick(2) ? y : reshape(scalar_multiply(y, -1), x.shape());
  }

  Dimension any_of(const Shape& shape) { return shape[pick(shape.rank())]; }

  /// The halves of x along `d`, with the second one in front.
  static Tensor swapped_halves(const Tensor& x, const Dimension& d) {
    const int64_t half = d.size / 2;
    return concat({slice(x, d.name, half, half), slice(x, d.name, 0, half)}, d.name);
  }

  Tensor random_operation() {
    const Tensor x = random_tensor(), y = random_tensor();
    switch (has_free_name(x) || has_free_name(y) ? 4 + pick(4) : pick(11)) {
      case 0:
      case 1:
      case 2:
        return pick(2) ? clipped(einsum({x, y}, output_of(x, y))) : short_sum(x, y);
      case 3:
        return clipped(add(x, y, x.shape() + y.shape()).shape().rank() > 3 ? x : x + y);
      case 4:
        return relu(x);
      case 5:
        return negative(x);
      case 6:
        return clipped(reduce_sum(x, part_of(x.shape())));
      case 7:
        return reduce_max(x, part_of(x.shape()));
      case 8:
        return x.shape().rank() == 0 ? x : shift(x, pick(9) - 4, any_of(x.shape()).name, pick(2) == 0);
      case 9:
        return x.shape().rank() == 0 ? x : swapped_halves(x, any_of(x.shape()));
      default:
        return reshaped(x);
    }
  }

  /// A sum of contractions, which stays a partial sum where possible.
  Tensor short_sum(const Tensor& x, const Tensor& y) {
    const Shape output = output_of(x, y);
    return clipped(einsum({x, y}, output) + negative(einsum({x, y}, output)) + einsum({x, y}, output));
  }

  /// A loop over microbatches along `a`, with a sum, a carried value, and a reassembled tensor.
  void add_loop() {
    Graph& graph = *result_.graph;
    const Tensor batch = input("batch", Shape{{"a", 4}, {"b", 6}}),
                 weight = graph.read(*variable("w_loop", {{"b", 6}, {"c", 8}}));
    const Tensors outputs =
        repeat(graph, 2, {constant(1), graph.constant(0, DType::kFloat32, {{"c", 8}})}, {"a", 2},
               [&](const Tensors& carried) {
                 const Tensor x = microbatch_slice(batch);
                 const Tensor y = einsum({x, weight}, {{"a", 2}, {"c", 8}});
                 const Tensor sum = reduce_sum(y, {{"c", 8}});
                 return LoopResult{{negative(carried[0]), clipped(add(sum, carried[1]) * carried[0])},
                                   {sum, einsum({x, y}, {{"b", 6}, {"c", 8}})},
                                   {relu(y)}};
               });
    for (const Tensor& t : outputs) tensors_.push_back(clipped(t));
  }

  Tensor total() {
    Tensors terms;
    for (int i = 0; i < 3; ++i) terms.push_back(clipped(reduce_sum(random_tensor(), Shape{})));
    return add_n(terms);
  }

  /// w <- w - sign(gradient) - slot, slot <- sign(gradient), sometimes guarded by loss < 100.
  void update(const Tensor& loss) {
    Graph& graph = *result_.graph;
    Tensors reads;
    for (const Variable* v : variables_) reads.push_back(graph.read(*v));
    const Tensors gradients = mtf::gradients({loss}, reads);
    const Tensor guard = pick(2) ? less(loss, constant(100)) : Tensor();
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (!gradients[i]) continue;
      const Graph::Scope phase = graph.phase(Phase::kUpdate);
      const Graph::Scope domain = graph.domain(Domain::kOptimizer);
      const Variable* slot =
          variable(variables_[i]->name + "/slot", variables_[i]->shape, Variable::Kind::kSlot);
      const Tensor direction = sign(gradients[i]);
      graph.assign(*variables_[i], clipped(reads[i] - direction - graph.read(*slot)), guard);
      graph.assign(*slot, direction, guard);
    }
    if (pick(2)) {  // two variables are swapped
      const Variable *s = variable("s", {{"a", 4}}), *t = variable("t", {{"a", 4}});
      const Tensor old_s = graph.read(*s), old_t = graph.read(*t);
      graph.assign(*s, old_t);
      graph.assign(*t, old_s);
      graph.set_output("s before", old_s);
    }
  }

  std::mt19937 random_;
  RandomGraph result_;
  Tensors tensors_;
  std::vector<const Variable*> variables_;
};

}  // namespace

RandomGraph random_graph(uint32_t seed) { return Builder(seed).run(); }

LayoutRules random_rules(uint32_t seed, const Mesh& mesh) {
  std::mt19937 random(seed);
  const std::vector<std::string> names{"a", "b", "c", "d", "e", "p", "q"};
  std::map<std::string, std::vector<std::string>> rules;
  std::vector<int> axes(static_cast<size_t>(mesh.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  for (int axis : axes) {
    for (int n = std::uniform_int_distribution(0, 2)(random); n > 0; --n) {
      std::vector<std::string>& over =
          rules[names[std::uniform_int_distribution<size_t>(0, names.size() - 1)(random)]];
      if (std::find(over.begin(), over.end(), mesh.name(axis)) == over.end()) over.push_back(mesh.name(axis));
    }
  }
  std::vector<LayoutRule> list;
  for (const auto& [name, over] : rules) list.push_back({name, over, {}});
  return LayoutRules(std::move(list));
}

std::unique_ptr<Layouts> random_layouts(uint32_t seed, const Graph& graph, const std::string& mesh_text) {
  const Mesh mesh(Shape::parse(mesh_text));
  const LayoutRules none;
  auto layouts = std::make_unique<Layouts>(
      Layouts::make(mesh, random_rules(seed, mesh), seed % 3 == 1 ? random_rules(seed + 1000, mesh) : none,
                    seed % 3 == 2 ? random_rules(seed + 2000, mesh) : none));
  Diagnostics diagnostics;
  check_layouts(graph, *layouts, diagnostics);
  return diagnostics.has_errors() ? nullptr : std::move(layouts);
}

}  // namespace mtf::testing
