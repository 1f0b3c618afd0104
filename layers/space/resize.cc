// Layers that trade entries of space for channels or for more entries.
#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/pool.h"
#include "engine/ops/reshape.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"
#include "layers/space/space.h"

namespace mtf {
namespace {

enum class UpsampleMethod { kNearest, kLinear };
config::EnumNames enum_names(UpsampleMethod) {
  return {{"nearest", UpsampleMethod::kNearest}, {"linear", UpsampleMethod::kLinear}};
}
config::CommonNames common_names(UpsampleMethod) {
  static constexpr CommonName kNames[] = {
      {"bilinear", "`linear`"}, {"trilinear", "`linear`"}, {"repeat", "`nearest`"}};
  return kNames;
}

struct UpsampleOptions {
  static constexpr std::string_view shorthand = "factor";
  PerDimension factor = int64_t{2};
  UpsampleMethod method = UpsampleMethod::kNearest;
  std::vector<config::Name> along;
};

/// Reports a number below 1.
void check_positive(config::Visitor& visit, const char* key, const PerDimension& numbers) {
  visit.check([key, &numbers](const config::Report& report) {
    const auto* number = std::get_if<int64_t>(&numbers);
    if (number && *number < 1) report.error(key, fmt::format("{} is too small", *number), "at least 1");
  });
}

void describe(config::Visitor& visit, UpsampleOptions& options) {
  visit("factor", options.factor, "entries that each one becomes, or {rows: 2, cols: 3}");
  visit("method", options.method,
        "each entry repeated, or a line from the middle of one to that of the next");
  visit("along", options.along, "the dimensions that grow (default: all but batch and channels)");
  check_positive(visit, "factor", options.factor);
}

/// x with each entry of `d` repeated; or the mean of the `factor` repeated entries around each of them, which is linear
/// from the middle of one entry of x to that of the next, and constant beyond the first and the last one. With an even
/// factor no entry is in the middle of as many, and the mean is that of the two windows nearest to it.
Tensor upsampled(const Tensor& x, const Dimension& d, int64_t factor, UpsampleMethod method) {
  if (factor == 1) return x;
  const Tensor repeated = spread(x, {window_onto(d, {.size = factor, .stride = factor})});
  if (method == UpsampleMethod::kNearest) return repeated;
  const auto mean_from = [&](int64_t before) {
    const Padding padding = Padding::of(before, factor - 1 - before);
    return window_mean(repeated,
                       {window_over({d.name, d.size * factor}, {.size = factor, .padding = padding})});
  };
  if (factor % 2 == 1) return mean_from(factor / 2);
  return scalar_multiply(add(mean_from(factor / 2), mean_from(factor / 2 - 1)), 0.5);
}

class UpsampleLayer final : public Layer {
 public:
  using Options = UpsampleOptions;
  explicit UpsampleLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    Tensor y = x;
    for (const Dimension& d : space_of(context, x, options_.along, channels_of(context, x, {}), "upsample"))
      y = upsampled(y, d, number_for(options_.factor, d), options_.method);
    return y;
  }

