#include "trainer/decode/group_runs.h"

#include <memory>

namespace mtf {

void for_each_group(
    const Session& session, const std::vector<WeightGroup>& groups, const std::optional<LineFiles>& files,
    const std::string& output, const std::function<void(const WeightGroup& group)>& load,
    const std::function<void(const WeightGroup& group, PairedLines* lines, TextOutput* output)>& run) {
  std::unique_ptr<PairedLines> lines;
  const auto open = [&] {
    if (files) lines = std::make_unique<PairedLines>(session.processes->communicator(), *files);
  };
  if (files) {
    // Process 0 may read for longer than the others would wait in a collective.
    session.processes->first_then_others("the input lines", [&] {
      if (session.processes->is_first()) check_lines(*files);
    });
  }
  open();
  for (const WeightGroup& group : groups) {
    load(group);
    if (!lines) open();
    std::optional<TextOutput> texts;
    if (session.processes->is_first())
      texts.emplace(output, newest_step(group), [&] {
        if (lines) lines->others_wait();
      });
    run(group, lines.get(), texts ? &*texts : nullptr);
    if (texts) texts->close();
    lines.reset();
  }
}

}  // namespace mtf
