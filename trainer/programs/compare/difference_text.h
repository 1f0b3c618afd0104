// Measures and formats differences, `0.5312 against 0.5313 (1.9e-04)`, and tables with aligned columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/counted.h"

namespace mtf {

/// Returns |a - b| / max(|a|, |b|, scale): 0 for equal values and for two NaN; infinity if they differ and
/// one of them is not finite.
double relative_difference(double a, double b, double scale = 0);

/// Returns "0.5312 against 0.5313", with at least four digits and as many as are needed to show the
/// difference.
std::string against(double a, double b);

/// Returns "1.9e-04".
std::string relative_text(double relative);

/// Returns a table whose rows are indented by two blanks and whose columns are two blanks apart. `alignment`
/// has a character for each column: '<' left, '>' right. A cell of more than 48 characters does not widen its
/// column.
std::string table(std::string_view alignment, const std::vector<std::vector<std::string>>& rows);

}  // namespace mtf
