#include "engine/ops/pool.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"
#include "layers/space/space.h"

namespace mtf {
namespace {

enum class PoolFunction { kMax, kMean };

struct PoolOptions : WindowsOptions {
  PoolOptions() {
    size = int64_t{2};
    padding = PaddingWord::kValid;
  }
  static constexpr std::string_view shorthand = "size";
  std::optional<PerDimension> distance;
};

void describe(config::Visitor& visit, PoolOptions& options) {
  visit("size", options.size, "entries of a window along each dimension, or {rows: 3, cols: 2}");
  visit("stride", options.distance, "distance of windows, likewise (default: their size)");
  visit("dilation", options.dilation, "distance of the entries of a window, likewise");
  visit("padding", options.padding,
        "entries beyond the border, which do not count: so many that there are n / stride windows (same), "
        "none (valid), or "
        "that many on both sides, {rows: 1, cols: [0, 1]}");
  visit("along", options.along,
        "the dimensions that windows move along (default: all but batch and channels)");
  check_windows(visit, options, "size");
}

template <PoolFunction kFunction>
class PoolLayer final : public Layer {
 public:
  using Options = PoolOptions;
  explicit PoolLayer(Options options) : options_(std::move(options)) {
    options_.stride = options_.distance.value_or(options_.size);
  }

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const char* name = kFunction == PoolFunction::kMax ? "max_pool" : "average_pool";
    const Shape space = space_of(context, x, options_.along, channels_of(context, x, {}), name);
    check_names(name, options_, space);
    const std::vector<Window> windows = windows_along(space, options_, false);
    return kFunction == PoolFunction::kMax ? window_max(x, windows) : window_mean(x, windows);
  }

 private:
  Options options_;
};

struct GlobalPoolOptions {
  static constexpr std::string_view shorthand = "along";
  std::vector<config::Name> along;
};

void describe(config::Visitor& visit, GlobalPoolOptions& options) {
  visit("along", options.along, "the dimensions that are reduced (default: all but batch and channels)");
}

/// reduce_max(x), whose gradient entries that are equally large share; that of reduce_max would go to each in full.
Tensor shared_max(const Tensor& x, const Shape& kept) {
  const Tensor still = stop_gradient(x), largest = reduce_max(still, kept);
  const Tensor is_largest = equal(still, largest, x.shape());
  const Tensor count = reduce_sum(cast(is_largest, x.dtype()), kept);
  const Tensor zeros = where(is_largest, subtract(x, still), x.graph().constant(0, x.dtype()), x.shape());
  return add(largest, divide(reduce_sum(zeros, kept), count));  // 0 is added, which has a gradient
}

template <PoolFunction kFunction>
class GlobalPoolLayer final : public Layer {
 public:
  using Options = GlobalPoolOptions;
  explicit GlobalPoolLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const char* name = kFunction == PoolFunction::kMax ? "global_max_pool" : "global_average_pool";
    const Shape kept = x.shape() - space_of(context, x, options_.along, channels_of(context, x, {}), name);
    if (kFunction == PoolFunction::kMean) return reduce_mean(x, kept);
    return context.training() ? shared_max(x, kept) : reduce_max(x, kept);
  }

 private:
  Options options_;
};

const LayerRegistration<PoolLayer<PoolFunction::kMax>> max_pool("max_pool",
                                                                "y[w] = max over k of x[w * stride + k]",
                                                                {"pool", "pooling", "maxpool", "max_pool2d"});
const LayerRegistration<PoolLayer<PoolFunction::kMean>> average_pool(
    "average_pool", "y[w] = mean over k of x[w * stride + k]; what lies beyond the border does not count",
    {"avg_pool", "mean_pool", "avg_pool2d"});
const LayerRegistration<GlobalPoolLayer<PoolFunction::kMax>> global_max_pool("global_max_pool",
                                                                             "y = max of x over space");
const LayerRegistration<GlobalPoolLayer<PoolFunction::kMean>> global_average_pool(
    "global_average_pool", "y = mean of x over space", {"global_pool", "gap", "adaptive_avg_pool"});

}  // namespace
}  // namespace mtf
