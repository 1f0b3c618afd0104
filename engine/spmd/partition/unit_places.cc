#include "engine/spmd/partition/unit_places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"

namespace mtf {
namespace {

/// A name with its last number taken out: "block_" and 3 of "block_003".
struct NumberedName {
  std::string_view stem;
  std::optional<int64_t> number;
};

NumberedName numbered(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  const size_t begin = last == std::string_view::npos ? 0 : last + 1;
  const auto number = parse_number<int64_t>(name.substr(begin));
  return {number ? name.substr(0, begin) : name, number};
}

/// Names of units as a configuration gives them: "embedding", "decoder/block_7", "block_0..3".
class UnitNames {
 public:
  explicit UnitNames(std::string_view text) {
    const size_t dots = text.find("..");
    const NumberedName first = numbered(text.substr(0, dots));
    stem_ = first.stem;
    begin_ = end_ = first.number;
    if (dots == std::string_view::npos) return;
    const NumberedName last = numbered(text.substr(dots + 2));
    if (first.number && last.number && last.stem.empty()) {
      end_ = last.number;
    } else {
      stem_ = text;
      begin_ = end_ = std::nullopt;
    }
  }

  /// True if these are the last parts of a unit's path. Numbers are compared as numbers.
  bool contain(std::string_view unit) const {
    const NumberedName name = numbered(unit);
    if (name.number.has_value() != begin_.has_value() || !name.stem.ends_with(stem_)) return false;
    const size_t before = name.stem.size() - stem_.size();
    if (before > 0 && name.stem[before - 1] != '/') return false;
    return !begin_ || (*begin_ <= *name.number && *name.number <= *end_);
  }

 private:
  std::string_view stem_;
  std::optional<int64_t> begin_, end_;
};

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return names;
}

int64_t count_blocks(const Graph& graph) { return std::ranges::count_if(graph.units(), &Unit::is_block); }

/// The stages that the configuration gives to a unit. More than one is an error.
std::vector<int64_t> given_stages(const Pipeline& pipeline, const Unit& unit) {
  std::vector<int64_t> stages;
  for (const auto& [stage, entries] : pipeline.placement) {
    if (std::ranges::any_of(entries,
                            [&](const std::string& entry) { return UnitNames(entry).contain(unit.name); }))
      stages.push_back(stage);
  }
  return stages;
}

/// The first of them, if there is one.
std::optional<int64_t> given_stage(const Pipeline& pipeline, const Unit& unit) {
  const std::vector<int64_t> stages = given_stages(pipeline, unit);
  return stages.empty() ? std::nullopt : std::optional(stages.front());
}

/// The number of blocks in each of R chunks of S stages, as evenly as possible on the stages, too. What is left over lies on
/// the stages in the middle first, since the outer ones have embedding and logits.
std::vector<int64_t> blocks_of_chunks(int64_t blocks, int64_t stages, int64_t rounds) {
  std::vector<int64_t> counts(static_cast<size_t>(stages * rounds), blocks / (stages * rounds));
  std::vector<int64_t> order;
  for (int64_t stage = 1; stage + 1 < stages; ++stage) order.push_back(stage);
  order.push_back(0);
  if (stages > 1) order.push_back(stages - 1);
  for (int64_t i = 0; i < blocks % (stages * rounds); ++i)
    ++counts[static_cast<size_t>(i / stages * stages + order[static_cast<size_t>(i % stages)])];
  return counts;
}

void place_evenly(const Graph& graph, const Pipeline& pipeline, const Mesh& mesh) {
  PlacedChunks& placed = *pipeline.placed;
  const int64_t stages = pipeline.stages(mesh);
  const int64_t chunks = stages * pipeline.rounds;
  if (placed.stages.empty()) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) placed.stages.push_back(chunk % stages);
  }
  const std::vector<int64_t> counts = blocks_of_chunks(count_blocks(graph), stages, pipeline.rounds);
  int latest = 0, chunk = 0;
  int64_t of_chunk = 0;
  for (const Unit& unit : graph.units()) {
    if (unit.is_block) {
      for (; of_chunk == counts[static_cast<size_t>(chunk)]; of_chunk = 0) ++chunk;
      ++of_chunk;
    }
    latest = placed.units.emplace(unit.name, unit.is_block ? chunk : latest).first->second;
  }
}

/// The chunk of the next unit, which is at `stage`: in the first graph the last chunk, or a new one if that is elsewhere; in
/// further ones any chunk of the stage.
int chunk_at(int64_t stage, bool is_first, std::vector<int64_t>& stages) {
  auto chunk = is_first && !stages.empty() ? stages.end() - 1 : stages.begin();
  chunk = std::find(chunk, stages.end(), stage);
  if (chunk == stages.end()) chunk = stages.insert(chunk, stage);
  return static_cast<int>(chunk - stages.begin());
}

