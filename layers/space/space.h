// What layers that move windows over space have in common: which dimensions of a tensor are space and which are
// channels, and numbers that are one for all dimensions or one for each.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/schema.h"
#include "engine/ops/window.h"
#include "layers/context.h"

namespace mtf {

/// `3`, or `{rows: 3, cols: 5}`.
using PerDimension = std::variant<int64_t, Shape>;
/// The number for dimension `d`; 1 where a map does not name it.
int64_t number_for(const PerDimension& numbers, const Dimension& d);

/// Entries more at the end: `1`, or `{rows: 1, cols: 0}`; none where a map does not name a dimension.
using ExtraEntries = std::variant<int64_t, config::Named<int64_t>>;

enum class PaddingWord { kSame, kValid };
inline config::EnumNames enum_names(PaddingWord) {
  return {{"same", PaddingWord::kSame}, {"valid", PaddingWord::kValid}};
}
inline config::CommonNames common_names(PaddingWord) {
  static constexpr CommonName kNames[] = {{"zeros", "`same`"}, {"none", "`valid`"}, {"full", "a number"}};
  return kNames;
}
/// `same`, `valid`, entries on both sides, or by dimension `{rows: 1, cols: [0, 1]}`: on both sides, or before and after.
using PaddingChoice = std::variant<PaddingWord, int64_t, config::Named<std::vector<int64_t>>>;
Padding padding_for(const PaddingChoice& choice, const Dimension& d);

/// How windows lie; used by the options of layers.
struct WindowsOptions {
  PerDimension size = int64_t{3};
  PerDimension stride = int64_t{1};
  PerDimension dilation = int64_t{1};
  PaddingChoice padding = PaddingWord::kSame;
  std::vector<config::Name> along;
};
/// Checks the numbers, of which `size_key` is the key of the size.
void check_windows(config::Visitor& visit, WindowsOptions& options, const char* size_key);

/// The dimensions that `names` name, else those that the layer before made, else the one called `channels` (none where x
/// has none).
Shape channels_of(const Context& context, const LayerTensor& x, const std::vector<config::Name>& names);
/// The dimensions that `names` name, else all but batch and `channels`. Throws Error, naming `layer`, where these are not
/// `rank` (0: any number but none) or a number of the options is for another dimension.
Shape space_of(const Context& context, const Tensor& x, const std::vector<config::Name>& names,
               const Shape& channels, std::string_view layer, int rank = 0);
void check_names(std::string_view layer, const WindowsOptions& options, const Shape& space);
void check_names(std::string_view layer, const ExtraEntries& extra, const Shape& space);

/// The windows over the dimensions `space` of x; `onto`: those of a transposed convolution. Filters get the dimensions
/// kernel_ROWS, ... where `filters`.
std::vector<Window> windows_along(const Shape& space, const WindowsOptions& options, bool filters,
                                  bool onto = false, const ExtraEntries& extra = int64_t{0});

}  // namespace mtf
