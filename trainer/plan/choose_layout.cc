#include "trainer/plan/choose_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/counted.h"
#include "engine/base/signals.h"
#include "engine/spmd/partition/unit_places.h"
#include "trainer/costs/prediction.h"
#include "trainer/plan/plain.h"
#include "trainer/report/progress.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// `mesh: {data: 8}, layout: {batch: data}`: what is set.
std::string found_text(const FoundLayout& found) {
  config::Node tree = config::dump(found).without("train");
  if (!found.pipeline) tree = tree.without("pipeline");
  const config::Node train = train_section(found.train);
  if (!train.entries().empty()) tree = tree.with({"train", {}, train});
  std::string text = config::to_flow_yaml(tree);
  return text.substr(1, text.size() - 2);
}

std::vector<std::string> auto_sections(const Config& config) {
  std::vector<std::string> sections;
  if (config.mesh && config.mesh->is_auto) sections.push_back("mesh");
  if (config.layout.is_auto) sections.push_back("layout");
  if (config.parameter_layout.is_auto) sections.push_back("parameter_layout");
  if (config.optimizer_layout.is_auto) sections.push_back("optimizer_layout");
  return sections;
}

/// The rules, with the place of the section in which `auto` stands.
LayoutRules with_mark(const LayoutRules& rules, const Mark& mark) {
  std::vector<LayoutRule> result = rules.rules();
  for (LayoutRule& rule : result) {
    if (!rule.mark.known()) rule.mark = mark;
  }
  return LayoutRules(std::move(result));
}

void apply(const FoundLayout& found, Session& session) {
  Config& config = session.config;
  if (config.mesh || !found.mesh.axes.empty()) config.mesh = found.mesh;
  config.layout = with_mark(found.layout, config.mark("layout"));
  config.parameter_layout = with_mark(found.parameter_layout, config.mark("parameter_layout"));
  config.optimizer_layout = with_mark(found.optimizer_layout, config.mark("optimizer_layout"));
  if (found.pipeline) config.pipeline = *found.pipeline;
  session.layouts = make_layouts(config);
  if (found.train.recompute || found.train.microbatches)
    session.found_recompute = EarlierRecompute{
        .recompute = found.train.recompute.value_or(config.train.recompute),
        .microbatches = found.train.microbatches.value_or(config.train.microbatches.value.value_or(1)),
        .reason = "as found with the layout"};
}

bool includes(const LayoutRules& rules, const LayoutRules& given) {
  return std::ranges::all_of(given.rules(), [&](const LayoutRule& rule) {
    const LayoutRule* other = rules.find(rule.dimension);
    return other && other->mesh_dimensions == rule.mesh_dimensions;
  });
}

/// What the run in run.model_dir has found before, if it fits what is given now.
std::optional<FoundLayout> kept_layout(const Session& session) {
  const Config& config = session.config;
  const std::string path = in_model_dir(config, "config.yaml"), text = read_text(path);
  if (text.empty()) return std::nullopt;
  Diagnostics of_file;  // of a damaged file the run speaks when it goes on
  const Config old = load_resolved(text, path, of_file);
  if (of_file.has_errors() || searches_layout(old)) return std::nullopt;
  const Mesh& mesh = session.layouts.mesh;
  int64_t positions = 1;
  if (old.mesh) {
    for (const auto& axis : old.mesh->axes) positions *= axis.size.value_or(1);
  }
  if (positions != mesh.size()) return std::nullopt;
  if (!config.mesh || !config.mesh->is_auto) {
    std::vector<Dimension> sizes;
    if (old.mesh) {
      for (const auto& axis : old.mesh->axes) sizes.push_back({axis.name, axis.size.value_or(1)});
    }
    if (Shape(std::move(sizes)) != mesh.shape()) return std::nullopt;
  }
  FoundLayout found{.mesh = old.mesh.value_or(config::MeshSizes()),
                    .layout = old.layout,
                    .parameter_layout = old.parameter_layout,
                    .optimizer_layout = old.optimizer_layout};
  if (old.layout.find(kLayers) && !config.layout.find(kLayers)) found.pipeline = old.pipeline;
  if (is_auto(config.train.recompute) && !is_auto(old.train.recompute))
    found.train.recompute = old.train.recompute;
  if (!config.train.microbatches.value) found.train.microbatches = old.train.microbatches.value;
  const auto keeps = [](const AutoLayout& now, LayoutRules& kept) {
    if (now.is_auto) return includes(kept, now);
    kept = now;
    return true;
  };
  if (!keeps(config.layout, found.layout) || !keeps(config.parameter_layout, found.parameter_layout) ||
      !keeps(config.optimizer_layout, found.optimizer_layout))
    return std::nullopt;
  return found;
}

