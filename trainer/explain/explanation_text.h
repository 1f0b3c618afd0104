// The explanation of a run for people: tables, and at the end what is needed to pick a layout.
#pragma once

#include <string>

#include "trainer/explain/explain.h"

namespace mtf {

/// In this order: variables; work by layer; collectives; memory; repeated work and the rules that would save
/// it; if `options` ask for them, every tensor of a step and the counters (docs/architecture.md "Counters of
/// explain"); warnings; the verdict. Repeated layers share a line ("block_*/kernel  x 12").
std::string explain_text(const Explanation& explanation, const ExplainOptions& options);

/// "batch=200 hidden=1024"; "scalar".
std::string shape_text(const Shape& shape);
/// "hidden: cols, batch: [pod, data]; partial sum over rows"; "whole" where nothing is split, empty on one
/// position.
std::string layout_text(const Shape& shape, const Layout& layout, const Mesh& mesh);
/// "81.82 MFLOP": four digits.
std::string flops_text(double flops);

}  // namespace mtf
