// What a simulation says, for people and for programs.
#include <fmt/format.h>

#include <cmath>

#include "engine/base/counted.h"
#include "trainer/costs/prediction.h"
#include "trainer/explain/table.h"
#include "trainer/report/progress.h"
#include "trainer/simulate/simulate.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kRight = TextTable::kRight;

/// Returns "1 machine" or "64 machines".
std::string count_text(int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", with_thousands(static_cast<double>(count)), what, count == 1 ? "" : "s");
}
std::string percent_text(double share) { return fmt::format("{:.2f} %", 100 * share); }
std::string percent_text(const ReplicaRange& range) {
  if (range.low == range.high) return percent_text(range.mean);
  return fmt::format("{} ({:.2f} to {:.2f} %)", percent_text(range.mean), 100 * range.low, 100 * range.high);
}
std::string duration_text(const ReplicaRange& range) {
  if (range.low == range.high) return mtf::duration_text(range.mean);
  return fmt::format("{} ({} to {})", mtf::duration_text(range.mean), mtf::duration_text(range.low),
                     mtf::duration_text(range.high));
}
double share_of(double part, const RunOutcome& mean) {
  return mean.seconds() > 0 ? part / mean.seconds() : 0;
}
double seconds_between(const SimulatedRun& simulated, int64_t interval) {
  return static_cast<double>(interval) * simulated.run.step;
}
std::string interval_text(const SimulatedRun& simulated, int64_t interval) {
  if (interval == simulated.run.steps) return "only at the end";
  return fmt::format("every {} ({})", count_text(interval, "step"),
                     mtf::duration_text(seconds_between(simulated, interval)));
}

std::string step_lines(const SimulatedRun& simulated) {
  const SimulatedStep& step = simulated.step;
  std::string text = fmt::format("  step        {}", predicted_time_text(step.seconds));
  if (step.stragglers == 0 && step.slow_link.empty()) return text + "\n";
  text += fmt::format(", undisturbed {}", predicted_time_text(step.undisturbed));
  if (step.slow_share > 0 && step.slow_share < 1)
    text += fmt::format("; {} of the steps have a straggler and take {}", percent_text(step.slow_share),
                        predicted_time_text(step.processes.seconds));
  TextTable table({{"            process"},
                   {"", kRight},
                   {"computing", kRight},
                   {"waiting", kRight},
                   {"sending", kRight}});
  const auto add = [&](const std::string& name, const ProcessTimes& times) {
    if (times.count == 0) return;
    table.row({"            " + name, with_thousands(static_cast<double>(times.count)),
               predicted_time_text(times.computing), predicted_time_text(times.waiting),
               predicted_time_text(times.sending)});
  };
  add("stragglers", step.processes.stragglers);
  add("slow link: " + step.slow_link, step.processes.slow_link);
  add("others", step.processes.others);
  return text + "\n" + table.to_string();
}

std::string checkpoint_lines(const SimulatedRun& simulated) {
  const SimulatedCheckpoint& checkpoint = simulated.checkpoint;
  const LongRun& run = simulated.run;
  std::string text = fmt::format("  checkpoint  {}, {} by the first process; ",
                                 bytes_text(static_cast<double>(checkpoint.bytes)),
                                 bytes_text(static_cast<double>(checkpoint.process_bytes)));
  if (run.background) {
    text += fmt::format("training stands still for {}, written {} later in the background\n",
                        predicted_time_text(run.pause), mtf::duration_text(run.write));
  } else {
    text += fmt::format("training stands still for {}\n", mtf::duration_text(run.overhead()));
  }
  return text;
}

std::string failure_line(const SimulatedRun& simulated) {
  const LongRun& run = simulated.run;
  if (!std::isfinite(run.mean_time_between_failures)) return "  failures    none\n";
  return fmt::format(
      "  failures    one in {}, then {} until training goes on, {} of it reading the checkpoint\n",
      mtf::duration_text(run.mean_time_between_failures), mtf::duration_text(run.restart),
      mtf::duration_text(simulated.checkpoint.read));
}

std::string goodput_lines(const SimulatedRun& simulated) {
  const RunStatistics& runs = simulated.runs;
  std::string text = fmt::format("  goodput     {} with a checkpoint {}\n", percent_text(runs.goodput),
                                 interval_text(simulated, simulated.run.interval));
  if (!runs.are_complete) return text + "              the run makes hardly any progress, and was given up\n";
  text += fmt::format("              wall time {}, {:.2f} times that of the undisturbed steps\n",
                      duration_text(runs.seconds), runs.seconds.mean / simulated.undisturbed());
  text += fmt::format("              lost work {}, saving {}, restarts {}; {:.1f} failures\n",
                      percent_text(share_of(runs.mean.lost, runs.mean)),
                      percent_text(share_of(runs.mean.saving, runs.mean)),
                      percent_text(share_of(runs.mean.restarting, runs.mean)), runs.failures);
  return text;
}

