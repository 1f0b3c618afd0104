#include "trainer/programs/convert/image_layers.h"

#include <algorithm>
#include <array>

namespace mtf {

std::optional<int64_t> square(const PerDimension& numbers) {
  const int64_t rows = number_for(numbers, {"rows", 1}), cols = number_for(numbers, {"cols", 1});
  return rows == cols ? std::optional(rows) : std::nullopt;
}

bool has_half_padding(const PaddingChoice& choice, int64_t size, int64_t stride) {
  for (const char* name : {"rows", "cols"}) {
    const Padding padding = padding_for(choice, {name, 1});
    switch (padding.kind) {
      case Padding::Kind::kExplicit:
        if (padding.before != size / 2 || padding.after != size / 2) return false;
        break;
      case Padding::Kind::kSame:
        if (size > 1 && stride > 1) return false;
        break;
      case Padding::Kind::kValid:
        if (size > 1) return false;
        break;
    }
  }
  return true;
}

bool has_no_padding(const PaddingChoice& choice) {
  return std::ranges::all_of(std::array{"rows", "cols"}, [&choice](const char* name) {
    const Padding padding = padding_for(choice, {name, 1});
    return padding.kind == Padding::Kind::kValid ||
           (padding.kind == Padding::Kind::kExplicit && padding.before == 0 && padding.after == 0);
  });
}

}  // namespace mtf
