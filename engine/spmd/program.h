// What every position runs: local operations on slices, and the collectives between them, in one order for
// all.
//
// A Program prints as text that a person can check (and that tests compare):
//   %3 = einsum(%x, %layer_1/kernel)        f32[batch=64/rows, hidden=2048/cols]
//   %6 = all_reduce(%5, sum, cols)          f32[batch=64/rows, d_model=512]
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// One tensor on the mesh. A device stores a value once for each coordinate over which it varies.
struct Value {
  enum class Storage { kTemporary, kInput, kVariable };

  std::string name;  ///< printed after %
  Shape shape;
  DType dtype = DType::kFloat32;
  Layout layout;
  AxisMask varies = 0;  ///< mesh dimensions over which copies differ: those of the instruction that makes it
  Storage storage = Storage::kTemporary;
  int index = -1;            ///< of Program::variables or Program::inputs
  ValueId alias = kNoValue;  ///< shares the memory of this value (views, in-place results)
};

enum class InstructionKind {
  kLocal,          ///< an operation on slices
  kSlice,          ///< keeps this coordinate's part of `dimension` along `axes`; moves nothing
  kAllReduce,      ///< over `axes`
  kReduceScatter,  ///< over `axes`, each coordinate keeps its part of `dimension`
  kAllGather,      ///< concatenates the parts of `dimension` over `axes`
  kAllToAll,       ///< over `axes`: splits `dimension`, concatenates `concat_dimension`
  kExchange,       ///< shift along `dimension`, split over `axes`, by `offset` elements between neighbours
  kDone,           ///< waits for the collective that makes the inputs
  kCopy,           ///< sets a loop-carried value or a variable
  kAccumulate,     ///< adds the input, or what `operation` makes of the inputs, to the output; the first
                   ///< iteration sets it
  kPlace,          ///< writes microbatch `iteration` of the input into the output
  kRepeat,         ///< runs `body` `count` times
};

struct Instruction {
  InstructionKind kind = InstructionKind::kLocal;
  std::shared_ptr<const Operation>
      operation;  ///< that it runs; of others: the one that asked for it, or null
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  AxisMask axes = 0;
  Reduction reduction = Reduction::kSum;
  int dimension = -1;  ///< axis of the input's shape
  int concat_dimension = -1;
  int64_t offset = 0;
  bool wrap = false;
  bool started = false;            ///< a collective whose result is awaited by a kDone
  std::vector<ValueId> kept = {};  ///< kDone: what the collectives read until then
  ValueId guard = kNoValue;        ///< runs only where this bool holds
  int64_t count = 1;
  std::vector<Instruction> body;
  Microbatching microbatching;  ///< kPlace
  Provenance provenance;

  /// It is an operation on slices, or adds what an operation gives.
  bool runs_operation() const {
    return kind == InstructionKind::kLocal || (kind == InstructionKind::kAccumulate && operation != nullptr);
  }
  bool is_collective() const {
    return kind == InstructionKind::kAllReduce || kind == InstructionKind::kReduceScatter ||
           kind == InstructionKind::kAllGather || kind == InstructionKind::kAllToAll ||
           kind == InstructionKind::kExchange;
  }
};

/// A variable and its layout at rest.
struct ProgramVariable {
  Variable variable;
  Layout layout;
  ValueId value = kNoValue;  ///< kNoValue: this program does not use it
};

struct Program {
  Mesh mesh;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  std::vector<ProgramVariable> variables;  ///< in the graph's order
  std::vector<std::pair<std::string, ValueId>> inputs;
  std::vector<std::pair<std::string, ValueId>> outputs;
  Block operations;  ///< kept alive: operations refer to those that make their operands

  ValueId add_value(Value value);
  ValueId input(const std::string& name) const;   ///< kNoValue: none of this name
  ValueId output(const std::string& name) const;  ///< kNoValue: none of this name
  /// The value whose memory `id` lives in.
  ValueId root(ValueId id) const;
  /// The shape of one position's slice.
  Shape local_shape(ValueId id) const;
  /// Bytes of one position's slice.
  int64_t local_bytes(ValueId id) const;
  std::string to_string() const;
};

/// "einsum", "all_reduce", "repeat": the operation's name, or that of the instruction.
std::string name_of(const Instruction& instruction);
/// The program line of one instruction, without its body.
std::string to_string(const Program& program, const Instruction& instruction);
/// Bytes that one position sends (the mean over positions) when `instruction` runs once (direct
/// reduce-scatter and all-gather; docs/numerics.md "Sums over mesh dimensions").
double bytes_sent(const Program& program, const Instruction& instruction);
/// 128-bit hash (XXH3, hexadecimal) of the text: processes compare it before they start.
std::string program_hash(const Program& program);

}  // namespace mtf