std::string best_lines(const SimulatedRun& simulated) {
  const LongRun& run = simulated.run;
  if (!std::isfinite(run.mean_time_between_failures)) return {};
  if (!simulated.best) return "  best        none: runs with other intervals were given up, too\n";
  std::string text = fmt::format(
      "  best        goodput {} with a checkpoint {}; the formula of Young and Daly: {}\n",
      percent_text(simulated.best->runs.goodput), interval_text(simulated, simulated.best->interval),
      mtf::duration_text(young_daly_seconds(run)));
  TextTable table({{"            steps", kRight},
                   {"time", kRight},
                   {"goodput", kRight},
                   {"5 %", kRight},
                   {"95 %", kRight},
                   {"lost", kRight},
                   {"saving", kRight},
                   {"restarts", kRight},
                   {"wall time", kRight},
                   {""}});
  for (const IntervalTrial& trial : simulated.around) {
    const RunStatistics& runs = trial.runs;
    std::string note = trial.interval == run.interval ? "checkpoint.every" : "";
    if (trial.interval == simulated.best->interval) note = note.empty() ? "best" : "best, " + note;
    if (!runs.are_complete) note += note.empty() ? "given up" : ", given up";
    table.row({with_thousands(static_cast<double>(trial.interval)),
               mtf::duration_text(seconds_between(simulated, trial.interval)),
               percent_text(runs.goodput.mean), percent_text(runs.goodput.low),
               percent_text(runs.goodput.high), percent_text(share_of(runs.mean.lost, runs.mean)),
               percent_text(share_of(runs.mean.saving, runs.mean)),
               percent_text(share_of(runs.mean.restarting, runs.mean)), mtf::duration_text(runs.seconds.mean),
               note});
  }
  return text + table.to_string();
}

Json times_json(const ProcessTimes& times) {
  return {{"count", times.count},
          {"computing", times.computing},
          {"waiting", times.waiting},
          {"sending", times.sending}};
}

Json range_json(const ReplicaRange& range) {
  return {{"mean", range.mean}, {"low", range.low}, {"high", range.high}};
}

Json trial_json(int64_t interval, const RunStatistics& runs) {
  return {{"interval", interval},
          {"complete", runs.are_complete},
          {"goodput", range_json(runs.goodput)},
          {"seconds", range_json(runs.seconds)},
          {"useful", runs.mean.useful},
          {"lost", runs.mean.lost},
          {"saving", runs.mean.saving},
          {"restarting", runs.mean.restarting},
          {"failures", runs.failures}};
}

}  // namespace

std::string to_text(const SimulatedRun& simulated) {
  std::string text = fmt::format(
      "long run of {} on {}", count_text(simulated.run.steps, "step"),
      simulated.processes == 1
          ? "1 process"
          : fmt::format("{} processes", with_thousands(static_cast<double>(simulated.processes))));
  text += fmt::format(" of {}", count_text(simulated.machines, "machine"));
  if (std::isfinite(simulated.run.mean_time_between_failures))
    text += fmt::format(": means of {}, 5 to 95 %", count_text(simulated.replicas, "simulated run"));
  return text + "\n" + step_lines(simulated) + checkpoint_lines(simulated) + failure_line(simulated) +
         goodput_lines(simulated) + best_lines(simulated);
}

Json to_json(const SimulatedRun& simulated) {
  const SimulatedStep& step = simulated.step;
  const SimulatedCheckpoint& checkpoint = simulated.checkpoint;
  const LongRun& run = simulated.run;
  const bool fails = std::isfinite(run.mean_time_between_failures);
  Json result{{"processes", simulated.processes},
              {"machines", simulated.machines},
              {"steps", run.steps},
              {"step",
               {{"seconds", step.seconds},
                {"undisturbed", step.undisturbed},
                {"stragglers", step.stragglers},
                {"slow_share", step.slow_share},
                {"slow_link", step.slow_link.empty() ? Json() : Json(step.slow_link)},
                {"processes",
                 {{"stragglers", times_json(step.processes.stragglers)},
                  {"slow_link", times_json(step.processes.slow_link)},
                  {"others", times_json(step.processes.others)}}}}},
              {"checkpoint",
               {{"bytes", checkpoint.bytes},
                {"process_bytes", checkpoint.process_bytes},
                {"read_bytes", checkpoint.read_bytes},
                {"copy", checkpoint.copy},
                {"write", checkpoint.write},
                {"read", checkpoint.read},
                {"pause", run.overhead()},
                {"background", run.background}}},
              {"mean_time_between_failures", fails ? Json(run.mean_time_between_failures) : Json()},
              {"restart", run.restart},
              {"replicas", simulated.replicas}};
  result.update(trial_json(run.interval, simulated.runs));
  result["young_daly"] = fails ? Json(young_daly_seconds(run)) : Json();
  result["best"] = simulated.best ? trial_json(simulated.best->interval, simulated.best->runs) : Json();
  result["around"] = Json::array();
  for (const IntervalTrial& trial : simulated.around)
    result["around"].push_back(trial_json(trial.interval, trial.runs));
  return result;
}

}  // namespace mtf
