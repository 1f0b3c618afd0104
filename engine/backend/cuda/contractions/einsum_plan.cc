#include "engine/backend/cuda/contractions/einsum_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/ops/einsum.h"

namespace mtf::cuda {
namespace {

using Axes = ContractionAxes;
using Axis = Axes::value_type;

// Constants of the cost estimate, for a GPU of the class of an H100. It decides between plans and is the same
// on every device.
constexpr double kNanosecondsPerCall = 2000;
constexpr double kBytesPerNanosecond = 2000;
constexpr int64_t kTile = 64;  ///< the least number of entries that are computed along a side

/// The rate of products whose columns begin at multiples of `alignment` bytes: tensor cores are fed with 16
/// bytes at once, and by slower kernels with less.
double flops_per_nanosecond(const Contraction& contraction, int64_t alignment) {
  const bool is_bfloat16 =
      contraction.input == DType::kBFloat16 || contraction.precision == MatmulPrecision::kBFloat16;
  if (!is_bfloat16 && contraction.precision == MatmulPrecision::kFull) return 4e4;
  const double share = alignment >= 16 ? 1 : alignment >= 8 ? 0.8 : alignment >= 4 ? 0.5 : 0.15;
  return share * (is_bfloat16 ? 5e5 : 2.5e5);
}

double bytes_of(DType dtype) { return static_cast<double>(size_of(dtype)); }

int64_t whole_tiles(int64_t size) { return (size + kTile - 1) / kTile * kTile; }

Axes axes_of(const Shape& dimensions, const KernelContext& context, const LocalTensor* bias) {
  Axes axes;
  for (const Dimension& d : dimensions) {
    Axis axis;
    const LocalTensor* operands[] = {&context.inputs[0], &context.inputs[1], &context.outputs[0], bias};
    for (size_t i : {kA, kB, kOut, kBias}) {
      const std::optional<int> position = operands[i] ? operands[i]->global.find(d.name) : std::nullopt;
      if (!position) continue;
      axis.size = operands[i]->local[*position].size;
      axis.strides[i] = operands[i]->strides[*position];
    }
    if (axis.size > 1) axes.push_back(axis);
  }
  return axes;
}

/// The four classes of dimensions of a contraction, and the classes that each operand has.
enum Class : size_t { kBatch, kRows, kColumns, kSummed };
constexpr size_t kClasses = 4;
using Classes = std::array<Axes, kClasses>;
constexpr std::array<std::array<Class, 3>, 3> kClassesOf = {
    {{kBatch, kRows, kSummed}, {kBatch, kSummed, kColumns}, {kBatch, kRows, kColumns}}};

bool has_class(size_t operand, size_t kind) { return std::ranges::count(kClassesOf[operand], kind) > 0; }

bool varies_fastest(const Axes& axes, size_t operand) {
  return std::ranges::any_of(axes, [=](const Axis& axis) { return axis.strides[operand] == 1; });
}

/// Rows in scratch are padded to a multiple of this number of elements: 16 bytes of bfloat16.
constexpr int64_t kRowUnit = 8;

/// True for the operands in scratch.
using Packed = std::array<bool, 3>;

/// The axes as the products see them, in memory order. Operands in scratch get strides that suit the
/// products.
class View {
 public:
  /// With `aligns_all`, short rows are padded, too, and each matrix begins at a whole unit.
  View(const Contraction& contraction, const Packed& packed, bool aligns_all)
      : axes_{contraction.batch, contraction.rows, contraction.columns, contraction.summed},
        aligns_all_(aligns_all) {
    for (size_t kind = 0; kind < kClasses; ++kind) sort(axes_[kind], leader(kind, packed));
    for (size_t operand = 0; operand < 3; ++operand) {
      if (packed[operand]) pack(operand);
    }
  }

  Classes joined_axes() const {
    Classes result;
    for (size_t kind = 0; kind < kClasses; ++kind) result[kind] = joined(axes_[kind]);
    return result;
  }
  const StridedAxes<3>& copy(size_t operand) const { return copies_[operand]; }
  int64_t elements(size_t operand) const { return elements_[operand]; }

