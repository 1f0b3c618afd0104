#include <utility>
#include <vector>

#include "engine/spmd/passes/passes.h"

namespace mtf {

Program drop_unread_variables(Program program) {
  std::vector<ProgramVariable> kept;
  std::vector<int> places;
  for (ProgramVariable& variable : program.variables) {
    places.push_back(static_cast<int>(kept.size()));
    if (variable.value != kNoValue) kept.push_back(std::move(variable));
  }
  for (Value& value : program.values) {
    if (value.storage == Value::Storage::kVariable) value.index = places[static_cast<size_t>(value.index)];
  }
  program.variables = std::move(kept);
  return program;
}

}  // namespace mtf
