// Program is what every position runs: local operations on slices and the collectives between them, in the
// same order on all positions.
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
  /// The mesh dimensions over which copies of the value differ; they are those of the instruction that makes
  /// it.
  AxisMask varies = 0;
  Storage storage = Storage::kTemporary;
  int index = -1;            ///< into Program::variables or Program::inputs
  ValueId alias = kNoValue;  ///< value whose memory this one shares (views, in-place results)
};

enum class InstructionKind {
  kLocal,          ///< runs an operation on slices
  kSlice,          ///< keeps this coordinate's part of `dimension` along `axes`; moves nothing
  kAllReduce,      ///< reduces over `axes`
  kReduceScatter,  ///< reduces over `axes`; each coordinate keeps its part of `dimension`
  kAllGather,      ///< concatenates the parts of `dimension` over `axes`
  kAllToAll,       ///< splits `dimension` over `axes` and concatenates `concat_dimension`
  kExchange,       ///< shifts `dimension`, which is split over `axes`, by `offset` elements
  kDone,           ///< waits for the collective that makes the inputs
  kCopy,           ///< sets a loop-carried value or a variable
  kAccumulate,     ///< adds the input, or the result of `operation`, to the output, which the first
                   ///< iteration sets
  kPlace,          ///< writes microbatch `iteration` of the input into the output
  kRepeat,         ///< runs `body` `count` times
};

struct Instruction {
  InstructionKind kind = InstructionKind::kLocal;
  /// The operation that it runs. For other kinds: the operation that required it, or null.
  std::shared_ptr<const Operation> operation;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  AxisMask axes = 0;
  Reduction reduction = Reduction::kSum;
  int dimension = -1;  ///< axis of the input's shape
  int concat_dimension = -1;
  int64_t offset = 0;
  bool wrap = false;
  bool started = false;            ///< it is a collective whose result a kDone awaits
  std::vector<ValueId> kept = {};  ///< kDone: values that the collectives read until then
  ValueId guard = kNoValue;        ///< bool value; the instruction runs only where it is true
  int64_t count = 1;
  std::vector<Instruction> body;
  Microbatching microbatching;  ///< kPlace
  Provenance provenance;

  /// True if it runs an operation on slices, possibly adding the result to a total.
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
  ValueId value = kNoValue;  ///< kNoValue if this program does not use it
};

struct Program {
  Mesh mesh;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  std::vector<ProgramVariable> variables;  ///< in the graph's order
  std::vector<std::pair<std::string, ValueId>> inputs;
  std::vector<std::pair<std::string, ValueId>> outputs;
  Block operations;  ///< keeps them alive: operations refer to the makers of their operands

  ValueId add_value(Value value);
  ValueId input(const std::string& name) const;   ///< kNoValue if there is none of this name
  ValueId output(const std::string& name) const;  ///< kNoValue if there is none of this name
  /// The value in whose memory `id` lives.
  ValueId root(ValueId id) const;
  /// The shape of one position's slice.
  Shape local_shape(ValueId id) const;
  /// The bytes of one position's slice.
  int64_t local_bytes(ValueId id) const;
  std::string to_string() const;
};

/// The name of the operation or else of the instruction: "einsum", "all_reduce", "repeat".
std::string name_of(const Instruction& instruction);
/// The program line of one instruction, without its body.
std::string to_string(const Program& program, const Instruction& instruction);
/// The bytes that one position sends (the mean over positions) when `instruction` runs once, for direct
/// reduce-scatter and all-gather algorithms: "Sums over mesh dimensions" in docs/numerics.md.
double bytes_sent(const Program& program, const Instruction& instruction);
/// A 128-bit hash (XXH3, hexadecimal) of the program text, which processes compare before they start.
std::string program_hash(const Program& program);

}  // namespace mtf
