#include "engine/ops/window.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/integer_division.h"
#include "engine/graph/operation.h"

namespace mtf {
namespace {

constexpr std::string_view kWindow = "window";

void check(const Dimension& dimension, const WindowOptions& options) {
  const auto& [filter, size, stride, dilation, padding] = options;
  const auto need_positive = [&](const char* what, int64_t value) {
    if (value < 1)
      shape_error(kWindow, fmt::format("{} {} along `{}`", what, value, dimension.name), "at least 1");
  };
  need_positive("size", size);
  need_positive("stride", stride);
  need_positive("dilation", dilation);
}

int64_t extent(const WindowOptions& options) { return (options.size - 1) * options.dilation + 1; }

Window with_sizes(const Dimension& dimension, const WindowOptions& options, int64_t before, int64_t entries,
                  int64_t windows) {
  return {.dimension = dimension.name,
          .filter = options.filter,
          .size = options.size,
          .stride = options.stride,
          .dilation = options.dilation,
          .before = before,
          .entries = {.size = entries},
          .windows = {.size = windows}};
}

}  // namespace

std::string Window::to_string() const {
  std::string text = fmt::format("{} {}", blocks.empty() ? dimension : blocks, size);
  if (stride != 1) text += fmt::format("/{}", stride);
  if (dilation != 1) text += fmt::format("*{}", dilation);
  if (before != 0) text += fmt::format(" from {}", -before);
  return text;
}

std::string to_string(const std::vector<Window>& windows) {
  std::vector<std::string> texts;
  for (const Window& window : windows) texts.push_back(window.to_string());
  return fmt::format("{}", fmt::join(texts, ", "));
}

Window window_over(const Dimension& dimension, const WindowOptions& options) {
  check(dimension, options);
  const int64_t n = dimension.size, stride = options.stride, extent = mtf::extent(options);
  int64_t before = options.padding.before, windows = 0;
  switch (options.padding.kind) {
    case Padding::Kind::kSame:
      windows = ceil_divide(n, stride);
      before = std::max<int64_t>((windows - 1) * stride + extent - n, 0) / 2;
      break;
    case Padding::Kind::kValid:
      before = 0;
      windows = floor_divide(n - extent, stride) + 1;
      break;
    case Padding::Kind::kExplicit:
      windows = floor_divide(before + n + options.padding.after - extent, stride) + 1;
      break;
  }
  if (windows < 1) {
    shape_error(kWindow,
                fmt::format("no window of {} entries fits into `{}` = {}", extent, dimension.name, n),
                "a smaller window, more padding, or fewer strides before it");
  }
  return with_sizes(dimension, options, before, n, windows);
}

Window window_onto(const Dimension& dimension, const WindowOptions& options, int64_t extra) {
  check(dimension, options);
  const int64_t n = dimension.size, stride = options.stride, extent = mtf::extent(options);
  int64_t before = options.padding.before, entries = 0;
  switch (options.padding.kind) {
    case Padding::Kind::kSame:
      entries = n * stride;
      before = std::max<int64_t>(extent - stride, 0) / 2;
      break;
    case Padding::Kind::kValid:
      before = 0;
      entries = (n - 1) * stride + extent;
      break;
    case Padding::Kind::kExplicit:
      entries = (n - 1) * stride + extent - before - options.padding.after;
      break;
  }
  entries += extra;
  if (entries < 1) {
    shape_error(kWindow,
                fmt::format("windows of {} entries make {} entries of `{}`", extent, entries, dimension.name),
                "less padding");
  }
  return with_sizes(dimension, options, before, entries, n);
}

}  // namespace mtf
