// The work of an instruction on one position: its kind, FLOPs, and bytes of memory that it reads and writes.
//
//   WorkFinder works(program);
//   if (const std::optional<Work> work = works.of(instruction)) total[work->kind].bytes += work->bytes;
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/matmul_precision.h"
#include "engine/spmd/instruction_key.h"
#include "engine/spmd/program.h"

namespace mtf {

enum class WorkKind {
  kProduct,      ///< contractions: matrix products, convolutions
  kAttention,    ///< attention and its gradient
  kElementwise,  ///< each element of the result depends on one element of each operand
  kNorm,         ///< normalizations
  kReduction,    ///< softmax, losses, and all that belongs to no other kind
  kSum,          ///< sums and maxima along dimensions or in windows: pools, moments
  kMovement,     ///< copies, transposes, slices, lookups in tables
  kUpdate,       ///< all else in the phase of updates, norms of gradients included
  kCollective,
};
inline constexpr size_t kWorkKinds = static_cast<size_t>(WorkKind::kCollective) + 1;

/// "products", "attention", "elementwise", "norms", "reductions", "sums", "movement", "updates", "collectives".
std::string_view name_of(WorkKind kind);
/// True for contractions and attention, which are bound by FLOPs; the others are bound by bytes.
constexpr bool has_flops(WorkKind kind) { return kind == WorkKind::kProduct || kind == WorkKind::kAttention; }

/// The type of the factors of products.
enum class FactorType {
  kFloat32,
  kTf32,
  kBFloat16,
  kStoredBFloat16,  ///< bfloat16 which GPUs multiply as it is, and processors as float32
};
/// The type of factors that are stored as `dtype` and multiplied with this precision.
constexpr FactorType factor_type(DType dtype, MatmulPrecision precision) {
  if (precision == MatmulPrecision::kBFloat16) return FactorType::kBFloat16;
  if (dtype == DType::kBFloat16) return FactorType::kStoredBFloat16;
  return precision == MatmulPrecision::kTf32 ? FactorType::kTf32 : FactorType::kFloat32;
}

/// The contractions that have rates of their own.
enum class ProductKind {
  kMatrices,     ///< products of matrices
  kConvolution,  ///< with windows as rows of a matrix
  kDepthwise,    ///< each channel has a filter by itself
};

/// The extents of a contraction as a product of matrices, `batch` times; 0 where there is none.
struct ProductExtents {
  double batch = 0, rows = 0, columns = 0, summed = 0;
  double terms = 1;  ///< products of these extents that are added while their sum stays in the nearest cache
};

/// What one position does in one execution.
struct Work {
  WorkKind kind = WorkKind::kReduction;
  double flops = 0;  ///< FLOPs of contractions and attention, as if nothing was masked
  /// Bytes read and written: each operand and each result once. Tables count the rows that are looked up, and
  /// an operation that changes a part of its operand in place counts that part. Collectives: bytes sent.
  double bytes = 0;
  /// Those of them that a GPU reads in the host's memory (Variable::on_host), or that it writes there, whichever are more:
  /// both happen at a time.
  double host_bytes = 0;
  /// The share of `flops` that is computed: a causal mask hides blocks of logits, which are skipped.
  double computed = 1;
  bool is_gradient = false;  ///< true for the gradient of attention
  FactorType factors = FactorType::kFloat32;
  ProductKind product_kind = ProductKind::kMatrices;
  ProductExtents product = {};  ///< the extents of a contraction
  /// Those of a convolution that processors compute by Winograd's minimal filtering: tiles, outputs and inputs.
  std::optional<ProductExtents> winograd = {};
  double logits = 0;   ///< logits of attention
  double queries = 0;  ///< rows of them: queries of all heads
};

/// Returns the FLOPs of an operation on slices of these shapes, with all that follows from them: the kind and the extents, but
/// not the bytes. `dtype`: the type of the first operand.
Work work_of(const Operation& operation, const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
             DType dtype);

/// Returns the bytes of one position's slices of the values.
double local_bytes(const Program& program, const std::vector<ValueId>& ids);

/// Finds the work of the instructions of a program. What an operation does on slices of some shapes is computed once: the
/// microbatches of a pipeline repeat it.
class WorkFinder {
 public:
  /// `program` must outlive this object and stay as it is.
  explicit WorkFinder(const Program& program) : program_(program) {}

  /// Returns the work of an instruction; nothing for a loop, whose body has the work, for a transfer and for a wait.
  std::optional<Work> of(const Instruction& instruction);
  /// Returns that of an instruction that runs an operation, without the bytes.
  const Work& of_operation(const Instruction& instruction);

 private:
  const Program& program_;
  std::unordered_map<InstructionKey, Work, InstructionKey::Hash> known_;
  InstructionKey key_;
};

}  // namespace mtf
