#include "engine/runtime/instruction_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {

std::string instruction_text(const Program& program, const Instruction& instruction) {
  const auto are_blanks = [](char a, char b) { return a == ' ' && b == ' '; };
  std::string text = to_string(program, instruction);
  text.erase(std::ranges::unique(text, are_blanks).begin(), text.end());
  return text;
}

Error located_error(const Program& program, const Instruction& instruction, std::string_view device,
                    const Error& error) {
  const Problem& problem = error.problems().front();
  const std::string& layer = instruction.provenance.path();
  return {problem.kind,
          fmt::format("{} failed in {}{}: {}", device, instruction_text(program, instruction),
                      layer.empty() ? "" : fmt::format(" of layer {}", layer), problem.message),
          problem.hint};
}

}  // namespace mtf
