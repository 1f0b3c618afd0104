#include "trainer/explain/splits.h"

#include <algorithm>
#include <map>

#include "engine/runtime/memory_plan.h"
#include "trainer/config/auto_layout.h"

namespace mtf {
namespace {

/// A tensor dimension and the mesh dimension over which it could be split.
using Candidate = std::pair<std::string, int>;

/// Returns the candidates by estimated savings, largest first.
std::vector<Candidate> candidates(const Mesh& mesh, const ProgramFacts& facts) {
  std::map<Candidate, double> saved;
  for (const ContractionFact& c : facts.contractions) {
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if (!has_axis(c.repeated, axis)) continue;
      for (int i = 0; i < c.volume.rank(); ++i) {
        if (!takes_rules(c.volume[i].name) ||
            c.volume[i].size / parts(c.layout, i, mesh) % mesh.size(axis) != 0)
          continue;
        saved[{c.volume[i].name, axis}] += c.flops * (1 - 1 / static_cast<double>(mesh.size(axis)));
      }
    }
  }
  std::vector<Candidate> result;
  for (const auto& [candidate, flops] : saved) result.push_back(candidate);
  std::stable_sort(result.begin(), result.end(),
                   [&](const Candidate& a, const Candidate& b) { return saved.at(a) > saved.at(b); });
  return result;
}

/// Returns the rule of `layout` for the candidate's dimension, extended by the candidate's mesh dimension.
LayoutRule extended_rule(const Session& session, const Candidate& candidate) {
  LayoutRule rule{candidate.first, {}, {}};
  if (const LayoutRule* old = session.config.layout.find(candidate.first)) rule = *old;
  rule.mesh_dimensions.push_back(session.layouts.mesh.name(candidate.second));
  return rule;
}

}  // namespace

std::vector<SplitTrial> try_splits(const Session& session, const Graph& graph, const Program& program,
                                   const ProgramFacts& facts, size_t most) {
  constexpr size_t kTrials = 6;
  const Config& config = session.config;
  std::vector<SplitTrial> trials;
  size_t tried = 0;
  for (const Candidate& candidate : candidates(program.mesh, facts)) {
    const LayoutRule rule = extended_rule(session, candidate);
    Config trial = config;
    trial.layout = config.layout.plus(LayoutRules({rule}));
    const Layouts layouts = make_layouts(trial, program.mesh);
    Diagnostics diagnostics;
    check_layouts(graph, layouts, diagnostics);
    if (diagnostics.has_errors()) continue;
    if (++tried > kTrials) break;
    const Program other = compile(session, graph, layouts);
    const ProgramFacts found = program_facts(other);
    if (found.flops > 0.999 * facts.flops) continue;
    trials.push_back(
        {rule.dimension, rule.mesh_dimensions, found.flops, found.bytes_sent, largest_position_bytes(other)});
  }
  std::stable_sort(trials.begin(), trials.end(), [](const SplitTrial& a, const SplitTrial& b) {
    return a.flops != b.flops ? a.flops < b.flops : a.bytes_sent < b.bytes_sent;
  });
  if (trials.size() > most) trials.resize(most);
  return trials;
}

}  // namespace mtf
