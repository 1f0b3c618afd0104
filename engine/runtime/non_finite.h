// NonFinite describes the first value of a step that is not finite: its origin and its contents.
//
//   if (const std::optional<NonFinite> found = executor.first_non_finite(step))
//     report(found->tensor, found->layer, found->nans);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/dtype.h"
#include "engine/spmd/program.h"

namespace mtf {

/// Counts cover all slices of the tensor that a process stores, each distinct slice once.
struct NonFinite {
  std::vector<int64_t> order;  ///< compares less for values made earlier; the same in all processes
  std::string tensor;          ///< program line of the instruction, "variable `x`" or "input `image`"
  std::string operation;       ///< such as "log"; empty if the value existed before the step
  std::string layer;           ///< path of the layer; may be empty
  double smallest = 0;         ///< smallest finite value; 0 if there is none
  double largest = 0;          ///< largest finite value; 0 if there is none
  int64_t nans = 0;
  int64_t infinities = 0;
  int64_t count = 0;  ///< number of values, finite or not
};

/// Adds `count` values to the statistics of `found`. Integers and bools are always finite and are ignored.
void examine(DType dtype, const std::byte* data, int64_t count, NonFinite& found);

/// The earliest of the findings of all processes, with the statistics of the first process that reports it.
/// Every process must call it; all get the same answer. Throws Error (kPeerLost).
std::optional<NonFinite> earliest(Communicator& communicator, const std::optional<NonFinite>& found);

/// State of a search while a program runs: the current loop iterations and the earliest non-finite value so
/// far.
class NonFiniteSearch {
 public:
  /// The program must outlive the search and must not be moved.
  explicit NonFiniteSearch(const Program& program);

  /// enter() marks the begin of an iteration of a repeat instruction, leave() its end.
  void enter(const Instruction& repeat, int64_t iteration);
  void leave();
  /// The order of a value that has just been computed. The result of a collective between processes has the
  /// order of the instruction that starts it.
  std::vector<int64_t> order(ValueId id) const;
  const Instruction& maker(ValueId id) const { return *makers_[id]; }

  std::optional<NonFinite> found;

 private:
  void add(const std::vector<Instruction>& block);

  std::map<const Instruction*, int64_t> numbers_;  ///< position of each instruction in the program
  std::vector<const Instruction*> makers_;         ///< instruction that makes each value, by value
  /// The repeat instructions that are running, each followed by its iteration.
  std::vector<int64_t> loops_;
};

}  // namespace mtf
