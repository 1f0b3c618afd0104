// Where the instructions of a block make, read and write values, for passes that move them.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// Places are positions in the block as it was. Values that share memory are one.
class BlockUses {
 public:
  /// `program` outlives it.
  BlockUses(const Program& program, const std::vector<Instruction>& block);

  /// A collective or a loop stands between these places.
  bool are_separated(size_t first, size_t second) const { return separators_[first] != separators_[second]; }
  /// Nothing: not in this block.
  std::optional<size_t> maker(ValueId id) const;
  const std::vector<size_t>& readers(ValueId id) const;
  /// The variable or carried value that gets a copy of this one; kNoValue: none.
  ValueId copied_to(ValueId id) const;
  /// One of these values is written between the places.
  bool is_written(const std::vector<ValueId>& ids, size_t first, size_t second) const;
  /// Its memory is free when nothing in this block reads it any more.
  bool may_die(ValueId id) const;
  /// What nothing reads behind `place`.
  bool dies_at(ValueId id, size_t place) const;
  /// Bytes of the values that die before `place`.
  int64_t prolonged_bytes(const std::vector<ValueId>& ids, size_t place) const;

  /// `operands` are read at `place`, too, and `results` made there.
  void move(const std::vector<ValueId>& operands, const std::vector<ValueId>& results, size_t place);
  /// Readers are forgotten, but for those that are told from now on.
  void forget_last_reads() { last_read_.clear(); }

 private:
  const Program& program_;
  std::vector<int> separators_;  ///< by place: how many stand before it
  std::unordered_map<ValueId, size_t> made_, last_read_;
  std::unordered_map<ValueId, std::vector<size_t>> written_, readers_;
  std::unordered_map<ValueId, ValueId> copied_to_;
  std::unordered_set<ValueId> outputs_;  ///< of the program
};

}  // namespace mtf
