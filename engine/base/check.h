// MTF_CHECK(condition, "format", ...) checks an invariant of the program itself: if it is broken, it prints
// the condition, the message and a stack trace, and aborts. Mistakes of a user are reported as an Error
// (error.h) instead.
#pragma once

#if defined(__NVCC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1  // fmt 9 does not set it under nvcc, and is then only partly constexpr
#endif
#include <fmt/format.h>

#include <string>

namespace mtf {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace mtf

#define MTF_CHECK(condition, ...)                                                                      \
  do {                                                                                                 \
    if (!(condition)) ::mtf::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
