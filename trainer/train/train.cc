#include "trainer/train/train.h"

#include <fmt/format.h>

#include "trainer/session/open_data.h"
#include "trainer/session/same_run.h"
#include "trainer/train/trainer.h"

namespace mtf {
namespace {

/// Returns the checkpoint from which the run resumes: "step N" or "none".
std::string start_of(const TrainPlan& plan) {
  const bool goes_on = plan.continuation && plan.continuation->checkpoint;
  return goes_on ? fmt::format("step {}", plan.continuation->checkpoint->step) : "none";
}

}  // namespace

int train(Session& session, Diagnostics& diagnostics) {
  // The plan reads where the run goes on: the process that has trained in the directory must have ended.
  session.processes->first_then_others("the lock of run.model_dir", [&] {
    if (!diagnostics.has_errors()) hold_directory(session);
  });
  TrainPlan plan = make_train_plan(session, diagnostics);
  const bool goes_back = goes_back_behind_damage(session.config);
  check_same_run(session, programs_of(plan),
                 {{"checkpoint that it goes on from", start_of(plan)},
                  {"choice at a damaged checkpoint", goes_back ? "the one before" : "failure"}});
  check_model_dir_is_shared(session.config, *session.processes);
  Trainer trainer(session, std::move(plan));
  trainer.report_start(diagnostics);
  return trainer.run();
}

}  // namespace mtf
