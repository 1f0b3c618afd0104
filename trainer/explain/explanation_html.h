// The explanation of a run as a page that stands alone: mesh, tilings of tensors, memory, collectives, and a time
// line at rates that the reader gives. The page draws the numbers of explanation_json.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/explain/explain.h"

namespace mtf {

/// Returns the page. `tensors`: with each tensor of a step, beside the variables.
std::string explain_html(const Explanation& explanation, bool tensors);

/// Folds objects of a list that differ only in `message` and in the numbers of the texts `names` into one, in the
/// place of the first, so that repeated layers take the room of one. It has their common names ("block_*/kernel")
/// and their number as `count`, which is 1 for the others.
nlohmann::ordered_json folded(const nlohmann::ordered_json& list, const std::vector<std::string>& names);

}  // namespace mtf
