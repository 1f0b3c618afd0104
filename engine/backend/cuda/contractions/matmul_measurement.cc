#include "engine/backend/cuda/contractions/matmul_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

class TemporaryMemory {
 public:
  TemporaryMemory(Device& device, int64_t bytes) : device_(device), data_(device.allocate(bytes)) {}
  ~TemporaryMemory() { device_.free(data_); }
  TemporaryMemory(const TemporaryMemory&) = delete;
  TemporaryMemory& operator=(const TemporaryMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  Device& device_;
  std::byte* data_;
};

/// The bytes from the begin of the first matrix to the end of the last.
int64_t span_bytes(const ColumnMajorMatrix& matrix, int64_t batch, DType dtype) {
  return ((batch - 1) * matrix.batch_stride + matrix.columns * matrix.leading) *
         static_cast<int64_t>(size_of(dtype));
}

/// The operands of a product.
class Operands {
 public:
  Operands(Device& device, const MatmulProblem& problem, int64_t workspace)
      : problem_(problem),
        matrices_(column_major(problem)),
        a_(device, span_bytes(matrices_.second, problem.batch, problem.input)),
        b_(device, span_bytes(matrices_.first, problem.batch, problem.input)),
        c_(device, span_bytes(matrices_.output, problem.batch, problem.output)),
        bias_(device, problem.n * static_cast<int64_t>(size_of(problem.output))),
        workspace_(device, workspace) {}

  void run(const Matmul& plan) const {
    plan.run(a_.data(), b_.data(), c_.data(), workspace_.data(), problem_.bias ? bias_.data() : nullptr);
  }

 private:
  const MatmulProblem& problem_;
  ColumnMajorProblem matrices_;
  TemporaryMemory a_, b_, c_, bias_, workspace_;
};

/// The shortest of some runs, in nanoseconds.
int64_t measured(DeviceClock& clock, const Operands& operands, const Matmul& plan) {
  constexpr int kRuns = 5;
  operands.run(plan);  // loads the kernel
  for (int i = 0; i < kRuns; ++i) {
    clock.mark();
    operands.run(plan);
  }
  clock.mark();
  const std::vector<int64_t> times = clock.read();
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (size_t i = 1; i < times.size(); ++i) shortest = std::min(shortest, times[i] - times[i - 1]);
  return shortest;
}

}  // namespace

int fastest(Device& device, const MatmulProblem& problem,
            const std::vector<std::shared_ptr<const Matmul>>& plans) {
  if (plans.size() == 1) return 0;
  int64_t workspace = 0;
  for (const auto& plan : plans) workspace = std::max(workspace, plan->workspace_bytes());
  std::optional<Operands> operands;
  try {
    operands.emplace(device, problem, workspace);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;
    device.note({true, fmt::format("a product of {} is not measured: {}", text(problem), error.what())});
    return 0;
  }
  const std::unique_ptr<DeviceClock> clock = device.make_clock();
  std::vector<int64_t> times;
  for (const auto& plan : plans) times.push_back(measured(*clock, *operands, *plan));
  const auto best = static_cast<int>(std::ranges::min_element(times) - times.begin());
  device.note(
      {false, fmt::format("a product of {} takes {:.1f} us by algorithm {} of {}, {:.1f} us by the first",
                          text(problem), static_cast<double>(times[static_cast<size_t>(best)]) / 1e3, best,
                          times.size(), static_cast<double>(times[0]) / 1e3)});
  return best;
}

}  // namespace mtf::cuda
