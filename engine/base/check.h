// MTF_CHECK(condition, "format", ...): a broken invariant of the program itself prints the condition, the
// message and a stack trace, and aborts. What a user can cause is an Error (error.h) instead.
#pragma once

#if defined(__NVCC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1  // by itself fmt 9 is constexpr only by halves there
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
