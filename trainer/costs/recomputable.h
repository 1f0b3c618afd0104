// What the layers of a model keep for the backward pass, and how long it takes to compute that again: estimates from the
// program without recomputation, by which choose_recompute() orders its candidates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/spmd/program.h"
#include "layers/context.h"
#include "trainer/costs/schedule.h"

namespace mtf {

/// All layers of a kind or name.
struct RecomputableLayers {
  std::string name;
  int64_t count = 0;
  double saved = 0;  ///< bytes that the backward pass reads of results inside of the layers, on one position
  double seconds = 0;  ///< that the forward pass of the layers takes
};

/// The kinds and names that save something worth mentioning: at least a twentieth of what the best one saves. Of those
/// that stand for the same layers only the first is among them. `step` is the program without recomputation.
std::vector<RecomputableLayers> recomputable_layers(const std::vector<AppliedLayer>& applied,
                                                    const Program& step,
                                                    const std::vector<ScheduleItem>& schedule);

}  // namespace mtf
