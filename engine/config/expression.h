// Evaluates the arithmetic in `${...}`: + - * / and parentheses over numbers and variables.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mtf::config {

/// Returns the text of a variable that is a number; throws ExpressionError if there is no such variable.
using NumberOf = std::function<std::string(std::string_view name)>;

struct ExpressionError {
  std::string message;
  std::string hint;
};

/// Returns the value of the expression as text. Whole numbers stay whole, and so does a quotient that has no
/// remainder. Throws ExpressionError.
std::string evaluate_expression(std::string_view text, const NumberOf& number_of);

/// Returns the length of the name (letters, digits, `_`; no digit first) at the front of `text`; 0 if there
/// is none.
size_t name_length(std::string_view text);

}  // namespace mtf::config
