// Checks before the first collective that all processes of a run do the same, so that differences are
// reported by name.
//
//   check_same_run(session, {&program, &evaluation}, {{"checkpoint", "step 1000"}}, examples_of(sets));
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/source.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns the values that the processes of a run must have in common: configuration, examples, kernels,
/// these programs and `fields`.
std::vector<std::pair<std::string, std::string>> fields_of_run(
    const Session& session, const std::vector<const Program*>& programs,
    std::vector<std::pair<std::string, std::string>> fields = {});

/// Sources besides data.train, by the keys of the configuration that name them.
using NamedExamples = std::vector<std::pair<std::string, const Source*>>;
NamedExamples examples_of(const std::vector<EvaluationSet>& sets);

/// Checks that all processes run these programs with the same configuration, examples, kernels and `fields`,
/// and connects the processes and their GPUs. Throws Error (kConfig), which names the process that differs
/// and the difference. The session's communicator may be used only after this call.
void check_same_run(Session& session, const std::vector<const Program*>& programs,
                    std::vector<std::pair<std::string, std::string>> fields = {},
                    const NamedExamples& examples = {});

}  // namespace mtf
