#include "tests/support/random_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/normalization.h"
#include "engine/ops/unary.h"

namespace mtf::testing {
namespace {

class Builder {
 public:
  Builder(uint32_t seed, const NormLayers& layers) : layers_(layers), random_(seed) {
    made_.graph = std::make_unique<Graph>();
    const int64_t lengths[] = {2, 6, 40, 64, 128, 256, 264, 512, 1032, 2056};
    dimensions_ = {{"a", 8 * layers.microbatches * (1 + pick(3))},
                   {"b", 1 + pick(4)},
                   {"n", lengths[pick(std::size(lengths))]}};
    std::ranges::shuffle(dimensions_, random_);
    if (pick(2) == 0) std::erase_if(dimensions_, [](const Dimension& d) { return d.name == "b"; });
    centered_ = pick(2) == 0;
  }

  RandomNorms build() {
    Graph& graph = *made_.graph;
    const Shape whole(dimensions_);
    const Dimension n = whole.dimension("n");
    Tensors parameters;
    for (int layer = 0; layer < 2; ++layer) {
      for (int i = 0; i < (centered_ ? 2 : 1); ++i)
        parameters.push_back(input(fmt::format("parameter_{}_{}", layer, i), {n}));
    }
    const Tensor x = input("x", whole), weights = input("weights", whole), mask = input("mask", whole - n);
    for (double& value : made_.feeds["mask"]) value = value < -0.5 ? 0 : value < 0.5 ? 1 : value;
    Tensors results;
    if (layers_.microbatches == 1) {
      results = step(x, weights, mask, parameters);
    } else {
      results = repeat(graph, layers_.microbatches, {}, {"a", layers_.microbatches}, [&](const Tensors&) {
        Tensors made =
            step(microbatch_slice(x), microbatch_slice(weights), microbatch_slice(mask), parameters);
        return LoopResult{{}, {made.begin() + 2, made.end()}, {made[0], made[1]}};
      });
    }
    for (size_t i = 0; i < results.size(); ++i) graph.set_output(fmt::format("output_{}", i), results[i]);
    made_.text =
        fmt::format("{} {}{}", whole.to_string(), name_of(layers_.dtype), centered_ ? " centered" : "");
    return std::move(made_);
  }

 private:
  int64_t pick(size_t count) { return static_cast<int64_t>(random_() % count); }

  Tensor input(const std::string& name, const Shape& shape) {
    Values& values = made_.feeds[name];
    for (int64_t i = 0; i < shape.size(); ++i)
      values.push_back(static_cast<float>(std::normal_distribution<float>()(random_)));
    return made_.graph->input(name, shape);
  }

  /// The last h, the gradient of x, and those of the parameters.
  Tensors step(const Tensor& x, const Tensor& weights, const Tensor& mask, const Tensors& parameters) {
    const Tensor narrow = cast(x, layers_.dtype);
    Tensor h = narrow;
    for (size_t layer = 0; layer < 2; ++layer) {
      Tensors inputs{h};
      for (size_t i = 0; i < parameters.size() / 2; ++i)
        inputs.push_back(cast(parameters[layer * parameters.size() / 2 + i], layers_.dtype));
      const auto call = [&](const Tensors& in) {
        const Tensor y =
            centered_ ? layer_norm(in[0], "n", in[1], in[2], 1e-3) : rms_norm(in[0], "n", in[1], 1e-3);
        const Tensor shown = layers_.masked ? multiply(y, cast(mask, layers_.dtype), y.shape()) : y;
        return Tensors{in[0] + tanh(shown)};
      };
      h = layers_.recomputed ? recompute(call, inputs)[0] : call(inputs)[0];
    }
    const Tensor loss = einsum({cast(h, DType::kFloat32), weights}, Shape{});
    Tensors wanted{x};
    wanted.insert(wanted.end(), parameters.begin(), parameters.end());
    Tensors results = gradients({loss}, wanted);
    results.insert(results.begin(), cast(h, DType::kFloat32));
    return results;
  }

  NormLayers layers_;
  std::mt19937 random_;
  RandomNorms made_;
  std::vector<Dimension> dimensions_;
  bool centered_;
};

}  // namespace

RandomNorms random_norms(uint32_t seed, const NormLayers& layers) { return Builder(seed, layers).build(); }

}  // namespace mtf::testing