 private:
  /// The operand whose order the class takes: one that is not packed, if there is one.
  static size_t leader(size_t kind, const Packed& packed) {
    constexpr size_t kPreferred[] = {kOut, kA, kB};
    for (size_t operand : kPreferred) {
      if (has_class(operand, kind) && !packed[operand]) return operand;
    }
    return *std::ranges::find_if(kPreferred, [=](size_t operand) { return has_class(operand, kind); });
  }

  static void sort(Axes& axes, size_t operand) {
    std::ranges::stable_sort(
        axes, [=](const Axis& x, const Axis& y) { return x.strides[operand] > y.strides[operand]; });
  }

  static int64_t whole_units(int64_t elements) { return (elements + kRowUnit - 1) / kRowUnit * kRowUnit; }

  /// Gives the operand strides with the batch first and the class that varies fastest in the tensor last. A
  /// row holds the entries of the last of the other two classes that has any.
  void pack(size_t operand) {
    std::array<Class, 3> order = kClassesOf[operand];
    if (varies_fastest(axes_[order[1]], operand)) std::swap(order[1], order[2]);
    StridedAxes<3> copy;
    int64_t stride = 1;
    bool is_row = true;
    for (size_t i = order.size(); i-- > 0;) {
      if (i == 0 && aligns_all_) stride = whole_units(stride);
      Axes& axes = axes_[order[i]];
      for (size_t axis = axes.size(); axis-- > 0;) {
        auto& [size, strides] = axes[axis];
        const int64_t in_tensor = std::exchange(strides[operand], stride);
        const int64_t in_bias = operand == kOut ? std::exchange(strides[kBias], 0) : 0;
        copy.insert(copy.begin(), {size, {in_tensor, stride, in_bias}});
        stride *= size;
      }
      if (i == 0 || !is_row || stride == 1) continue;
      is_row = false;
      if (aligns_all_ || stride >= kRowUnit) stride = whole_units(stride);
    }
    copies_[operand] = joined(copy);
    elements_[operand] = stride;
  }