 private:
  Options options_;
};

struct PixelShuffleOptions {
  static constexpr std::string_view shorthand = "factor";
  PerDimension factor = int64_t{2};
  std::vector<config::Name> along;
};

void describe(config::Visitor& visit, PixelShuffleOptions& options) {
  visit("factor", options.factor, "entries that each one becomes, or {rows: 2, cols: 3}");
  visit("along", options.along, "the dimensions that grow (default: all but batch and channels)");
  check_positive(visit, "factor", options.factor);
}

/// Shi et al., Real-time single image super-resolution, 2016, section 3.2.
class PixelShuffleLayer final : public Layer {
 public:
  using Options = PixelShuffleOptions;
  explicit PixelShuffleLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape channels = channels_of(context, x, {});
    const Shape space = space_of(context, x, options_.along, channels, "pixel_shuffle");
    int64_t entries = 1;
    std::vector<Dimension> parts;
    for (const Dimension& d : space) {
      parts.push_back({"_in_" + d.name, number_for(options_.factor, d)});
      entries *= parts.back().size;
    }
    if (channels.rank() != 1 || channels[0].size % entries != 0) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("pixel_shuffle: channels {} for {} entries", channels.to_string(), entries),
                  fmt::format("one dimension, whose size is a multiple of {}", entries));
    }
    const Dimension kept{channels[0].name, channels[0].size / entries};
    Tensor y = replace_dimensions(x, channels, Shape{kept} + Shape(parts));
    std::vector<Dimension> order;
    for (const Dimension& d : y.shape()) {
      const auto axis = space.find(d.name);
      if (axis) {
        order.push_back(d);
        order.push_back(parts[static_cast<size_t>(*axis)]);
      } else if (!Shape(parts).contains(d.name)) {
        order.push_back(d);
      }
    }
    y = transpose(y, Shape(order));
    for (int i = 0; i < space.rank(); ++i) {
      const Dimension& part = parts[static_cast<size_t>(i)];
      y = replace_dimensions(y, {space[i], part}, {Dimension{space[i].name, space[i].size * part.size}});
    }
    return {y, {kept}};
  }

 private:
  Options options_;
};

struct PatchesOptions {
  static constexpr std::string_view shorthand = "size";
  PerDimension size = int64_t{16};
  std::string length = "length";
  std::string patch = "patch";
  std::vector<config::Name> along;
};

void describe(config::Visitor& visit, PatchesOptions& options) {
  visit("size", options.size, "entries of a patch along each dimension, or {rows: 8, cols: 4}");
  visit("length", options.length, "name of the dimension of the patches, row by row");
  visit("patch", options.patch, "name of the dimension of a patch's entries");
  visit("along", options.along, "the dimensions that are cut (default: all but batch and channels)");
  check_positive(visit, "size", options.size);
}

class PatchesLayer final : public Layer {
 public:
  using Options = PatchesOptions;
  explicit PatchesLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape channels = channels_of(context, x, {});
    const Shape space = space_of(context, x, options_.along, channels, "patches");
    std::vector<Dimension> cut, outer, inner;
    for (const Dimension& d : x.shape()) {
      if (!space.contains(d.name)) {
        cut.push_back(d);
        continue;
      }
      const int64_t size = number_for(options_.size, d);
      if (d.size % size != 0) {
        throw Error(ErrorKind::kConfig,
                    fmt::format("patches: {}={} cannot be cut into parts of {}", d.name, d.size, size),
                    "a divisor of its size");
      }
      outer.push_back({d.name, d.size / size});
      inner.push_back({"_in_" + d.name, size});
      cut.push_back(outer.back());
      cut.push_back(inner.back());
    }
    const Shape entries = Shape(inner) + channels;
    const Shape rest = x.shape() - space - channels;
    const Tensor patches = transpose(reshape(x, Shape(cut)), rest + Shape(outer) + entries);
    const Dimension length{options_.length, Shape(outer).size()}, patch{options_.patch, entries.size()};
    return {reshape(patches, rest + length + patch), {patch}};
  }

 private:
  Options options_;
};

const LayerRegistration<UpsampleLayer> upsample("upsample",
                                                "y = x with each entry repeated or interpolated along space",
                                                {"upsampling", "up_sampling2d", "resize", "interpolate"});
const LayerRegistration<PixelShuffleLayer> pixel_shuffle(
    "pixel_shuffle", "y[rows * factor + i, cols * factor + j, channel] = x[rows, cols, (channel, i, j)]",
    {"depth_to_space", "pixelshuffle"});
const LayerRegistration<PatchesLayer> patches(
    "patches", "y[length, patch] = the entries and channels of each patch of x",
    {"patchify", "space_to_depth", "unfold"});

}  // namespace
}  // namespace mtf
