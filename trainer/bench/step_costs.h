// What the parts of a training step cost in one process, from the spans of a profile.
//
//   StepCosts costs = step_costs(program, profile, {.steps = 10, .seconds = 0.33, .threads = 2}, model);
//   fmt::print("{}", to_string(costs));
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/profile.h"
#include "engine/spmd/program.h"
#include "trainer/costs/cost_model.h"

namespace mtf {

/// The steps that were measured.
struct MeasuredSteps {
  int64_t steps = 1;    ///< in the profile
  double seconds = 0;   ///< time of a step: the median of steps without a profile
  double examples = 0;  ///< examples of a step
  double tokens = 0;    ///< predicted tokens of a step; 0 for models that read no texts
  int threads = 1;      ///< that compute; 1 on a GPU
};

/// A part of the step. Seconds are those of all threads together.
struct PartCost {
  int64_t instructions = 0;
  double seconds = 0;
  double flops = 0;  ///< contractions and attention, without logits that a mask hides
  double bytes = 0;  ///< Work::bytes
  /// Seconds by the cost model. Nothing without `hardware`, and where collectives are among the instructions.
  std::optional<double> predicted = {};
};

struct StepCosts {
  MeasuredSteps measured;
  std::map<std::string, PartCost> operations;  ///< by the name of the instruction
  std::map<std::string, PartCost> layers;      ///< by scope path; empty: outside all layers
  double data = 0;                             ///< seconds of waiting for the next batch
  double profiled = 0;        ///< seconds of a step with the profile, which takes time itself
  int64_t dropped = 0;        ///< spans for which the profile had no room
  bool has_hardware = false;  ///< times are predicted
};

/// `model` tells how often this process executes an instruction and, with `has_hardware`, in which time.
StepCosts step_costs(const Program& program, Profile& profile, const MeasuredSteps& measured,
                     const CostModel& model, bool has_hardware);

std::string to_string(const StepCosts& costs);
/// The document of bench.format=json. Seconds of operations and layers are those of all threads together, others times of a
/// step.
nlohmann::ordered_json to_json(const StepCosts& costs);

}  // namespace mtf
