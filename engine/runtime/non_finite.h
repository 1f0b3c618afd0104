// The first value of a step that is not finite: where it comes from, and what it holds.
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

/// Counts are over all slices of the tensor that a process stores, each distinct one once.
struct NonFinite {
  std::vector<int64_t> order;  ///< less for values that are made earlier; the same in all processes
  std::string tensor;          ///< program line of the instruction, "variable `x`" or "input `image`"
  std::string operation;       ///< "log"; empty: the value was there before the step
  std::string layer;           ///< path of the layer; may be empty
  double smallest = 0;         ///< of the finite values; 0 when there are none
  double largest = 0;
  int64_t nans = 0;
  int64_t infinities = 0;
  int64_t count = 0;  ///< all values
};

/// Adds `count` values to the numbers of `found`. Integers and bools are always finite, and are not looked
/// at.
void examine(DType dtype, const std::byte* data, int64_t count, NonFinite& found);

/// What the processes of a run have found: the earliest, with the numbers of the first process that found it.
/// Every process calls it and gets the same. Throws Error (kPeerLost).
std::optional<NonFinite> earliest(Communicator& communicator, const std::optional<NonFinite>& found);

/// While a program runs: where it is, and the earliest value so far that is not finite.
class NonFiniteSearch {
 public:
  /// The program must outlive it, in its place.
  explicit NonFiniteSearch(const Program& program);

  /// An iteration of a repeat begins, ends.
  void enter(const Instruction& repeat, int64_t iteration);
  void leave();
  /// Of a value that is there now. What a collective between processes makes has the place of its start.
  std::vector<int64_t> order(ValueId id) const;
  const Instruction& maker(ValueId id) const { return *makers_[id]; }

  std::optional<NonFinite> found;

 private:
  void add(const std::vector<Instruction>& block);

  std::map<const Instruction*, int64_t> numbers_;  ///< in the order of the program
  std::vector<const Instruction*> makers_;         ///< by value
  std::vector<int64_t> loops_;  ///< repeats that the program is in, and their iterations, in turn
};

}  // namespace mtf
