// What infer and score do once for each group of weights.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/decode/chosen_weights.h"
#include "trainer/decode/output.h"
#include "trainer/decode/paired_lines.h"

namespace mtf {

/// Calls `load` and then `run` for each group. `lines` are those of `files` from the first one on, null without files;
/// process 0 has an `output`, whose name may contain the step, the others null. The files are checked once and
/// opened before the first group is loaded, so that errors come early.
void for_each_group(
    const Session& session, const std::vector<WeightGroup>& groups, const std::optional<LineFiles>& files,
    const std::string& output, const std::function<void(const WeightGroup& group)>& load,
    const std::function<void(const WeightGroup& group, PairedLines* lines, TextOutput* output)>& run);

}  // namespace mtf
