#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/reshape.h"
#include "engine/ops/statistics_norm.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"
#include "layers/space/space.h"

namespace mtf {
namespace {

/// The channels of x; throws Error where there are none.
Shape need_channels(const Context& context, const LayerTensor& x, const std::vector<config::Name>& over,
                    std::string_view layer) {
  const Shape channels = channels_of(context, x, over);
  if (channels.rank() > 0 && !channels.contains(context.batch_of(x).name)) return channels;
  throw Error(ErrorKind::kConfig,
              fmt::format("{}: which dimensions of {} are channels?", layer, x.shape().to_string()),
              "name them: `over`");
}

struct Parameters {
  Tensor scale, bias;
};
Parameters parameters(Context& context, const Shape& channels, double initial_scale = 1) {
  return {context.variable("scale", channels, Initializer::constant(initial_scale)),
          context.variable("bias", channels, Initializer::zeros())};
}

struct BatchNormOptions {
  std::vector<config::Name> over;
  double momentum = 0.9;
  double epsilon = 1e-5;
  double initial_scale = 1;
};

void describe(config::Visitor& visit, BatchNormOptions& options) {
  visit("over", options.over,
        "the channels, each with a mean and a variance (default: the dimensions that the layer before "
        "made; at first `channels`)");
  visit("momentum", options.momentum, "part of the running mean and variance that a step keeps",
        config::probability);
  visit("epsilon", options.epsilon, "added to the variance", config::non_negative);
  visit("initial_scale", options.initial_scale,
        "first value of scale; 0 in the last norm of a residual branch makes the branch begin as nothing");
}

/// Statistics of a microbatch, over all processors; running statistics in evaluation, and where training keeps them.
class BatchNormLayer final : public Layer {
 public:
  using Options = BatchNormOptions;
  explicit BatchNormLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape channels = need_channels(context, x, options_.over, "batch_norm");
    const auto [scale, bias] = parameters(context, channels, options_.initial_scale);
    const Tensor mean = context.statistic("mean", channels, Initializer::zeros());
    const Tensor variance = context.statistic("variance", channels, Initializer::ones());
    if (!context.moves("mean") && !context.moves("variance"))
      return normalize_by(x, mean, variance, scale, bias, options_.epsilon);
    context.use_batch_statistics();
    const Normalized normalized = normalize(x, channels, scale, bias, options_.epsilon);
    const auto moved = [rate = 1 - options_.momentum](const Tensor& before, const Tensor& value) {
      return add(before, scalar_multiply(subtract(value, before), rate));
    };
    context.update_statistic("mean", normalized.mean, moved);
    context.update_statistic("variance", normalized.variance, moved);
    return normalized.y;
  }

 private:
  Options options_;
};

struct GroupNormOptions {
  int64_t groups = 32;
  std::vector<config::Name> over;
  double epsilon = 1e-5;
};

void describe(config::Visitor& visit, GroupNormOptions& options) {
  visit("groups", options.groups, "the channels are divided into so many groups", config::positive);
  visit("over", options.over,
        "the channels (default: the dimension that the layer before made; at first `channels`)");
  visit("epsilon", options.epsilon, "added to the variance", config::non_negative);
}

class GroupNormLayer final : public Layer {
 public:
  using Options = GroupNormOptions;
  explicit GroupNormLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape channels = need_channels(context, x, options_.over, "group_norm");
    if (channels.rank() != 1 || channels[0].size % options_.groups != 0) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("group_norm: {} groups of {}", options_.groups, channels.to_string()),
                  "one dimension, whose size is a multiple of `groups`");
    }
    const auto [scale, bias] = parameters(context, channels);
    // The groups keep the name of the channels, so that a layout that splits these splits the groups.
    const Dimension group{channels[0].name, options_.groups},
        rest{"_of_group", channels[0].size / options_.groups};
    const auto grouped = [&](const Tensor& t) { return replace_dimensions(t, channels, {group, rest}); };
    const Tensor y = normalize(grouped(x), Shape{context.batch_of(x), group}, grouped(scale), grouped(bias),
                               options_.epsilon)
                         .y;
    return replace_dimensions(y, {group, rest}, channels);
  }

 private:
  Options options_;
};

struct InstanceNormOptions {
  std::vector<config::Name> over;
  double epsilon = 1e-5;
};

void describe(config::Visitor& visit, InstanceNormOptions& options) {
  visit("over", options.over,
        "the channels (default: the dimensions that the layer before made; at first `channels`)");
  visit("epsilon", options.epsilon, "added to the variance", config::non_negative);
}

class InstanceNormLayer final : public Layer {
 public:
  using Options = InstanceNormOptions;
  explicit InstanceNormLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape channels = need_channels(context, x, options_.over, "instance_norm");
    const auto [scale, bias] = parameters(context, channels);
    return normalize(x, Shape{context.batch_of(x)} + channels, scale, bias, options_.epsilon).y;
  }

 private:
  Options options_;
};

const LayerRegistration<BatchNormLayer> batch_norm(
    "batch_norm",
    "y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with mean and variance of each channel over "
    "batch and space\n"
    "(of a microbatch, on all processors); in evaluation, and where training keeps them, those that ran "
    "along: mean =\n"
    "momentum * mean + (1 - momentum) * batch's",
    {"bn", "batchnorm", "batch_normalization", "sync_batch_norm"});
const LayerRegistration<GroupNormLayer> group_norm(
    "group_norm",
    "y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with mean and variance of each example over "
    "space and the "
    "channels of a group",
    {"groupnorm", "group_normalization"});
const LayerRegistration<InstanceNormLayer> instance_norm(
    "instance_norm",
    "y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with mean and variance of each example and "
    "channel over space",
    {"instancenorm", "instance_normalization"});

}  // namespace
}  // namespace mtf
