#include "trainer/train/counter_lines.h"

#include <fmt/format.h>

#include <sstream>

#include "trainer/report/progress.h"

namespace mtf {

std::vector<std::string> counter_lines(const Counters& own, Communicator& communicator) {
  if (own.runs == 0) return {};
  const auto runs = static_cast<double>(own.runs), processes = static_cast<double>(communicator.processes());
  const std::string numbers = fmt::format("{} {} {}", own.flops_per_position / runs,
                                          own.bytes_per_position / runs, own.bytes_to_processes / runs);
  double flops = 0, bytes = 0, to_processes = 0;
  for (const std::string& text : all_gather(communicator, numbers, "counters")) {
    std::istringstream stream(text);
    double of_flops = 0, of_bytes = 0, of_processes = 0;
    stream >> of_flops >> of_bytes >> of_processes;
    flops += of_flops / processes;
    bytes += of_bytes / processes;
    to_processes += of_processes / processes;
  }
  std::vector<std::string> lines{
      fmt::format("counted in a step on a position: {:.4f} MFLOP in contractions, {} sent", flops / 1e6,
                  bytes_text(bytes))};
  if (processes > 1)
    lines.push_back(fmt::format("sent by a process to others in a step: {}", bytes_text(to_processes)));
  return lines;
}

}  // namespace mtf
