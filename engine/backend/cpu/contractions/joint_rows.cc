#include <algorithm>
#include <utility>

#include "engine/backend/cpu/contractions/joint_products.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// Columns are cut into tasks of at least so many.
constexpr int64_t kColumnUnit = 64, kColumnsPerTask = 128;

/// Multiplies the rows of all positions by the B that they share.
class JointRows final : public Kernel {
 public:
  JointRows(JointOperands operands, int64_t positions)
      : operands_(std::move(operands)), positions_(positions), rows_(positions * operands_.rows()) {
    const int64_t wanted = std::min(positions_ * operands_.flops() / kFlopsPerJointTask, kMostJointTasks);
    tasks_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, operands_.columns / kColumnsPerTask));
  }

  int64_t tasks() const override { return tasks_; }
  size_t scratch_bytes() const override {
    const int64_t elements = product_scratch(rows_, operands_.columns, operands_.depth);
    return offset_bytes() + static_cast<size_t>(elements) * sizeof(float);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const int64_t column = column_at(begin), columns = column_at(end) - column;
    auto* const a_rows = reinterpret_cast<int64_t*>(call.scratch);
    int64_t* const c_rows = a_rows + rows_;
    const float* a = call.input<float>(operands_.a);
    float* c = call.output<float>(0);
    for (int64_t position = 0, row = 0; position < positions_; ++position) {
      const int64_t to_a = call.input<float>(static_cast<int>(2 * position) + operands_.a) - a;
      const int64_t to_c = call.output<float>(static_cast<int>(position)) - c;
      for (int64_t i = 0; i < operands_.rows(); ++i, ++row) {
        a_rows[row] = to_a + operands_.a_rows[static_cast<size_t>(i)];
        c_rows[row] = to_c + operands_.c_rows[static_cast<size_t>(i)];
      }
    }
    const Product<float> product{.rows = rows_,
                                 .columns = columns,
                                 .summed = operands_.summed,
                                 .a = a,
                                 .b = call.input<float>(operands_.b) + column * operands_.b_column_stride,
                                 .b_column_stride = operands_.b_column_stride,
                                 .c = c + column,
                                 .a_rows = a_rows,
                                 .c_rows = c_rows,
                                 .in_bfloat16 = operands_.in_bfloat16};
    multiply(product, reinterpret_cast<float*>(call.scratch + offset_bytes()));
    return 2 * rows_ * columns * operands_.depth;
  }

 private:
  int64_t column_at(int64_t task) const {
    return std::min(operands_.columns,
                    ceil_divide(operands_.columns, kColumnUnit) * task / tasks_ * kColumnUnit);
  }
  /// The bytes of the offsets of all rows, in whole cache lines.
  size_t offset_bytes() const {
    return static_cast<size_t>(round_up(2 * rows_ * static_cast<int64_t>(sizeof(int64_t)), 64));
  }

  JointOperands operands_;
  int64_t positions_, rows_;
  int64_t tasks_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> prepare_joint_rows(JointOperands operands, int64_t positions) {
  return std::make_unique<JointRows>(std::move(operands), positions);
}

}  // namespace mtf
