// BlockUses knows where the instructions of a block compute, read and write values, for passes that move
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// Places are indices of instructions in the original block. Values that share memory count as one.
class BlockUses {
 public:
  /// `program` must outlive this object.
  BlockUses(const Program& program, const std::vector<Instruction>& block);

  /// True if a collective, its done or a loop stands between these places.
  bool are_separated(size_t first, size_t second) const { return separators_[first] != separators_[second]; }
  /// The place of the instruction that first writes the value; nothing if it is not in this block.
  std::optional<size_t> maker(ValueId id) const;
  /// The places of the instructions that read the value, ascending.
  std::span<const size_t> readers(ValueId id) const;
  /// The variable or carried value to which this one is copied, or kNoValue.
  ValueId copied_to(ValueId id) const { return copied_to_[id]; }
  /// True if an instruction strictly between the places writes one of these values.
  bool is_written(const std::vector<ValueId>& ids, size_t first, size_t second) const;
  /// True if the memory of the value is free after its last reader in this block.
  bool may_die(ValueId id) const;
  /// True if the value may die and its last reader is at `place`.
  bool dies_at(ValueId id, size_t place) const;
  /// The bytes of those values that would otherwise die before `place`.
  int64_t prolonged_bytes(const std::vector<ValueId>& ids, size_t place) const;

  /// Records that `operands` are now also read at `place` and that `results` are computed there.
  void move(const std::vector<ValueId>& operands, const std::vector<ValueId>& results, size_t place);
  /// Forgets the last reader of every value; later calls of move() define them anew.
  void forget_last_reads() { last_read_.assign(last_read_.size(), kNowhere); }

 private:
  static constexpr ptrdiff_t kNowhere = -1;

  /// Places by root, ascending.
  class Places {
   public:
    /// A root and a place for each use, in the order of the places.
    Places(size_t values, const std::vector<std::pair<ValueId, size_t>>& uses);
    std::span<const size_t> of(ValueId root) const;

   private:
    std::vector<size_t> ends_;  ///< by root: where its places end in `places_`
    std::vector<size_t> places_;
  };

  const Program& program_;
  std::vector<int> separators_;              ///< by place: number of separators before it
  std::vector<ptrdiff_t> made_, last_read_;  ///< by root
  std::vector<ValueId> copied_to_;           ///< by value
  std::unordered_set<ValueId> outputs_;      ///< outputs of the program
  std::optional<Places> written_, readers_;
};

}  // namespace mtf
