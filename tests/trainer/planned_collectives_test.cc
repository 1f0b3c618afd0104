// Tests that a collective is planned among the processes that it joins as it is among all processes of the run.
#include "engine/runtime/planned_collectives.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/comm/device/device_plan.h"
#include "engine/comm/process/sent_bytes.h"
#include "trainer/session/session.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

Session open_model(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "vars={num_layers: 2, d_model: 32, d_ff: 64, num_heads: 4, d_kv: 8, max_length: 16}",
      "data={train: {type: text, path: none.txt}, vocabulary: {type: sentencepiece, size: 256}, "
      "sequence_length: 16}",
      "run.mode=explain", "train.batch_size=16", "run.model_dir=never_written"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Diagnostics diagnostics;
  Session session = open_session({MTF_SOURCE_DIR "/configs/models/lm_base.yaml"}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

/// Calls `visit` with all collectives of a block.
template <class Visit>
void for_each_collective(const std::vector<Instruction>& block, const Visit& visit) {
  for (const Instruction& instruction : block) {
    for_each_collective(instruction.body(), visit);
    if (instruction.is_collective()) visit(instruction);
  }
}

/// Expects the same messages and scratch memory in each process; returns the number of collectives between processes.
int64_t expect_same_plans(const Program& program, bool replicate) {
  const auto processes = static_cast<int>(program.mesh.size());
  int64_t count = 0;
  for (int process = 0; process < processes; ++process) {
    const HostedMesh hosted(program.mesh, {processes, process});
    RemoteGroupPlans all(hosted);
    PlannedCollectives collectives(hosted, replicate);
    for_each_collective(program.instructions, [&](const Instruction& instruction) {
      const auto planned = collectives.of(program, instruction);
      ASSERT_EQ(planned.has_value(), crosses_processes(program, instruction, hosted, replicate));
      if (!planned) return;
      ++count;
      const std::vector<RemotePart> parts = planned_parts(program, instruction, all, replicate);
      EXPECT_EQ(sent_bytes(planned->parts, planned->process, planned->processes),
                sent_bytes(parts, process, processes));
      const DevicePlan few = plan_on_device(planned->parts, planned->process, planned->processes),
                       whole = plan_on_device(parts, process, processes);
      EXPECT_EQ(few.bytes_sent, whole.bytes_sent) << name_of(instruction);
      EXPECT_EQ(few.scratch_bytes, whole.scratch_bytes) << name_of(instruction);
      EXPECT_EQ(few.is_by_library, whole.is_by_library) << name_of(instruction);
      EXPECT_EQ(few.rounds.size(), whole.rounds.size()) << name_of(instruction);
    });
  }
  return count;
}

TEST(PlannedCollectives, AreThoseOfAllProcesses) {
  const std::vector<std::vector<std::string>> layouts = {
      {"mesh=rows:2;cols:2;more:2", "layout=batch:rows;d_ff:cols;heads:cols;vocab:cols",
       "parameter_layout={d_model: [rows, more]}"},
      {"mesh=rows:2;cols:4", "layout={batch: [rows, cols]}", "optimizer_layout=d_ff:cols;heads:rows"},
      {"mesh=rows:2;cols:2", "layout=batch:rows;length:cols"},
      {"mesh={stages: 2, rows: 2, cols: 2}", "layout={layers: stages, batch: rows, d_ff: cols, heads: cols}",
       "train.microbatches=2"},
  };
  for (const std::vector<std::string>& arguments : layouts) {
    for (const bool replicate : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", fmt::join(arguments, " "), replicate));
      const Session session = open_model(arguments);
      const TrainStepOptions options = train_step_options(session.config, session.layouts, 3);
      const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
      const Program program = partition(*step.graph, session.layouts, {.asynchronous = true});
      EXPECT_GT(expect_same_plans(program, replicate), 10);
    }
  }
}

}  // namespace
}  // namespace mtf::testing