void place_as_given(const Graph& graph, const Pipeline& pipeline) {
  PlacedChunks& placed = *pipeline.placed;
  int64_t stage = pipeline.placement.begin()->first;
  for (const Unit& unit : graph.units()) {
    if (const std::optional<int64_t> given = given_stage(pipeline, unit)) {
      stage = *given;
      break;
    }
  }
  const bool is_first = placed.stages.empty();
  for (const Unit& unit : graph.units()) {
    if (const auto known = placed.units.find(unit.name); known != placed.units.end()) {
      stage = placed.stages[static_cast<size_t>(known->second)];
      continue;
    }
    stage = given_stage(pipeline, unit).value_or(stage);
    placed.units.emplace(unit.name, chunk_at(stage, is_first, placed.stages));
  }
  if (placed.stages.empty()) placed.stages.push_back(stage);
}

/// Reports rules that split something over the stages.
void check_rules(const Layouts& layouts, Diagnostics& diagnostics) {
  const std::string& stages = layouts.pipeline->mesh_dimension;
  std::set<std::string> seen;
  std::vector<const LayoutRules*> all = {&layouts.activation, &layouts.parameter, &layouts.optimizer};
  if (layouts.part) all.insert(all.end(), {&layouts.part->activation, &layouts.part->parameter});
  for (const LayoutRules* rules : all) {
    for (const LayoutRule& rule : rules->rules()) {
      if (std::ranges::find(rule.mesh_dimensions, stages) == rule.mesh_dimensions.end()) continue;
      if (!seen.insert(rule.dimension).second) continue;
      diagnostics.error(
          rule.mark,
          fmt::format("`{}` has the stages of a pipeline, and cannot split `{}`", stages, rule.dimension),
          "another mesh dimension");
    }
  }
}

void check_placement(const Graph& graph, const Pipeline& pipeline, int64_t stages, Diagnostics& diagnostics) {
  const std::vector<std::string> names = names_of(graph.units());
  for (const auto& [stage, entries] : pipeline.placement) {
    if (stage < 0 || stage >= stages) {
      diagnostics.error(
          pipeline.mark,
          fmt::format("`placement` names stage {}, and `{}` has {}", stage, pipeline.mesh_dimension, stages),
          fmt::format("stages from 0 to {}", stages - 1));
    }
    for (const std::string& entry : entries) {
      if (std::ranges::any_of(names, [&](const std::string& name) { return UnitNames(entry).contain(name); }))
        continue;
      diagnostics.error(pipeline.mark,
                        fmt::format("`placement` names `{}`, and the model has no such layer", entry),
                        did_you_mean(entry, names));
    }
  }
  std::vector<std::string> missing;
  for (const Unit& unit : graph.units()) {
    const std::vector<int64_t> given = given_stages(pipeline, unit);
    if (given.empty() && unit.is_block) missing.push_back(unit.name);
    if (given.size() > 1) {
      diagnostics.error(
          pipeline.mark,
          fmt::format("`placement` puts {} on the stages {}", unit.name, fmt::join(given, ", ")),
          "each layer is named for one stage");
    }
  }
  if (!missing.empty()) {
    diagnostics.error(pipeline.mark,
                      fmt::format("`placement` leaves out {}", missing.front()) +
                          (missing.size() > 1 ? fmt::format(" and {} more blocks", missing.size() - 1) : ""),
                      "each block has a stage, as in {0: [block_0..3], 1: [block_4..7]}");
  }
  for (int64_t stage = 0; stage < stages; ++stage) {
    if (!pipeline.placement.contains(stage))
      diagnostics.error(
          pipeline.mark,
          fmt::format("`placement` has nothing for stage {} of `{}`", stage, pipeline.mesh_dimension),
          fmt::format("layers for each of its {} stages", stages));
  }
}

void check_blocks(const Graph& graph, const Pipeline& pipeline, int64_t stages, Diagnostics& diagnostics) {
  const int64_t blocks = count_blocks(graph);
  if (blocks >= stages * pipeline.rounds) return;
  if (blocks == 0) {
    diagnostics.error(
        pipeline.mark,
        "`layers: " + pipeline.mesh_dimension + "` places blocks on stages, and this model has none",
        graph.units().empty() ? std::string("a model with blocks")
                              : fmt::format("`placement: {{{}: {{0: [{}, ...], ...}}}}`",
                                            pipeline.mesh_dimension, graph.units().front().name));
    return;
  }
  diagnostics.error(
      pipeline.mark,
      fmt::format("{} blocks cannot lie on {} stages{}", blocks, stages,
                  pipeline.rounds > 1 ? fmt::format(" in {} rounds", pipeline.rounds) : ""),
      pipeline.rounds > 1 ? "fewer stages or `pipeline.rounds`" : fmt::format("at most {} stages", blocks));
}

}  // namespace

void place_units(const Graph& graph, const Pipeline& pipeline, const Mesh& mesh) {
  if (pipeline.placement.empty()) {
    place_evenly(graph, pipeline, mesh);
  } else {
    place_as_given(graph, pipeline);
  }
}

void check_pipeline(const Graph& graph, const Layouts& layouts, Diagnostics& diagnostics) {
  if (!layouts.pipeline) return;
  const Pipeline& pipeline = *layouts.pipeline;
  check_rules(layouts, diagnostics);
  const int64_t stages = pipeline.stages(layouts.mesh);
  if (pipeline.placement.empty()) {
    check_blocks(graph, pipeline, stages, diagnostics);
  } else {
    check_placement(graph, pipeline, stages, diagnostics);
  }
}

}  // namespace mtf