  Classes axes_;
  bool aligns_all_;
  std::array<StridedAxes<3>, 3> copies_;
  std::array<int64_t, 3> elements_{};
};

/// A matrix as stored: entry (i, j) at i * row + j, or transposed at j * row + i.
struct Stored {
  bool transposed = false;
  int64_t row = 0;
};

/// The matrix of axes `i` and `j` in an operand; nothing if neither of them is dense. A dense column is taken as
/// a row: its entries need not be aligned one by one.
std::optional<Stored> stored(const Axis& i, const Axis& j, size_t operand) {
  const int64_t row = i.strides[operand], column = j.strides[operand];
  if (j.size == 1 && i.size > 1 && row == 1) return Stored{true, i.size};
  if (column == 1 || j.size == 1) {
    const int64_t length = i.size == 1 ? j.size : row;
    if (length >= j.size) return Stored{false, length};
  }
  if (row == 1 || i.size == 1) {
    const int64_t length = j.size == 1 ? i.size : column;
    if (length >= i.size) return Stored{true, length};
  }
  return {};
}

struct Matrices {
  Axis rows, columns, summed, batch;
};

/// True if the bias depends on the columns only, in order, so that the library can add it. (Its alignment is
/// that of the tensor.)
bool is_bias_of_columns(const Matrices& axes, const Axes& loops) {
  const auto lacks = [](const Axis& axis) { return axis.size == 1 || axis.strides[kBias] == 0; };
  return lacks(axes.rows) && lacks(axes.batch) && std::ranges::all_of(loops, lacks) &&
         (axes.columns.size == 1 || axes.columns.strides[kBias] == 1);
}

/// `plan` with calls for these matrices; nothing if one of them is not a matrix, or the bias not a row.
std::optional<EinsumPlan> with_matrices(EinsumPlan plan, Matrices axes) {
  const std::optional<Stored> out = stored(axes.rows, axes.columns, kOut);
  if (!out) return {};
  size_t a = kA, b = kB;
  if (out->transposed) {
    plan.swapped = true;
    std::swap(a, b);
    std::swap(axes.rows, axes.columns);
  }
  const std::optional<Stored> left = stored(axes.rows, axes.summed, a),
                              right = stored(axes.summed, axes.columns, b);
  if (!left || !right) return {};
  MatmulProblem& problem = plan.problem;
  if (problem.bias && !is_bias_of_columns(axes, plan.loops)) return {};
  problem.m = axes.rows.size;
  problem.n = axes.columns.size;
  problem.k = axes.summed.size;
  problem.batch = axes.batch.size;
  problem.transpose_a = left->transposed;
  problem.transpose_b = right->transposed;
  problem.row_a = left->row;
  problem.row_b = right->row;
  problem.row_c = out->row;
  problem.batch_a = axes.batch.strides[a];
  problem.batch_b = axes.batch.strides[b];
  problem.batch_c = axes.batch.strides[kOut];
  return plan;
}

double nanoseconds(const Contraction& contraction, const EinsumPlan& plan) {
  const MatmulProblem& problem = plan.problem;
  const double calls = static_cast<double>(size_of(plan.loops) * size_of(plan.sums));
  const auto entries = [&](int64_t i, int64_t j) { return static_cast<double>(i * j * problem.batch); };
  const double additions = plan.sums.empty() ? 1 : 2;
  const double bytes =
      (entries(problem.m, problem.k) + entries(problem.k, problem.n)) * bytes_of(problem.input) +
      entries(problem.m, problem.n) * bytes_of(problem.output) * additions;
  const double flops =
      2 * entries(whole_tiles(problem.m), whole_tiles(problem.n)) * static_cast<double>(problem.k);
  const ColumnMajorProblem matrices = column_major(problem);
  const int64_t alignment =
      std::min({matrices.first.alignment, matrices.second.alignment, matrices.output.alignment});
  double time =
      calls * (kNanosecondsPerCall +
               std::max(bytes / kBytesPerNanosecond, flops / flops_per_nanosecond(contraction, alignment)));
  for (const std::optional<PackedOperand>& packed : plan.packed) {
    if (packed) time += kNanosecondsPerCall + 2 * static_cast<double>(packed->bytes()) / kBytesPerNanosecond;
  }
  return time;
}

/// Sets the largest powers of two that divide the addresses of all calls.
void set_alignments(EinsumPlan& plan, const std::array<int64_t, 3>& of_tensors) {
  constexpr int64_t kOfScratch = 64;
  const auto alignment = [&](size_t operand) {
    const DType dtype = operand == kOut ? plan.problem.output : plan.problem.input;
    int64_t bits = plan.packed[operand] ? kOfScratch : of_tensors[operand];
    for (const Axes* axes : {&plan.loops, &plan.sums}) {
      for (const Axis& axis : *axes) bits |= axis.strides[operand] * static_cast<int64_t>(size_of(dtype));
    }
    return bits & -bits;
  };
  plan.problem.alignment_a = alignment(plan.swapped ? kB : kA);
  plan.problem.alignment_b = alignment(plan.swapped ? kA : kB);
  plan.problem.alignment_c = alignment(kOut);
}

/// Calls visit(axis, the other axes) for each axis; if there is none, for an axis of one entry.
template <class Visit>
void for_each_axis(const Axes& axes, const Visit& visit) {
  if (axes.empty()) visit(Axis{}, axes);
  for (size_t i = 0; i < axes.size(); ++i) {
    Axes others = axes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    visit(axes[i], others);
  }
}

/// Tries plans and keeps the first with the shortest estimated time.
class Search {
 public:
  Search(const Contraction& contraction, LibraryUse use) : contraction_(contraction), use_(use) {}

