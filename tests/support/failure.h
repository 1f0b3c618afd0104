// Catches an error for a test of its message.
//
//   EXPECT_THAT(failure([&] { add(x, y); }), HasSubstr("`rows`"));
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/base/error.h"

namespace mtf {

/// The message of the Error that `action` throws, which must be of `kind`; "no error" if it throws none.
template <class Action>
std::string failure(const Action& action, std::optional<ErrorKind> kind = {}) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind())) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace mtf
