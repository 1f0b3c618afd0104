#include "layers/space/space.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {
namespace {

constexpr std::string_view kChannels = "channels";

/// Reports numbers below `least`.
void check_numbers(const config::Report& report, const char* key, const PerDimension& numbers,
                   int64_t least) {
  const auto* number = std::get_if<int64_t>(&numbers);
  if (number && *number < least)
    report.error(key, fmt::format("{} is too small", *number), fmt::format("at least {}", least));
}

void check_padding(const config::Report& report, const PaddingChoice& padding) {
  const auto* by_name = std::get_if<config::Named<std::vector<int64_t>>>(&padding);
  if (!by_name) return;
  for (const auto& [name, values] : *by_name) {
    if (values.size() == 1 || values.size() == 2) continue;
    report.error("padding", fmt::format("`{}` has {} numbers", name, values.size()),
                 "one for both sides, or two: before and after");
  }
}

void check_name(std::string_view layer, const char* key, const std::string& name, const Shape& space) {
  if (space.contains(name)) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("{}: `{}` is for dimension `{}`, but windows move along {}", layer, key, name,
                          space.to_string()),
              "numbers for these dimensions");
}

int64_t extra_for(const ExtraEntries& extra, const Dimension& d) {
  if (const auto* number = std::get_if<int64_t>(&extra)) return *number;
  const int64_t* const named = std::get<config::Named<int64_t>>(extra).find(d.name);
  return named ? *named : 0;
}

}  // namespace

int64_t number_for(const PerDimension& numbers, const Dimension& d) {
  if (const auto* number = std::get_if<int64_t>(&numbers)) return *number;
  const Shape& by_name = std::get<Shape>(numbers);
  const auto axis = by_name.find(d.name);
  return axis ? by_name[*axis].size : 1;
}

Padding padding_for(const PaddingChoice& choice, const Dimension& d) {
  if (const auto* word = std::get_if<PaddingWord>(&choice))
    return *word == PaddingWord::kSame ? Padding::same() : Padding::valid();
  if (const auto* number = std::get_if<int64_t>(&choice)) return Padding::of(*number, *number);
  const auto* values = std::get<config::Named<std::vector<int64_t>>>(choice).find(d.name);
  return values ? Padding::of(values->front(), values->back()) : Padding::of(0, 0);
}

void check_windows(config::Visitor& visit, WindowsOptions& options, const char* size_key) {
  visit.check([&options, size_key](const config::Report& report) {
    check_numbers(report, size_key, options.size, 1);
    check_numbers(report, "stride", options.stride, 1);
    check_numbers(report, "dilation", options.dilation, 1);
    check_padding(report, options.padding);
  });
}

Shape channels_of(const Context& context, const LayerTensor& x, const std::vector<config::Name>& names) {
  if (!names.empty()) return find_dimensions(x, names);
  if (x.made()) return context.made(x);
  const auto axis = x.shape().find(kChannels);
  return axis ? Shape{x.shape()[*axis]} : Shape{};
}

Shape space_of(const Context& context, const Tensor& x, const std::vector<config::Name>& names,
               const Shape& channels, std::string_view layer, int rank) {
  const Shape space =
      names.empty() ? x.shape() - Shape{context.batch_of(x)} - channels : find_dimensions(x, names);
  if (rank == 0 ? space.rank() > 0 : space.rank() == rank) return space;
  const std::string wanted = rank == 0   ? "dimensions"
                             : rank == 1 ? "dimension"
                                         : fmt::format("{} dimensions", rank);
  throw Error(ErrorKind::kConfig,
              fmt::format("{}: which {} of {} do windows move along? Without batch and channels there are {}",
                          layer, wanted, x.shape().to_string(), space.to_string()),
              "name them: `along`");
}

void check_names(std::string_view layer, const WindowsOptions& options, const Shape& space) {
  const auto check_all = [&](const char* key, const PerDimension& numbers) {
    if (const auto* by_name = std::get_if<Shape>(&numbers)) {
      for (const Dimension& d : *by_name) check_name(layer, key, d.name, space);
    }
  };
  check_all("size", options.size);
  check_all("stride", options.stride);
  check_all("dilation", options.dilation);
  if (const auto* by_name = std::get_if<config::Named<std::vector<int64_t>>>(&options.padding)) {
    for (const auto& [name, values] : *by_name) check_name(layer, "padding", name, space);
  }
}

void check_names(std::string_view layer, const ExtraEntries& extra, const Shape& space) {
  if (const auto* by_name = std::get_if<config::Named<int64_t>>(&extra)) {
    for (const auto& [name, entries] : *by_name) check_name(layer, "extra", name, space);
  }
}

std::vector<Window> windows_along(const Shape& space, const WindowsOptions& options, bool filters, bool onto,
                                  const ExtraEntries& extra) {
  std::vector<Window> windows;
  for (const Dimension& d : space) {
    const WindowOptions one{.filter = filters ? "kernel_" + d.name : "",
                            .size = number_for(options.size, d),
                            .stride = number_for(options.stride, d),
                            .dilation = number_for(options.dilation, d),
                            .padding = padding_for(options.padding, d)};
    windows.push_back(onto ? window_onto(d, one, extra_for(extra, d)) : window_over(d, one));
  }
  return windows;
}

}  // namespace mtf
