// What a configuration must hold and how its sections fit together, beyond what each key says for itself.
#pragma once

#include "engine/base/error.h"

namespace mtf {

struct Config;

/// Reports what is wrong, where nothing else is wrong with the sections concerned. Then takes what stands in
/// sections with mistakes out of the configuration, so that building the model reports only what is wrong for
/// certain.
void check_config(Config& config, Diagnostics& diagnostics);

}  // namespace mtf
