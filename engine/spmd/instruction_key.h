// InstructionKey identifies what an instruction does with the slices of a position. A program repeats it for each
// microbatch of a pipeline, so that what depends on nothing else need be found only once.
//
//   std::unordered_set<InstructionKey, InstructionKey::Hash> seen;
//   if (key.set(program, instruction); seen.insert(key).second) prepare(instruction);
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// Equal keys of instructions of one program: they run the same operation or move on slices of the same shapes, layouts and
/// types. Keys of such instructions may differ, as shapes are equal here only if they share their dimensions.
class InstructionKey {
 public:
  struct Hash {
    size_t operator()(const InstructionKey& key) const;
  };

  /// Makes this the key of an instruction that is no loop. Valid while the program stays as it is.
  void set(const Program& program, const Instruction& instruction);

  friend bool operator==(const InstructionKey&, const InstructionKey&) = default;

 private:
  std::vector<uintptr_t> parts_;
};

}  // namespace mtf
