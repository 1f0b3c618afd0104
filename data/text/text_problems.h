// Collects the problems of text files, so that one scan reports all of them at once. Thousands of bad lines
// in one file are one problem, which names the first of them.
//
//   TextProblems problems;
//   problems.add("train.de", "line", 17, "byte \\xe4 is no UTF-8", "convert the file to UTF-8");
//   problems.throw_if_any();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mtf {

class TextProblems {
 public:
  /// Adds a problem. `unit` is what `number` counts from 1: "line" or "record". Problems of one file with the
  /// same hint are merged; only the `what` of the first one is shown.
  void add(const std::string& path, std::string_view unit, int64_t number, const std::string& what,
           const std::string& hint);
  /// Adds a problem that concerns a whole file.
  void add(Problem problem) { whole_.push_back(std::move(problem)); }

  bool empty() const { return whole_.empty() && kinds_.empty(); }
  std::vector<Problem> problems() const;
  /// Throws one Error (kData) with all problems.
  void throw_if_any() const;

 private:
  struct Kind {
    std::string path, unit, what, hint;
    int64_t first;
    int64_t count;
    std::vector<int64_t> next;  ///< the numbers of the next few
  };
  std::vector<Problem> whole_;
  std::vector<Kind> kinds_;
};

}  // namespace mtf
