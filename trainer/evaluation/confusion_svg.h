// Draws a confusion matrix as an SVG that stands alone and follows the light or dark theme of its viewer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/evaluation/confusion_matrix.h"

namespace mtf {

/// Returns the drawing: a row for each right class, a column for each prediction. Cells are coloured by their share of the
/// row, right predictions in another colour than wrong ones. Up to 30 classes the cells have numbers; of more classes the
/// most frequent mistakes are listed beside the matrix. Of more than 100 classes, neighbours share a row and a column, so
/// that there are at most 100. The size is below 1 MB for any number of classes. `names` may lack names, whose classes are
/// shown by number, and may contain any bytes.
std::string confusion_svg(const ConfusionMatrix& matrix, const std::vector<std::string>& names,
                          std::string_view title);

}  // namespace mtf
