#include "trainer/train/train.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/newest_checkpoint.h"
#include "trainer/session/open_data.h"
#include "trainer/session/same_run.h"
#include "trainer/session/stored_model.h"
#include "trainer/train/trainer.h"

namespace mtf {
namespace {

/// Returns what the processes, if they are several, must have in common of the weights that the run begins with.
std::vector<std::pair<std::string, std::string>> start_of(const Session& session, const TrainPlan& plan) {
  if (session.processes->size() == 1) return {};
  const Config& config = session.config;
  const bool goes_on = plan.continuation && plan.continuation->checkpoint;
  std::vector<std::pair<std::string, std::string>> fields{
      {"checkpoint that it goes on from",
       goes_on ? fmt::format("step {}", plan.continuation->checkpoint->step) : "none"},
      {"choice at a damaged checkpoint", goes_back_behind_damage(config) ? "the one before" : "failure"}};
  const config::Path& init = config.checkpoint.init.path;
  if (!goes_on && !init.empty())
    fields.emplace_back("weights of checkpoint.init", weights_fingerprint(checkpoint_at(init)));
  return fields;
}

}  // namespace

int train(Session& session, Diagnostics& diagnostics) {
  // The plan reads where the run goes on: the process that has trained in the directory must have ended.
  session.processes->first_then_others("the lock of run.model_dir", [&] {
    if (!diagnostics.has_errors()) hold_directory(session);
  });
  TrainPlan plan = make_train_plan(session, diagnostics);
  check_same_run(session, programs_of(plan), start_of(session, plan), examples_of(plan.evaluation_sets));
  check_model_dir_is_shared(session.config, *session.processes);
  Trainer trainer(session, std::move(plan));
  trainer.report_start(diagnostics);
  return trainer.run();
}

}  // namespace mtf
