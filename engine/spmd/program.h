// Program is what every position runs: local operations on slices and the collectives between them, in the
// same order on all positions.
//
// A Program prints as text that a person can check (and that tests compare):
//   %3 = einsum(%x, %layer_1/kernel)        f32[batch=64/rows, hidden=2048/cols]
//   %6 = all_reduce(%5, sum, cols)          f32[batch=64/rows, d_model=512]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
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
  Copies copies() const { return {varies, layout.pin}; }
  Storage storage = Storage::kTemporary;
  int index = -1;  ///< into Program::variables or Program::inputs
  ValueId alias =
      kNoValue;          ///< value whose memory this one shares (views, in-place results, parts of stacks)
  int64_t offset = 0;    ///< bytes of one position's slice of `alias` that precede this value
  bool on_host = false;  ///< a temporary in page-locked memory of a GPU's machine
};

struct Instruction;

/// What instructions do. A `dimension` is an axis of the input's shape.
namespace action {

/// Runs an operation on slices.
struct Run {
  std::shared_ptr<const Operation> operation;
};
/// Keeps this coordinate's part of `dimension` along `axes`; moves nothing.
struct Slice {
  AxisMask axes = 0;
  int dimension = -1;
};
/// Sets a loop-carried value or a variable.
struct Copy {};
/// Adds the input, or the result of `operation` unless that is null, to the output, which the first iteration
/// sets.
struct Accumulate {
  std::shared_ptr<const Operation> operation;
};
/// Writes the input, one of `count` microbatches, into the output.
struct Place {
  int dimension = -1;
  int64_t count = 1;
};
/// Runs `body` `count` times.
struct Loop {
  int64_t count = 1;
  std::vector<Instruction> body;
};

struct AllReduce {
  Reduction reduction = Reduction::kSum;
};
/// Each coordinate keeps its part of the reduced `dimension`.
struct ReduceScatter {
  Reduction reduction = Reduction::kSum;
  int dimension = -1;
};
/// Concatenates the parts of `dimension`.
struct AllGather {
  int dimension = -1;
};
/// Splits `dimension` and concatenates `concat_dimension`.
struct AllToAll {
  int dimension = -1;
  int concat_dimension = -1;
};
/// Shifts `dimension`, which is split over the axes, by `offset` elements.
struct Exchange {
  int dimension = -1;
  int64_t offset = 0;
  bool wrap = false;
};
/// Copies a pinned value to the coordinate `to` along the mesh dimension of its pin; nothing: to all others.
struct Send {
  std::optional<int64_t> to;
};
/// A collective over `axes`, for each input alike.
struct Communicate {
  std::variant<AllReduce, ReduceScatter, AllGather, AllToAll, Exchange, Send> collective;
  AxisMask axes = 0;
  std::shared_ptr<const Operation> required_by = nullptr;  ///< operation that needs the result; may be null
  bool started = false;                                    ///< a Done awaits the result
};
/// Begins to copy the input between the memory of a GPU and that of its machine (Value::on_host). A Done awaits the result.
struct Transfer {
  bool to_host = false;
};
/// Waits for the collectives or transfers that make the inputs. They read `kept` until then.
struct Done {
  std::vector<ValueId> kept;
};

}  // namespace action

using Action = std::variant<action::Run, action::Slice, action::Copy, action::Accumulate, action::Place,
                            action::Loop, action::Communicate, action::Transfer, action::Done>;

struct Instruction {
  Action action;
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};
  ValueId guard = kNoValue;  ///< bool value; the instruction runs only where it is true
  Provenance provenance = {};
  int layer = -1;          ///< PartitionHints::layer
  int64_t iteration = -1;  ///< the one of a loop that it was taken out of; -1: that of the loop around it

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(action);
  }
  /// The action, or nullptr if it is another one.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&action);
  }
  template <class T>
  T* as() {
    return std::get_if<T>(&action);
  }
  bool is_collective() const { return is<action::Communicate>(); }
  /// The collective of this kind, or nullptr.
  template <class T>
  const T* collective() const {
    const auto* communicate = as<action::Communicate>();
    return communicate ? std::get_if<T>(&communicate->collective) : nullptr;
  }
  /// The operation that it runs on slices, possibly adding the result to a total; nullptr if there is none.
  const Operation* operation() const;
  /// The instructions of a loop and their number of iterations; none, once, if it is no loop.
  const std::vector<Instruction>& body() const;
  int64_t count() const;
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
  /// The bytes of one position's slice of that value that precede `id`.
  int64_t offset(ValueId id) const;
  /// True if the value has the memory of another one to itself, as views and results in place have; false for a
  /// part of a stack.
  bool is_in_place(ValueId id) const;
  /// The shape of one position's slice.
  Shape local_shape(ValueId id) const;
  /// The number of its elements.
  int64_t local_size(ValueId id) const;
  /// The bytes of one position's slice.
  int64_t local_bytes(ValueId id) const;
  std::string to_string() const;
};

/// The name of the operation or else of the instruction: "einsum", "all_reduce", "repeat".
std::string_view name_of(const Instruction& instruction);
/// The program line of one instruction, without its body.
std::string to_string(const Program& program, const Instruction& instruction);
/// The bytes that one position sends (the mean over positions) when `instruction` runs once, for direct
/// reduce-scatter and all-gather algorithms: "Sums over mesh dimensions" in docs/numerics.md.
double bytes_sent(const Program& program, const Instruction& instruction);
/// A 128-bit hash (XXH3, hexadecimal) of the program text, which processes compare before they start.
std::string program_hash(const Program& program);

}  // namespace mtf
