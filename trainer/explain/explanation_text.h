// The explanation of a run for people: tables, and at the end a summary for choosing a layout.
#pragma once

#include <string>

#include "trainer/explain/explain.h"

namespace mtf {

/// Returns the text. Its sections are: variables; work by layer; collectives; memory; repeated work and the
/// rules that would save it; if `options` request them, every tensor of a step and the counters
/// (docs/architecture.md "Counters of explain"); warnings; the verdict. Repeated layers share a line
/// ("block_*/kernel  x 12"). The texts of Explanation::parts come last.
std::string explain_text(const Explanation& explanation, const ExplainOptions& options);

/// Returns "batch=200 hidden=1024", or "scalar".
std::string shape_text(const Shape& shape);
/// Returns "hidden: cols, batch: [pod, data]; partial sum over rows"; "whole" if no dimension is split, "" on
/// a mesh of one position.
std::string layout_text(const Shape& shape, const Layout& layout, const Mesh& mesh);
/// Returns "81.82 MFLOP", with four significant digits.
std::string flops_text(double flops);

}  // namespace mtf
