#include "trainer/train/layer_reports.h"

namespace mtf {

LayerReports layer_reports(const Program& program, const StepRunner& runner) {
  LayerReports reports;
  if (!runner.has_outputs()) return reports;
  for (const auto& [name, id] : program.outputs) {
    if (!name.starts_with("loss/") && !name.starts_with("report/")) continue;
    const Shape& shape = program.values[id].shape;
    if (shape.rank() == 0) {
      reports.numbers.emplace_back(name, runner.output(name));
    } else {
      reports.lists.push_back(metric_list(name, runner.elements(name), shape[shape.rank() - 1].size));
    }
  }
  return reports;
}

}  // namespace mtf
