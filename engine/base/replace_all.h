#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Puts `to` in the place of each `from`, which is not empty, in one pass: what is put there is not searched.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace mtf
