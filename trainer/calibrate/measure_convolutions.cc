#include "trainer/calibrate/measure_convolutions.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/median.h"
#include "engine/graph/gradients.h"
#include "engine/ops/convolution.h"
#include "trainer/calibrate/rounded.h"
#include "trainer/calibrate/timed_products.h"

namespace mtf {
namespace {

/// Images of size x size with windows of window x window.
struct Images {
  int64_t count, size, window, stride, inputs, outputs;
};

// The first layers of networks for small and large images, and later ones.
constexpr Images kDirect[] = {{32, 28, 3, 1, 1, 32},  {16, 32, 3, 1, 3, 64},   {8, 28, 9, 1, 1, 16},
                              {8, 28, 9, 1, 16, 16},  {4, 64, 7, 2, 3, 64},    {16, 14, 5, 1, 16, 32},
                              {8, 32, 3, 2, 64, 128}, {8, 16, 1, 2, 128, 256}, {16, 16, 1, 1, 64, 256}};
constexpr Images kWinograd[] = {{8, 28, 3, 1, 16, 16},  {32, 14, 3, 1, 32, 64},  {8, 32, 3, 1, 64, 64},
                                {8, 16, 3, 1, 64, 128}, {8, 16, 3, 1, 128, 128}, {16, 8, 3, 1, 256, 256},
                                {16, 7, 3, 1, 512, 512}};
constexpr Images kDepthwise[] = {{16, 28, 3, 1, 64, 64}, {16, 14, 3, 1, 256, 256}};

class ConvolutionMeasurement {
 public:
  ConvolutionMeasurement(const Measurement& measurement, double peak, double bandwidth)
      : measurement_(measurement), peak_(peak), bandwidth_(bandwidth) {}

  ProductRates rates(std::span<const Images> shapes) const {
    std::vector<TimedProduct> products, warm, cold;
    for (const Images& images : shapes) add(images, false, measurement_.bytes_between, products);
    ProductRates rates = fit_products(timed_in_turns(products, measurement_.rounds), peak_).rates;
    rates.share = rounded(rates.share);
    for (const Images& images : shapes.last(3)) {
      add(images, false, measurement_.bytes_between, warm);
      add(images, false, measurement_.bytes_until_cold, cold);
    }
    rates.exposed = rounded(exposed_share(warm, cold, bandwidth_, measurement_.rounds));
    return rates;
  }

  double depthwise_share() const {
    std::vector<TimedProduct> products;
    for (const Images& images : kDepthwise) add(images, true, measurement_.bytes_between, products);
    std::vector<double> shares;
    for (const MeasuredProduct& p : timed_in_turns(products, measurement_.rounds))
      shares.push_back(2 * p.rows * p.columns * p.summed / p.seconds / peak_);
    return std::min(1.0, rounded(median(shares)));
  }

 private:
  /// Adds a convolution and its gradients; the first layer of a network needs none of its input.
  void add(const Images& images, bool is_depthwise, double bytes_between,
           std::vector<TimedProduct>& products) const {
    Graph graph;
    const Dimension batch{"batch", images.count}, rows{"rows", images.size}, cols{"cols", images.size},
        in{"in", images.inputs}, out{"out", images.outputs};
    const auto windows = [&](const Dimension& d, const char* filter) {
      return window_over(d, {.filter = filter, .size = images.window, .stride = images.stride});
    };
    const Dimension down{"down", images.window}, across{"across", images.window};
    const Tensor x = graph.input("x", {batch, rows, cols, in}),
                 filter = graph.input("filter",
                                      is_depthwise ? Shape{down, across, in} : Shape{down, across, in, out});
    const Tensor y = convolution(x, filter, {windows(rows, "down"), windows(cols, "across")},
                                 is_depthwise ? Shape{in} : Shape{});
    const Tensors dy = gradients({y}, {filter, x});
    std::vector<Tensor> results{y, dy[0]};
    if (images.inputs > 3) results.push_back(dy[1]);
    for (const Tensor& result : results) {
      auto kernel = std::make_unique<MeasuredKernel>(result.operation(), measurement_.backend, bytes_between);
      const Work& work = kernel->work();
      const ProductExtents extents = work.winograd.value_or(work.product);
      products.push_back({{extents.rows, extents.columns, extents.summed}, std::move(kernel), extents.batch});
    }
  }

  const Measurement& measurement_;
  const double peak_, bandwidth_;
};

}  // namespace

ConvolutionRates measure_convolutions(const Measurement& measurement, double peak, double bandwidth) {
  const ConvolutionMeasurement convolutions(measurement, peak, bandwidth);
  return {.direct = convolutions.rates(kDirect),
          .winograd = convolutions.rates(kWinograd),
          .depthwise = convolutions.depthwise_share()};
}

}  // namespace mtf
