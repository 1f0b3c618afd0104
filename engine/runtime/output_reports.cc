#include "engine/runtime/output_reports.h"

#include "engine/base/check.h"
#include "engine/runtime/scalar_value.h"

namespace mtf {

OutputReports::OutputReports(Backend& backend, const std::vector<Output>& outputs) : outputs_(outputs) {
  CopySources sources;
  int64_t elements = 0;
  for (const Output& output : outputs) {
    sources.emplace_back(output.data, output.elements * size_of(output.dtype));
    elements += output.elements;
  }
  values_.resize(static_cast<size_t>(elements));
  for (std::unique_ptr<HostCopy>& copy : copies_) copy = backend.make_host_copy(sources, CopyOrder::kInLine);
}

void OutputReports::begin() { copies_[runs_++ % 2]->begin(); }

std::span<const double> OutputReports::values(int runs_ago) {
  MTF_CHECK(runs_ago >= 0 && runs_ago < 2 && runs_ago < runs_, "the values of {} runs ago", runs_ago);
  HostCopy& copy = *copies_[(runs_ - 1 - runs_ago) % 2];
  copy.wait();
  auto next = values_.begin();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    for (int64_t at = 0; at < output.elements; ++at)
      *next++ = scalar_value(output.dtype, copy.part(i) + at * size_of(output.dtype));
  }
  return values_;
}

}  // namespace mtf
