#include "engine/runtime/output_reports.h"

#include "engine/base/check.h"
#include "engine/runtime/scalar_value.h"

namespace mtf {

OutputReports::OutputReports(Backend& backend, const std::vector<Output>& outputs) : values_(outputs.size()) {
  CopySources sources;
  for (const Output& output : outputs) {
    dtypes_.push_back(output.dtype);
    sources.emplace_back(output.data, size_of(output.dtype));
  }
  for (std::unique_ptr<HostCopy>& copy : copies_) copy = backend.make_host_copy(sources, CopyOrder::kInLine);
}

void OutputReports::begin() { copies_[runs_++ % 2]->begin(); }

std::span<const double> OutputReports::values(int runs_ago) {
  MTF_CHECK(runs_ago >= 0 && runs_ago < 2 && runs_ago < runs_, "the values of {} runs ago", runs_ago);
  HostCopy& copy = *copies_[(runs_ - 1 - runs_ago) % 2];
  copy.wait();
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = scalar_value(dtypes_[i], copy.part(i));
  return values_;
}

}  // namespace mtf