  void try_packed(const Packed& packed) {
    const View view(contraction_, packed, use_ == LibraryUse::kAligned);
    const Classes classes = view.joined_axes();
    for_each_axis(classes[kSummed], [&](const Axis& summed, const Axes& sums) {
      // A sum over several calls can be finished and rounded only after the last of them.
      const bool narrow = contraction_.output == DType::kBFloat16;
      const bool by_library = !packed[kOut] && contraction_.finishes();
      if (by_library && !library_finishes()) return;
      if (!sums.empty() && (by_library || (narrow && !packed[kOut]))) return;
      const bool later = packed[kOut] && (!sums.empty() || contraction_.finishes() || contraction_.addend);
      EinsumPlan rest;
      rest.problem.precision = contraction_.precision;
      rest.problem.input = contraction_.input;
      rest.problem.output = narrow && later ? DType::kFloat32 : contraction_.output;
      rest.problem.bias = by_library && contraction_.bias;
      rest.problem.epilogue = by_library ? contraction_.epilogue : Epilogue::kNone;
      rest.sums = sums;
      for (size_t operand = 0; operand < 3; ++operand) {
        if (!packed[operand]) continue;
        rest.packed[operand] = {view.copy(operand), view.elements(operand),
                                operand == kOut ? rest.problem.output : contraction_.input};
      }
      for_each_axis(classes[kRows], [&](const Axis& rows, const Axes& other_rows) {
        for_each_axis(classes[kColumns], [&](const Axis& columns, const Axes& other_columns) {
          Axes loops = classes[kBatch];
          loops.insert(loops.end(), other_rows.begin(), other_rows.end());
          loops.insert(loops.end(), other_columns.begin(), other_columns.end());
          for_each_axis(loops, [&](const Axis& batch, const Axes& others) {
            rest.loops = others;
            consider({rows, columns, summed, batch}, rest);
          });
        });
      });
    });
  }

  const EinsumPlan& best() const { return best_; }

 private:
  /// The gelu of cuBLASLt may use the hardware's tanh, whose error of 2^-11 disappears in the rounding to
  /// bfloat16 only.
  bool library_finishes() const {
    return use_ == LibraryUse::kFinishes &&
           (contraction_.epilogue != Epilogue::kGelu || contraction_.output == DType::kBFloat16);
  }

  void consider(const Matrices& matrices, const EinsumPlan& rest) {
    std::optional<EinsumPlan> plan = with_matrices(rest, matrices);
    if (!plan) return;
    set_alignments(*plan, contraction_.alignment);
    const double time = nanoseconds(contraction_, *plan);
    if (time >= least_) return;
    least_ = time;
    best_ = *std::move(plan);
  }

  const Contraction& contraction_;
  LibraryUse use_;
  EinsumPlan best_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Contraction contraction_of(const KernelContext& context, bool bias, bool addend) {
  const ContractionClasses classes =
      classify(context.inputs[0].global, context.inputs[1].global, context.outputs[0].global);
  const LocalTensor* const of_bias = bias ? &context.inputs[2] : nullptr;
  Contraction contraction;
  contraction.batch = axes_of(classes.batch, context, of_bias);
  contraction.rows = axes_of(classes.rows, context, of_bias);
  contraction.columns = axes_of(classes.columns, context, of_bias);
  contraction.summed = axes_of(classes.summed, context, of_bias);
  contraction.input = context.inputs[0].dtype;
  contraction.output = context.outputs[0].dtype;
  contraction.bias = bias;
  contraction.addend = addend;
  return contraction;
}

EinsumPlan plan_einsum(const Contraction& contraction, LibraryUse use) {
  Search search(contraction, use);
  // Packing everything gives a single call, so there is always a plan.
  for (unsigned mask = use == LibraryUse::kAligned ? 7 : 0; mask < 8; ++mask) {
    const Packed packed = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
    if (contraction.output_in_scratch && !packed[kOut]) continue;
    search.try_packed(packed);
  }
  EinsumPlan plan = search.best();
  const MatmulProblem& problem = plan.problem;
  plan.flops =
      2 * problem.m * problem.n * problem.k * problem.batch * size_of(plan.loops) * size_of(plan.sums);
  return plan;
}

}  // namespace mtf::cuda
