// run.mode=show: a picture of the first training examples as the network is given them.
#pragma once

#include <string_view>

#include "trainer/session/session.h"

namespace mtf {

/// The file that show() writes into the working directory.
inline constexpr std::string_view kShowFile = "show.png";

/// Writes a contact sheet of the first `data.show` rows of training, with their labels. Throws Error (kConfig) where the
/// examples are no images.
void show(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
