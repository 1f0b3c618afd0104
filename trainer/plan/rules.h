// From the choices of the search to layout rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/spmd/partition/partition.h"
#include "trainer/plan/bounds.h"
#include "trainer/plan/search.h"

namespace mtf {

/// The names of the dimensions of a mesh that the search makes: `data` for those that split the batch, `model` for the
/// others; a second one of a kind is `data_2`. The one that has the stages of a pipeline is `stages`.
std::vector<std::string> mesh_names(const SplittableDimensions& dimensions, const SplitChoice& chosen,
                                    const std::optional<size_t>& stages = {});

/// The rules of a choice, in the order of the dimensions; each lists its mesh dimensions in the order of the mesh. Those
/// of `decided` are left out.
LayoutRules rules_of(const SplittableDimensions& dimensions, const SplitChoice& chosen,
                     const std::vector<std::string>& names, const DimensionSet& decided);

/// The sets of mesh dimensions over which variables may lie split between steps: all subsets of `axes`, which ascend; of more
/// than four mesh dimensions each alone, and the innermost two, three and so on. First come all of them together and the
/// innermost one, then the others, those with the fewest first.
std::vector<std::vector<int>> axes_at_rest(const std::vector<int>& axes);

/// Rules that split most weights over mesh dimensions `axes` as well, between steps: each weight along at most one of the
/// dimensions that are chosen, the ones of the most bytes first. `fixed` rules of these variables stay as they are.
LayoutRules rest_rules(const SplittableDimensions& dimensions, const Graph& step, const Mesh& mesh,
                       const LayoutRules& layout, const LayoutRules& fixed, const std::vector<int>& axes);

}  // namespace mtf
