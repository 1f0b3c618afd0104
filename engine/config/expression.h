// Arithmetic in `${...}`: + - * / and brackets over numbers and variables.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mtf::config {

/// Finds the text of a variable that is a number; throws ExpressionError when there is none.
using NumberOf = std::function<std::string(std::string_view name)>;

struct ExpressionError {
  std::string message;
  std::string hint;
};

/// The value as text. Whole numbers stay whole; `/` gives a whole number where it divides. Throws
/// ExpressionError.
std::string evaluate_expression(std::string_view text, const NumberOf& number_of);

/// Length of the name (letters, digits, `_`; no digit first) at the front of `text`; 0 when there is none.
size_t name_length(std::string_view text);

}  // namespace mtf::config
