// Images that a classifier is wrong about, for people to look at.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "trainer/evaluation/predictions.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/session.h"

namespace mtf {

struct MisclassifiedImage {
  Mistake mistake;
  std::string image;  ///< a data URI of a PNG, at most kMisclassifiedSide pixels high and wide
};

/// Larger images are scaled down, so that a page can hold many.
inline constexpr int64_t kMisclassifiedSide = 64;

/// Reads the images of the examples again, as the network is given them but before they are normalised. Throws what the
/// source throws.
std::vector<MisclassifiedImage> read_misclassified(const Session& session, const EvaluationSet& set,
                                                   const std::set<Mistake>& mistakes);

}  // namespace mtf
