// What a search for a layout found, for people.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/costs/prediction.h"
#include "trainer/explain/table.h"
#include "trainer/plan/choose_layout.h"
#include "trainer/plan/plain.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

std::string rules_text(const PlannedLayout& planned, bool with_mesh) {
  const FoundLayout& found = planned.found;
  std::string text;
  if (with_mesh && !found.mesh.axes.empty())
    text = "mesh " + config::to_flow_yaml(config::dump(found.mesh)) + " ";
  text += found.layout.empty() ? "{}" : config::to_flow_yaml(config::dump(found.layout));
  if (!found.parameter_layout.empty())
    text += " parameters " + config::to_flow_yaml(config::dump(found.parameter_layout));
  if (!found.optimizer_layout.empty())
    text += " optimizer " + config::to_flow_yaml(config::dump(found.optimizer_layout));
  if (found.pipeline && found.pipeline->rounds > 1)
    text += fmt::format(" in {} rounds", found.pipeline->rounds);
  if (planned.cost.recompute != Recompute(RecomputeWord::kNone) && found.train.recompute)
    text += " recompute " + recompute_text(planned.cost.recompute);
  if (planned.cost.microbatches > 1 && found.train.microbatches)
    text += fmt::format(" in {} microbatches", planned.cost.microbatches);
  return text;
}

std::string why_not(const LayoutPlan& plan, const PlannedLayout& other) {
  const PlannedLayout& best = plan.layouts.front();
  const LayoutCost& cost = other.cost;
  if (!cost.fits) {
    const bool is_tried = other.found.train.recompute || other.found.train.microbatches;
    return (is_tried ? "takes longer, or more memory than " : "more memory than ") + plan.memory.source;
  }
  const double computing = cost.computing - best.cost.computing, waiting = cost.waiting - best.cost.waiting;
  if (cost.seconds <= best.cost.seconds) {
    const double faster = 1 - cost.seconds / best.cost.seconds;
    std::string text = faster < 5e-5 ? "as fast" : fmt::format("{:.2f} % faster", 100 * faster);
    const int64_t more = rule_count(other.found) - rule_count(best.found);
    if (more > 0) return text + fmt::format(", {} more rule{}", more, more == 1 ? "" : "s");
    return text + (cost.bytes > best.cost.bytes ? ", more memory" : "");
  }
  if (computing >= waiting) return fmt::format("computes {} longer", predicted_time_text(computing));
  return fmt::format("waits {} longer", predicted_time_text(waiting));
}

std::string proof_text(const LayoutPlan& plan) {
  const LayoutSearchResult& search = plan.search;
  if (!search.best().cost.fits)
    return fmt::format("none of the {} fits into {}: this one takes the least memory", search.evaluations,
                       plan.memory.source);
  if (search.is_proven() && !plan.are_cut) {
    const bool is_fastest = std::ranges::none_of(plan.layouts, [&](const PlannedLayout& other) {
      return other.cost.fits && other.cost.seconds < search.best().cost.seconds;
    });
    return fmt::format("no other layout of these dimensions{} is predicted to be {}faster",
                       plan.splits_at_rest ? ", with any split of variables that was tried," : "",
                       is_fastest ? "" : fmt::format("more than {:g} % ", 100 * kAboutEqual));
  }
  return fmt::format("{}: another one may be faster by {:.1f} %",
                     plan.is_stopped ? "stopped" : "the time was up (layout_search.time_limit)",
                     100 * search.gap);
}

}  // namespace

std::string to_string(const LayoutPlan& plan, int64_t most) {
  const LayoutSearchResult& search = plan.search;
  std::string text =
      fmt::format("layout search: {} layouts evaluated on {} mesh{}, {} branches, {}\n  {}\n\n",
                  search.evaluations, plan.meshes, plan.meshes == 1 ? "" : "es", search.nodes,
                  predicted_time_text(search.seconds), proof_text(plan));
  const FoundLayout& best = plan.layouts.front().found;
  if (!best.mesh.axes.empty())
    text += fmt::format("mesh: {}\n", config::to_flow_yaml(config::dump(best.mesh)));
  for (const auto& [section, rules] :
       {std::pair("layout", &best.layout), std::pair("parameter_layout", &best.parameter_layout),
        std::pair("optimizer_layout", &best.optimizer_layout)}) {
    if (!rules->empty()) text += fmt::format("{}: {}\n", section, config::to_flow_yaml(config::dump(*rules)));
  }
  if (best.pipeline)
    text += fmt::format("pipeline: {}\n", config::to_flow_yaml(config::dump(*best.pipeline)));
  const config::Node train = train_section(best.train);
  if (!train.entries().empty()) text += fmt::format("train: {}\n", config::to_flow_yaml(train));
  TextTable table({{"layout"},
                   {"step", TextTable::kRight},
                   {"computing", TextTable::kRight},
                   {"waiting", TextTable::kRight},
                   {"memory", TextTable::kRight},
                   {"sent", TextTable::kRight},
                   {"why not"}});
  if (plan.exact < std::ssize(plan.layouts))
    text += "\n(what is marked with ~ is carried on from models with two and three of the equal blocks)\n";
  const size_t shown = std::min(plan.layouts.size(), static_cast<size_t>(most) + 1);
  for (size_t i = 0; i < shown; ++i) {
    const LayoutCost& cost = plan.layouts[i].cost;
    const std::string about = static_cast<int64_t>(i) < plan.exact ? "" : "~";
    table.row({rules_text(plan.layouts[i], plan.meshes > 1), about + predicted_time_text(cost.seconds),
               predicted_time_text(cost.computing), predicted_time_text(cost.waiting),
               bytes_text(static_cast<double>(cost.bytes)), bytes_text(cost.bytes_sent),
               i == 0 ? "" : why_not(plan, plan.layouts[i])});
  }
  return text + "\n" + table.to_string() + "\n";
}

}  // namespace mtf
