// plan_layout(): the search for the best layout.
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <set>

#include "trainer/memory/memory_check.h"
#include "trainer/plan/bounds.h"
#include "trainer/plan/choose_layout.h"
#include "trainer/plan/mesh_shapes.h"
#include "trainer/plan/plain.h"
#include "trainer/plan/rules.h"

namespace mtf {
namespace {

/// The layouts of variables at rest that are tried with each layout.
enum Variant { kAsLaidOut, kOptimizerSplit, kParametersSplit };

/// The bound of a layout that does not fit is not infinite, since one of these layouts may be the least evil.
constexpr double kDoesNotFit = std::numeric_limits<double>::max();

/// Memory that limits the search: what is given, that of `hardware`, and in training what is free.
StepMemory step_memory(const Session& session) {
  const Config& config = session.config;
  if (const auto& limit = config.layout_search.memory_limit.value)
    return {.position = limit->value, .process = {}, .source = "layout_search.memory_limit"};
  const bool is_host = session.backend->is_host();
  const auto& given = is_host ? config.run.memory_limit : config.run.device_memory_limit;
  const bool is_for_machine = given.value || (config.machine && config.machine->device.memory),
             is_limited = config.run.mode == RunMode::kTrain || config.run.mode == RunMode::kBench ||
                          is_auto(config.train.recompute) || !config.train.microbatches.value;
  if (!is_for_machine && !is_limited) return {};
  MemoryLimits limits = memory_limits(session);
  std::string source = limits.device ? limits.device->source : limits.host.source;
  return {.position = {}, .process = std::move(limits), .source = std::move(source)};
}

class Planner {
 public:
  explicit Planner(const Session& session)
      : session_(session),
        config_(session.config),
        costs_(session, step_memory(session)),
        dimensions_(costs_.graphs()),
        open_{config_.parameter_layout.is_auto, config_.optimizer_layout.is_auto},
        finds_mesh_(config_.mesh && config_.mesh->is_auto),
        meshes_(meshes()),
        bounds_(costs_.bounds(dimensions_, open_)),
        pool_(thread_count(session.config), [] {}) {}

  LayoutPlan plan(const LayoutSearchLimits& limits) {
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [begin] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    LayoutSearch search{
        .dimensions = dimensions_,
        .meshes = meshes_,
        .bound = [this](const std::vector<SearchAxis>& axes) { return bound(axes); },
        .evaluate = [this](const LayoutCandidate& c, double enough) { return evaluate(c, enough); },
        .pool = &pool_,
        .merges_equal = finds_mesh_,
        .first = {std::string(kBatch)}};
    if (!finds_mesh_) {
      take_given(search);
    } else if (!costs_.are_dimensions_alike()) {
      for (int axis = 0; axis < config_.layout_search.mesh_dimensions; ++axis) search.kinds.push_back(axis);
    }
    LayoutPlan plan{.layouts = {},
                    .meshes = search.meshes.size(),
                    .memory = costs_.memory(),
                    .are_cut = dimensions_.are_cut(),
                    .is_stopped = false,
                    .search = search.run(limits)};
    make_plain(plan.search, [&] { return elapsed() > limits.seconds || (limits.stop && limits.stop()); });
    plan.is_stopped = limits.stop && limits.stop();
    plan.exact = costs_.extrapolates() ? make_exact(plan.search) : std::ssize(plan.search.evaluated);
    for (const EvaluatedLayout& evaluated : plan.search.evaluated)
      plan.layouts.push_back({found(evaluated.layout, evaluated.cost), evaluated.cost});
    plan.search.seconds = elapsed();
    return plan;
  }

 private:
  std::vector<std::vector<int64_t>> meshes() const {
    const Mesh& mesh = session_.layouts.mesh;
    if (finds_mesh_)
      return mesh_shapes(mesh.size(), config_.layout_search.mesh_dimensions, !costs_.are_dimensions_alike());
    std::vector<int64_t> sizes;
    for (int axis = 0; axis < mesh.rank(); ++axis) sizes.push_back(mesh.size(axis));
    return {sizes};
  }

