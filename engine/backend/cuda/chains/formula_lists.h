// Which formula computes which function: those of formulas.h are called as the functions are.
#pragma once

/// Of floating types and integers, of floating types alone, and of bool.
#define MTF_UNARY_NUMBER_FORMULAS(X) X(Negative) X(Square) X(Abs) X(Sign) X(ScalarMultiply) X(ScalarAdd)
#define MTF_UNARY_FLOATING_FORMULAS(X) \
  X(Reciprocal) X(Sqrt) X(Rsqrt) X(Exp) X(Log) X(Sin) X(Cos) X(Pow) MTF_ACTIVATION_FORMULAS(X)
#define MTF_UNARY_BOOL_FORMULAS(X) X(LogicalNot)

/// Functions with a gradient in one pass.
#define MTF_ACTIVATION_FORMULAS(X) \
  X(Relu) X(LeakyRelu) X(Elu) X(Selu) X(Softplus) X(Sigmoid) X(Tanh) X(Swish) X(Gelu) X(SquaredRelu)

/// greater and greater_equal are less and less_equal of swapped operands.
#define MTF_BINARY_NUMBER_FORMULAS(X) \
  X(Add)                              \
  X(Subtract)                         \
  X(Multiply) X(Minimum) X(Maximum) X(FloorDivide) X(Modulo) X(Less) X(LessEqual) X(Equal) X(NotEqual)
#define MTF_BINARY_FLOATING_FORMULAS(X) X(Divide)
#define MTF_BINARY_BOOL_FORMULAS(X) X(Equal) X(NotEqual) X(LogicalAnd) X(LogicalOr)