/// The batch must be known before the layout.
void check_batch_size(const Config& config, Diagnostics& diagnostics) {
  const auto* relative = std::get_if<RelativeBatchSize>(&config.train.batch_size);
  if (relative == nullptr || relative->tokens || !config.layout.is_auto || config.layout.find(kBatch)) return;
  diagnostics.error(
      config.mark("train.batch_size"),
      fmt::format("`train.batch_size` in {} per replica depends on `layout`, which is still to be found",
                  relative->per_replica ? "examples" : "tokens"),
      relative->per_replica ? "the number of examples in all" : "`{tokens: N}`, of the whole batch");
}

/// layout_search.memory_limit holds for what is found, of which explain only warns. Other limits are checked with the plan of
/// the whole run.
void check_limit(const Config& config, const LayoutPlan& plan, Diagnostics& diagnostics) {
  const LayoutCost& cost = plan.layouts.front().cost;
  if (cost.fits || !plan.memory.position) return;
  const std::string least = bytes_text(static_cast<double>(cost.bytes));
  const std::string message =
      fmt::format("none of {} fits into {} of memory for a position ({}): the smallest takes {}",
                  counted(plan.search.evaluations, "layout"),
                  bytes_text(static_cast<double>(*plan.memory.position)), plan.memory.source, least);
  const Mark mark = config.mark(plan.memory.source);
  if (config.run.mode != RunMode::kExplain)
    throw Error(ErrorKind::kConfig, mark, message, fmt::format("at least {}, or a larger mesh", least));
  diagnostics.warning(mark, message);
}

}  // namespace

config::Node train_section(const FoundTraining& found) {
  config::Node section = config::dump(found);
  if (!found.recompute) section = section.without("recompute");
  if (!found.microbatches) section = section.without("microbatches");
  return section;
}

void describe(config::Visitor& visit, FoundTraining& found) {
  visit("recompute", found.recompute, "");
  visit("microbatches", found.microbatches, "");
}

void describe(config::Visitor& visit, FoundLayout& found) {
  visit("mesh", found.mesh, "");
  visit("layout", found.layout, "");
  visit("parameter_layout", found.parameter_layout, "");
  visit("optimizer_layout", found.optimizer_layout, "");
  visit("pipeline", found.pipeline, "");
  visit("train", found.train, "");
}

std::optional<LayoutPlan> choose_layout(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (!searches_layout(config)) return std::nullopt;
  const std::string sections = fmt::format("{}", fmt::join(auto_sections(config), ", "));
  if (!diagnostics.has_errors()) check_batch_size(config, diagnostics);
  diagnostics.throw_if_errors();
  if (config.run.mode != RunMode::kExplain) {
    if (const std::optional<FoundLayout> kept = kept_layout(session)) {
      diagnostics.note(fmt::format("{} auto: as the run has it, {}", sections, found_text(*kept)));
      apply(*kept, session);
      return std::nullopt;
    }
  }
  if (!has_training_step(config.run.mode)) {
    throw Error(ErrorKind::kConfig, config.mark(auto_sections(config).front()),
                fmt::format("`auto` is found by the training step, and {} holds no run of {} positions",
                            config.run.model_dir.text, session.layouts.mesh.size()),
                "the run's config.yaml, or rules");
  }
  // Without a link between processes all that they send would be free.
  cost_model_of(config, session.layouts.mesh, !session.backend->is_host(), diagnostics);
  diagnostics.throw_if_errors();
  std::optional<LayoutPlan> plan;
  const std::string text = session.processes->made_once("layout", [&] {
    const StopSignals signals;
    plan = plan_layout(session, {.seconds = config.layout_search.time_limit.seconds,
                                 .stop = [] { return StopSignals::received() != 0; }});
    return config::to_yaml(config::dump(plan->layouts.empty() ? FoundLayout() : plan->layouts.front().found));
  });
  if (plan && plan->layouts.empty()) {
    const LayoutCosts costs(session, {});
    check_layouts(costs.step(), session.layouts, diagnostics);
    check_pipeline(costs.step(), session.layouts, diagnostics);
    if (!diagnostics.has_errors()) build_evaluation(session, diagnostics);
    diagnostics.throw_if_errors();
    throw Error(ErrorKind::kConfig, config.mark("layout"),
                "no layout of the step is legal with the rules that are given", "leave some of them out");
  }
  if (plan) check_limit(config, *plan, diagnostics);
  Diagnostics of_text;
  const auto found = config::parse<FoundLayout>(config::load_text(text, "layout", {}, of_text), of_text);
  of_text.throw_if_errors();
  apply(found, session);
  std::string note = fmt::format("{} auto: {}", sections, found_text(found));
  if (plan) {
    const LayoutCost& cost = plan->layouts.front().cost;
    note += fmt::format("; {} a step predicted, {} of memory for a position; {} layouts evaluated in {}{}",
                        duration_text(cost.seconds), bytes_text(static_cast<double>(cost.bytes)),
                        plan->search.evaluations, duration_text(plan->search.seconds),
                        plan->search.is_proven() && !plan->are_cut && cost.fits
                            ? fmt::format(", none is more than {:g} % faster", 100 * kAboutEqual)
                            : "");
  }
  diagnostics.note(note);
  return plan;
}

}  // namespace mtf