  /// Takes over the rules that the configuration gives, and which mesh dimensions may be exchanged.
  void take_given(LayoutSearch& search) {
    const Mesh& mesh = session_.layouts.mesh;
    const auto rank = static_cast<size_t>(mesh.rank());
    search.fixed.resize(rank);
    std::set<std::string> named;
    std::vector<const LayoutRules*> all{&config_.layout, &config_.parameter_layout,
                                        &config_.optimizer_layout};
    if (session_.layouts.part)
      all.insert(all.end(), {&session_.layouts.part->activation, &session_.layouts.part->parameter});
    for (const LayoutRules* rules : all) {
      for (const LayoutRule& rule : rules->rules())
        named.insert(rule.mesh_dimensions.begin(), rule.mesh_dimensions.end());
    }
    for (const LayoutRule& rule : config_.layout.rules()) {
      const std::optional<size_t> i = dimensions_.find(rule.dimension);
      if (!i) continue;
      search.decided.set(*i);
      for (const std::string& name : rule.mesh_dimensions) {
        if (const std::optional<int> axis = mesh.shape().find(name))
          search.fixed[static_cast<size_t>(*axis)].set(*i);
      }
    }
    if (!config_.layout.is_auto) {
      for (size_t i = 0; i < dimensions_.size(); ++i) search.decided.set(i);
    }
    const bool are_alike = costs_.are_dimensions_alike();
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      int kind = axis;
      for (int other = 0; other < axis; ++other) {
        if (are_alike && mesh.size(other) == mesh.size(axis) && !named.contains(mesh.name(axis)) &&
            !named.contains(mesh.name(other)))
          kind = search.kinds[static_cast<size_t>(other)];
      }
      search.kinds.push_back(kind);
    }
    decided_ = search.decided;
  }

  double bound(const std::vector<SearchAxis>& axes) const {
    if (costs_.memory().position &&
        bounds_.variable_bytes(axes) > static_cast<double>(*costs_.memory().position))
      return kDoesNotFit;
    return bounds_.seconds(axes);
  }

  /// Prefers a layout with fewer rules to the fastest one if it is about as fast.
  void make_plain(LayoutSearchResult& result, const std::function<bool()>& is_over) {
    std::vector<EvaluatedLayout>& all = result.evaluated;
    if (all.empty() || !all.front().cost.fits) return;
    const double enough = all.front().cost.seconds * (1 + kAboutEqual);
    const EvaluateAll evaluate_all = [&](std::vector<LayoutCandidate> candidates) {
      std::vector<EvaluatedLayout> results;
      for (LayoutCandidate& candidate : candidates) results.push_back({std::move(candidate), {}});
      pool_.run(std::ssize(results), [&](int64_t i, int /*worker*/) {
        EvaluatedLayout& evaluated = results[static_cast<size_t>(i)];
        evaluated.cost = evaluate(evaluated.layout, enough);
      });
      result.evaluations += std::ssize(results);
      std::erase_if(results, [](const EvaluatedLayout& e) { return !e.cost.is_legal; });
      return results;
    };
    put_plainest_first(all, std::ssize(all), rules_);
    leave_out_rules(all, decided_, evaluate_all, rules_, is_over);
    if (all.front().cost.variant == kAsLaidOut || is_over()) return;
    EvaluatedLayout plainer{all.front().layout, {}};
    plainer.cost = evaluate(plainer.layout, enough, all.front().cost.variant - 1);
    ++result.evaluations;
    if (!plainer.cost.is_legal) return;
    all.push_back(std::move(plainer));
    put_plainest_first(all, std::ssize(all), rules_);
    std::stable_sort(all.begin() + 1, all.end(), is_better);
  }

  /// Computes what the best layouts cost with all blocks, and puts them in order. Returns their number. Goes on until one
  /// fits, as the first ones may not.
  int64_t make_exact(LayoutSearchResult& result) {
    constexpr int64_t kAtOnce = 3, kMost = 9;
    std::vector<EvaluatedLayout>& all = result.evaluated;
    const bool has_fitting = !all.empty() && all.front().cost.fits;
    int64_t done = 0;
    bool is_found = false;
    while (done < std::min<int64_t>(kMost, std::ssize(all)) && !is_found) {
      const int64_t more = std::min(kAtOnce, std::ssize(all) - done);
      pool_.run(more, [&](int64_t i, int /*worker*/) {
        EvaluatedLayout& evaluated = all[static_cast<size_t>(done + i)];
        const int variant = evaluated.cost.variant;
        evaluated.cost = costs_.exactly(layouts_of(found(evaluated.layout, variant)), evaluated.cost);
        evaluated.cost.variant = variant;
      });
      done += more;
      const auto end = all.begin() + done;
      is_found =
          !has_fitting || std::any_of(all.begin(), end, [](const EvaluatedLayout& e) { return e.cost.fits; });
      std::sort(all.begin(), end, is_better);
      put_plainest_first(all, done, rules_);
    }
    const auto legal = std::stable_partition(all.begin(), all.begin() + done,
                                             [](const EvaluatedLayout& e) { return e.cost.is_legal; });
    const int64_t kept = legal - all.begin();
    all.erase(legal, all.begin() + done);
    return kept;
  }

