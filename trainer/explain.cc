#include "trainer/explain.h"

#include <fmt/format.h>

#include <limits>

#include "engine/runtime/memory_plan.h"
#include "trainer/progress.h"

namespace mtf {
namespace {

void add_cost(const Program& program, const std::vector<Instruction>& instructions, int64_t times,
              ProgramCost& cost) {
  for (const Instruction& instruction : instructions) {
    if (instruction.is_collective()) {
      cost.bytes_sent += times * bytes_sent(program, instruction);
      cost.collectives += times;
    } else if (instruction.kind == InstructionKind::kLocal) {
      std::vector<Shape> inputs, outputs;
      for (const ValueId id : instruction.inputs) inputs.push_back(program.local_shape(id));
      for (const ValueId id : instruction.outputs) outputs.push_back(program.local_shape(id));
      cost.flops += static_cast<double>(times) * instruction.operation->cost(inputs, outputs).flops;
    }
    add_cost(program, instruction.body, times * instruction.count, cost);
  }
}

void print_variables(const Program& program) {
  fmt::print("variables (at rest on a position):\n");
  for (const ProgramVariable& v : program.variables) {
    const Shape slice = slice_shape(v.variable.shape, v.layout, program.mesh);
    const auto bytes = static_cast<double>(slice.size()) * static_cast<double>(size_of(v.variable.dtype));
    fmt::print("  {:<32} {} {:<48} {}\n", v.variable.name, short_name(v.variable.dtype),
               to_string(v.variable.shape, v.layout, program.mesh), bytes_text(bytes));
  }
}

void print_memory(const Program& program, bool replicate) {
  const MemoryPlan plan = plan_memory(program, replicate);
  fmt::print("memory of a position: {} = variables {} + inputs {} + temporaries {}\n",
             bytes_text(static_cast<double>(plan.position_bytes())),
             bytes_text(static_cast<double>(plan.variable_bytes)),
             bytes_text(static_cast<double>(plan.input_bytes)),
             bytes_text(static_cast<double>(plan.temporary_bytes)));
  fmt::print("memory of this process: {}\n", bytes_text(static_cast<double>(plan.process_bytes)));
}

}  // namespace

ProgramCost program_cost(const Program& program) {
  ProgramCost cost;
  add_cost(program, program.instructions, 1, cost);
  return cost;
}

void explain(const Session& session, Diagnostics& diagnostics) {
  const int64_t steps = planned_steps(session).value_or(std::numeric_limits<int64_t>::max());
  const std::optional<TrainStep> step =
      build_step(session, train_step_options(session.config, session.layouts, steps), diagnostics);
  diagnostics.throw_if_errors();
  const Program program = compile(session, *step->graph);
  fmt::print("mesh {}: {} positions\n", program.mesh.rank() == 0 ? "-" : program.mesh.to_string(),
             program.mesh.size());
  print_variables(program);
  print_memory(program, session.config.run.check_replicas);
  const ProgramCost cost = program_cost(program);
  fmt::print("a training step on a position: {:.4g} MFLOP in contractions, {} sent in {} collectives\n",
             cost.flops / 1e6, bytes_text(static_cast<double>(cost.bytes_sent)), cost.collectives);
  if (session.config.explain.tensors) fmt::print("\n{}", program.to_string());
  for (const Problem& warning : diagnostics.warnings()) fmt::print("warning: {}\n", warning.to_string());
  for (const std::string& warning : step->warnings) fmt::print("warning: {}\n", warning);
  for (const std::string& note : diagnostics.notes()) fmt::print("note: {}\n", note);
}

}  // namespace mtf
