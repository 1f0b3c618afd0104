// OutputReports copies the values of some small outputs to the host after each run of a program. A
// device goes on meanwhile: the values of a run are looked at while the next one computes.
//
//   OutputReports reports(backend, {{DType::kFloat32, 1, loss}});
//   reports.begin();                              // after each run
//   const double loss = reports.values(1)[0];     // of the run before the last
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/dtype.h"

namespace mtf {

class OutputReports {
 public:
  struct Output {
    DType dtype;
    int64_t elements;
    const std::byte* data;  ///< in the memory of the backend
  };
  OutputReports(Backend& backend, const std::vector<Output>& outputs);

  /// Enqueues the copies of a run's values.
  void begin();
  /// The elements of all outputs, one after the other, of the last run (0) or the one before it (1), valid until the next
  /// call. Waits for that run.
  std::span<const double> values(int runs_ago);

 private:
  std::vector<Output> outputs_;
  std::array<std::unique_ptr<HostCopy>, 2> copies_;  ///< run number n uses copy n % 2
  int64_t runs_ = 0;
  std::vector<double> values_;
};

}  // namespace mtf
