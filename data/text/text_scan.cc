#include "data/text/text_scan.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {

TextCounts scan_texts(const TextFiles& files, const BySide<int64_t>& vocabulary_sizes,
                      const TextProgress& progress) {
  constexpr int64_t kReportEvery = 4096, kReportEveryBytes = 1 << 20;
  TextProblems problems;
  TextReader reader(files, vocabulary_sizes, problems);
  const std::vector<Side> sides = files.source().sides();
  TextCounts counts;
  int64_t reported = 0;  // bytes
  for (TextExample example; reader.next(example); ++counts.examples) {
    if (std::ranges::any_of(sides, [&](Side side) { return example[side].empty(); })) ++counts.empty;
    if (!progress) continue;
    const int64_t bytes = reader.bytes_read();
    if (counts.examples % kReportEvery != 0 && bytes - reported < kReportEveryBytes) continue;
    progress(TextStage::kCheck, bytes, reader.bytes());
    reported = bytes;
  }
  counts.blank_lines = reader.blank_lines();
  counts.longest = reader.longest();
  if (problems.empty() && counts.examples == counts.empty) {
    const std::string message = fmt::format("{}: there is no text", fmt::join(files.groups.front(), ", "));
    problems.add({ErrorKind::kData, {}, message, "at least one example", {}});
  }
  problems.throw_if_any();
  return counts;
}

}  // namespace mtf