  Mesh mesh_of(const LayoutCandidate& candidate) const {
    if (!finds_mesh_) return session_.layouts.mesh;
    const std::vector<std::string> names = mesh_names(dimensions_, candidate.chosen);
    const std::vector<int64_t>& sizes = meshes_[candidate.mesh];
    std::vector<Dimension> shape;
    for (size_t axis = 0; axis < sizes.size(); ++axis) shape.push_back({names[axis], sizes[axis]});
    return Mesh(Shape(std::move(shape)));
  }

  FoundLayout found(const LayoutCandidate& candidate, const LayoutCost& cost) const {
    FoundLayout result = found(candidate, cost.variant);
    if (costs_.chooses_recompute()) result.train.recompute = cost.recompute;
    if (costs_.chooses_microbatches()) result.train.microbatches = cost.microbatches;
    return result;
  }

  FoundLayout found(const LayoutCandidate& candidate, int variant) const {
    const Mesh mesh = mesh_of(candidate);
    FoundLayout result{.mesh = {},
                       .layout = config_.layout,
                       .parameter_layout = config_.parameter_layout,
                       .optimizer_layout = config_.optimizer_layout,
                       .train = {}};
    std::vector<std::string> names;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      names.push_back(mesh.name(axis));
      result.mesh.axes.push_back({mesh.name(axis), mesh.size(axis)});
    }
    std::vector<LayoutRule> rules = config_.layout.rules();
    const LayoutRules more = rules_of(dimensions_, candidate.chosen, names, decided_);
    rules.insert(rules.end(), more.rules().begin(), more.rules().end());
    result.layout = LayoutRules(std::move(rules));
    if (variant == kAsLaidOut) return result;
    const std::vector<bool> sums = bounds_.sums_gradients(candidate.chosen);
    std::vector<int> axes;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if (sums[static_cast<size_t>(axis)] && mesh.size(axis) > 1) axes.push_back(axis);
    }
    LayoutRules& of = variant == kParametersSplit ? result.parameter_layout : result.optimizer_layout;
    const LayoutRules base = result.layout.plus(result.parameter_layout).plus(of);
    const LayoutRules more_at_rest = rest_rules(dimensions_, costs_.step(), mesh, base, of, axes);
    of = of.plus(more_at_rest);
    return result;
  }

  Layouts layouts_of(const FoundLayout& found) const {
    Config trial = config_;
    trial.layout = found.layout;
    trial.parameter_layout = found.parameter_layout;
    trial.optimizer_layout = found.optimizer_layout;
    return make_layouts(trial, found.mesh.resolve(1));
  }

  /// The cost of the best variant up to `last`.
  LayoutCost evaluate(const LayoutCandidate& candidate, double enough, int last = kParametersSplit) {
    LayoutCost best;
    for (const int variant : {kAsLaidOut, kOptimizerSplit, kParametersSplit}) {
      if (variant > last) break;
      if ((variant == kOptimizerSplit && !open_.optimizer) ||
          (variant == kParametersSplit && !open_.parameter))
        continue;
      const FoundLayout tried = found(candidate, variant);
      if (variant != kAsLaidOut) {
        const LayoutRules& given = variant == kParametersSplit
                                       ? static_cast<const LayoutRules&>(config_.parameter_layout)
                                       : config_.optimizer_layout;
        const LayoutRules& now =
            variant == kParametersSplit ? tried.parameter_layout : tried.optimizer_layout;
        if (now.rules().size() == given.rules().size()) continue;  // nothing more can be split
      }
      if (best.is_legal && best.fits) enough = std::min(enough, best.seconds);
      LayoutCost cost = costs_(layouts_of(tried), enough);
      cost.variant = variant;
      if (is_better({candidate, cost}, {candidate, best})) best = cost;
    }
    return best;
  }

  const Session& session_;
  const Config& config_;
  LayoutCosts costs_;
  const SplittableDimensions dimensions_;
  const OpenRules open_;
  const bool finds_mesh_;
  const std::vector<std::vector<int64_t>> meshes_;
  const LayoutBounds bounds_;
  DimensionSet decided_;
  ThreadPool pool_;
  const RuleCount rules_ = [this](const EvaluatedLayout& e) { return rule_count(found(e.layout, e.cost)); };
};

}  // namespace

int64_t rule_count(const FoundLayout& found) {
  int64_t count = 0;
  for (const LayoutRules* rules : {&found.layout, &found.parameter_layout, &found.optimizer_layout}) {
    for (const LayoutRule& rule : rules->rules()) count += std::ssize(rule.mesh_dimensions);
  }
  if (const auto& recompute = found.train.recompute;
      recompute && *recompute != Recompute(RecomputeWord::kNone))
    ++count;
  return count + (found.train.microbatches.value_or(1) > 1 ? 1 : 0);
}

LayoutPlan plan_layout(const Session& session, const LayoutSearchLimits& limits) {
  return Planner(session).plan(limits);
}

}  // namespace mtf
