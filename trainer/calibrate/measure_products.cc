#include "trainer/calibrate/measure_products.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/graph/gradients.h"
#include "engine/ops/attention.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reshape.h"
#include "trainer/calibrate/fit_rates.h"
#include "trainer/calibrate/rounded.h"

namespace mtf {

TimedProduct timed_product(const Measurement& measurement, const ProductSizes& sizes, DType dtype,
                           Transposed transposed, MatmulPrecision precision,
                           std::optional<double> bytes_between) {
  Graph graph;
  graph.set_matmul_precision(precision);
  const Dimension rows{"rows", static_cast<int64_t>(sizes.rows)},
      columns{"columns", static_cast<int64_t>(sizes.columns)},
      summed{"summed", static_cast<int64_t>(sizes.summed)};
  const Tensor a = graph.input("a", transposed.a ? Shape{summed, rows} : Shape{rows, summed}, dtype),
               b = graph.input("b", transposed.b ? Shape{columns, summed} : Shape{summed, columns}, dtype);
  einsum({a, b}, {rows, columns});
  const auto contraction = std::ranges::find(graph.root(), "einsum", &Operation::name);
  return {{sizes.rows, sizes.columns, sizes.summed},
          std::make_unique<MeasuredKernel>(**contraction, measurement.backend,
                                           bytes_between.value_or(measurement.bytes_between))};
}

void measure_products(const Measurement& measurement, DeviceOptions& device) {
  const CalibrationSizes& sizes = measurement.sizes;
  const double other = sizes.other_summed;
  std::vector<TimedProduct> products;
  const auto add = [&](double m, double n, double k, Transposed transposed = {}) {
    products.push_back(timed_product(measurement, {m, n, k}, sizes.dtype, transposed));
  };
  for (const double m : sizes.rows) {
    for (const double n : sizes.columns) {
      for (const double k : sizes.summed) add(m, n, k);
      // The gradient of the activations reads the matrix the other way, that of the matrix sums over the rows.
      add(m, n, other, {.b = true});
      add(other, n, m, {.a = true});
    }
  }
  add(sizes.summed.back(), other, sizes.rows.back(), {.a = true});
  std::vector<MeasuredProduct> measured = timed_in_turns(products, measurement.rounds);
  for (MeasuredProduct& p : measured) p.seconds = measurement.without_overhead(p.seconds);
  const FittedProducts fitted =
      fit_products(measured, sizes.peak_is_reached ? fastest_rate(measured) : std::optional<double>(),
                   sizes.largest_padding);
  device.products = fitted.rates;
  device.products.share = std::min(1.0, rounded(device.products.share));
  const auto rate_of = [&](DType dtype, MatmulPrecision precision) {
    const auto& [m, n, k] = sizes.large;
    const ProductRates& rates = device.products;
    const TimedProduct timed = timed_product(measurement, sizes.large, dtype, {}, precision);
    const double flops = 2 * (m + rates.rows) * (n + rates.columns) * (k + rates.summed);
    return rounded(flops / measurement.seconds(*timed.kernel) / rates.share);
  };
  if (device.kind == DeviceKind::kCuda) {
    device.flops.bfloat16 = rounded(fitted.flops);
    device.flops.float32 = rate_of(DType::kFloat32, MatmulPrecision::kFull);
    device.flops.tf32 = rate_of(DType::kFloat32, MatmulPrecision::kTf32);
  } else {
    device.flops.float32 = rounded(fitted.flops);
    device.flops.bfloat16 = rate_of(DType::kFloat32, MatmulPrecision::kBFloat16);
  }
}

double measure_exposure(const Measurement& measurement, double bandwidth) {
  std::vector<TimedProduct> warm, cold;
  const auto add = [&](const ProductSizes& sizes, Transposed transposed = {}) {
    warm.push_back(timed_product(measurement, sizes, DType::kFloat32, transposed));
    cold.push_back(timed_product(measurement, sizes, DType::kFloat32, transposed, MatmulPrecision::kFull,
                                 measurement.bytes_until_cold));
  };
  add({2048, 1024, 256});
  add({2048, 256, 1024});
  add({2048, 256, 256}, {.b = true});
  add({256, 1024, 2048}, {.a = true});
  return rounded(exposed_share(warm, cold, bandwidth, measurement.rounds));
}

/// Long sequences with a causal mask, and short ones without. Operands are in memory, as those of all heads of a batch are in
/// a step.
AttentionRates measure_attention(const Measurement& measurement, double peak) {
  const CalibrationSizes& calibrated = measurement.sizes;
  std::vector<MeasuredAttention> measured;
  for (const AttentionSizes& sizes : calibrated.attention) {
    Graph graph;
    const Dimension b{"batch", sizes.batch}, h{"heads", 8}, l{"length", sizes.length},
        m{"memory_length", sizes.length}, d{"d_kv", sizes.width};
    const auto input = [&](const char* name, const Dimension& entries) {
      return graph.input(name, {b, entries, h, d}, calibrated.dtype);
    };
    AttentionInputs inputs{.q = input("q", l), .k = input("k", m), .v = input("v", m)};
    if (calibrated.segments) {
      const Tensor segment = graph.input("segment", {b, l}, DType::kInt32);
      inputs.query_segment = segment;
      inputs.memory_segment = rename(segment, l.name, m.name);
    }
    const Tensor y = attention(inputs, {.causal = sizes.causal});
    const Tensor dq = gradients({y}, {inputs.q, inputs.k, inputs.v})[0];
    for (const Tensor& tensor : {y, dq}) {
      MeasuredKernel kernel(tensor.operation(), measurement.backend, measurement.bytes_until_cold);
      const Work& work = kernel.work();
      measured.push_back({work.computed * work.flops, work.computed * work.logits, work.queries,
                          measurement.seconds(kernel), work.is_gradient});
    }
  }
  AttentionRates rates = fit_attention(measured, peak);
  rates.forward = rounded(rates.forward);
  rates.backward = rounded(rates.backward);
  return rates;
}

}  // namespace mtf
