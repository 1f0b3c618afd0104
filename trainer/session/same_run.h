// The processes of a run do the same: compared before the first collective, so that a difference has a name.
//
//   check_same_run(session, {&program, &evaluation}, {{"checkpoint", "step 1000"}});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/session/session.h"

namespace mtf {

/// What the processes of a run must have in common: configuration, examples, kernels, these programs and
/// `fields`.
std::vector<std::pair<std::string, std::string>> fields_of_run(
    const Session& session, const std::vector<const Program*>& programs,
    std::vector<std::pair<std::string, std::string>> fields = {});

/// Makes sure that all processes run these programs, with the same configuration, examples and kernels, and
/// connects them, and their GPUs; `fields`: what else must be the same. Throws Error (kConfig) that names who
/// differs, and in what. What needs the communicator of the session may be used from then on.
void check_same_run(Session& session, const std::vector<const Program*>& programs,
                    std::vector<std::pair<std::string, std::string>> fields = {});

}  // namespace mtf
