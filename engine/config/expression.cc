#include "engine/config/expression.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <variant>

#include "engine/config/node.h"

namespace mtf::config {
namespace {

/// A whole number or a fraction.
using Number = std::variant<int64_t, double>;

double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

Number calculate(char operation, const Number& a, const Number& b) {
  if (operation == '/' && to_double(b) == 0) throw ExpressionError{"a division by zero", {}};
  if (std::holds_alternative<int64_t>(a) && std::holds_alternative<int64_t>(b)) {
    const int64_t x = std::get<int64_t>(a), y = std::get<int64_t>(b);
    int64_t result = 0;
    bool overflow = false;
    switch (operation) {
      case '+':
        overflow = __builtin_add_overflow(x, y, &result);
        break;
      case '-':
        overflow = __builtin_sub_overflow(x, y, &result);
        break;
      case '*':
        overflow = __builtin_mul_overflow(x, y, &result);
        break;
      default:
        overflow = y == -1 && __builtin_sub_overflow(int64_t{0}, x, &result);
        if (!overflow && x % y != 0) return to_double(a) / to_double(b);
        if (!overflow) result = x / y;
    }
    if (overflow) throw ExpressionError{fmt::format("{} {} {} has more than 64 bits", x, operation, y), {}};
    return result;
  }
  const double x = to_double(a), y = to_double(b);
  return operation == '+' ? x + y : operation == '-' ? x - y : operation == '*' ? x * y : x / y;
}

/// A recursive descent parser: sum = product {(+|-) product}; product = factor {(*|/) factor}; factor =
/// number | name | (sum) | -factor.
class Parser {
 public:
  Parser(std::string_view text, const NumberOf& number_of) : text_(text), number_of_(number_of) {}

  Number parse() {
    const Number result = sum();
    if (peek() != '\0') throw unexpected();
    return result;
  }

 private:
  Number sum() {
    Number left = product();
    while (peek() == '+' || peek() == '-') {
      const char operation = text_[at_++];
      left = calculate(operation, left, product());
    }
    return left;
  }

  Number product() {
    Number left = factor();
    while (peek() == '*' || peek() == '/') {
      const char operation = text_[at_++];
      left = calculate(operation, left, factor());
    }
    return left;
  }

  Number factor() {
    constexpr int kDeepest = 100;
    if (++depth_ > kDeepest) throw ExpressionError{"brackets nested too deep", {}};
    const Number result = bare_factor();
    --depth_;
    return result;
  }

  Number bare_factor() {
    const char c = peek();
    if (c == '-') {
      ++at_;
      return calculate('-', int64_t{0}, factor());
    }
    if (c == '(') {
      ++at_;
      const Number inside = sum();
      if (peek() != ')') throw unexpected();
      ++at_;
      return inside;
    }
    if (c == '$') ++at_;
    if (const size_t length = name_length(text_.substr(at_))) {
      const std::string_view name = text_.substr(at_, length);
      at_ += length;
      return to_number_of(number_of_(name));
    }
    if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.') throw unexpected();
    return literal();
  }

  Number literal() {
    size_t end = at_;
    const auto in_number = [&](char c) {
      const bool sign = (c == '+' || c == '-') && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
      return std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == 'e' || c == 'E' ||
             (sign && end > at_);
    };
    while (end < text_.size() && in_number(text_[end])) ++end;
    const std::string_view digits = text_.substr(at_, end - at_);
    at_ = end;
    return to_number_of(digits);
  }

  static Number to_number_of(std::string_view digits) {
    if (const auto whole = to_integer(digits)) return *whole;
    if (const auto number = to_number(digits)) return *number;
    throw ExpressionError{fmt::format("`{}` is not a number", digits), {}};
  }

  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  ExpressionError unexpected() {
    const char c = peek();
    return {c == '\0' ? "the expression ends too early"
                      : fmt::format("`{}` cannot stand there in an expression", c),
            "numbers, names, + - * / and brackets"};
  }

  std::string_view text_;
  const NumberOf& number_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

size_t name_length(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const auto c = static_cast<unsigned char>(text[length]);
    if (!(std::isalpha(c) || c == '_' || (length > 0 && std::isdigit(c)))) break;
    ++length;
  }
  return length;
}

std::string evaluate_expression(std::string_view text, const NumberOf& number_of) {
  const Number result = Parser(text, number_of).parse();
  if (std::holds_alternative<int64_t>(result)) return fmt::format("{}", std::get<int64_t>(result));
  if (!std::isfinite(std::get<double>(result)))
    throw ExpressionError{"the result is not a finite number", {}};
  return fmt::format("{}", std::get<double>(result));
}

}  // namespace mtf::config
