// plan_layout(): the search for the best layout.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <set>

#include "engine/base/seconds_since.h"
#include "trainer/memory/memory_check.h"
#include "trainer/plan/bounds.h"
#include "trainer/plan/choose_layout.h"
#include "trainer/plan/mesh_shapes.h"
#include "trainer/plan/plain.h"
#include "trainer/plan/rules.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// How variables lie between steps: parameters, or the optimizer's slots alone, are split over `axes` besides the rules of the
/// layout.
struct RestSplit {
  bool of_parameters = false;
  std::vector<int> axes = {};  ///< none: as they are laid out
  bool is_searched = true;     ///< tried with every layout, not only with the best ones
};

/// The part of the time in which layouts without stages are looked for, where stages are tried, too; that in which more splits
/// of variables are tried with the best layouts; and that in which the best ones of a deep model are computed with all blocks.
constexpr double kPlainTime = 0.6, kSplitTime = 0.1, kExactTime = 0.25;

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
        plain_meshes_(std::ssize(meshes_)),
        bounds_(costs_.bounds(dimensions_, open_)),
        pool_(thread_count(session.config), [] {}) {}

  LayoutPlan plan(const LayoutSearchLimits& limits) {
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [begin] { return seconds_since(begin); };
    const auto is_stopped = [&] { return limits.stop && limits.stop(); };
    const bool splits_at_rest = open_.parameter || open_.optimizer;
    const double for_all = limits.seconds * (costs_.extrapolates() ? 1 - kExactTime : 1);
    const double for_search = for_all * (splits_at_rest ? 1 - kSplitTime : 1);
    double until = for_search;  // seconds after `begin` at which evaluations are cut short
    const auto is_over = [&] { return elapsed() > until || is_stopped(); };
    costs_.stop_when(is_over);
    const std::vector<SearchMesh> staged = meshes_with_stages();
    meshes_.insert(meshes_.end(), staged.begin(), staged.end());
    LayoutSearch search{
        .dimensions = dimensions_,
        .meshes = {meshes_.begin(), meshes_.begin() + plain_meshes_},
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
    if (!staged.empty()) until *= kPlainTime;
    LayoutSearchLimits of_plain = limits;
    of_plain.seconds = until;
    LayoutPlan plan{.layouts = {},
                    .meshes = mesh_count(),
                    .memory = costs_.memory(),
                    .are_cut = dimensions_.are_cut(),
                    .is_stopped = false,
                    .splits_at_rest = splits_at_rest,
                    .search = search.run(of_plain)};
    if (!staged.empty()) {
      until = for_search;
      LayoutSearchLimits left = limits;
      left.seconds = until - elapsed();
      search_stages(search, left, plan.search);
    }
    until = for_all;
    make_plain(plan.search, is_over);
    try_all_splits(plan.search, is_over);
    plan.is_stopped = is_stopped();
    const auto left = [&] { return is_stopped() ? 0 : limits.seconds - elapsed(); };
    plan.exact = costs_.extrapolates() ? make_exact(plan.search, left) : std::ssize(plan.search.evaluated);
    for (const EvaluatedLayout& evaluated : plan.search.evaluated)
      plan.layouts.push_back({found(evaluated.layout, evaluated.cost), evaluated.cost});
    plan.search.seconds = elapsed();
    costs_.stop_when({});
    return plan;
  }

 private:
  /// The number of meshes, whatever dimension of them has stages.
  size_t mesh_count() const {
    std::set<std::vector<int64_t>> sizes;
    for (const SearchMesh& mesh : meshes_) sizes.insert(mesh.sizes);
    return sizes.size();
  }

  /// Those without stages, unless the configuration asks for them.
  std::vector<SearchMesh> meshes() const {
    const Mesh& mesh = session_.layouts.mesh;
    std::vector<SearchMesh> result;
    if (finds_mesh_) {
      for (std::vector<int64_t>& sizes :
           mesh_shapes(mesh.size(), config_.layout_search.mesh_dimensions, !costs_.are_dimensions_alike()))
        result.push_back({std::move(sizes)});
      return result;
    }
    result.push_back({sizes_of(mesh)});
    if (const std::optional<Pipeline>& pipeline = session_.layouts.pipeline) {
      result.back().stages = static_cast<size_t>(pipeline->axis(mesh));
      result.back().rounds = pipeline->rounds;
    }
    return result;
  }

  static std::vector<int64_t> sizes_of(const Mesh& mesh) {
    std::vector<int64_t> sizes;
    for (int axis = 0; axis < mesh.rank(); ++axis) sizes.push_back(mesh.size(axis));
    return sizes;
  }

  /// Meshes of which one dimension has stages that the configuration does not ask for: of a mesh that is to be found the
  /// outermost, as stages send little.
  std::vector<SearchMesh> meshes_with_stages() const {
    std::vector<SearchMesh> result;
    const Mesh& mesh = session_.layouts.mesh;
    const bool has_microbatches = config_.train.microbatches.value.value_or(2) > 1;  // else stages take turns
    if (session_.layouts.pipeline || !config_.layout.is_auto || !has_microbatches ||
        parameter_servers(config_) != nullptr || dimensions_.find(kLayers))
      return result;
    const int64_t blocks = costs_.blocks();
    const auto add = [&](const std::vector<int64_t>& sizes, size_t stages) {
      for (const int rounds : {1, 2, 4}) {
        if (are_even(blocks, sizes[stages] * rounds))
          result.push_back({.sizes = sizes, .stages = stages, .rounds = rounds});
      }
    };
    if (!finds_mesh_) {
      const std::set<std::string> named = named_mesh_dimensions();
      for (int axis = 0; axis < mesh.rank(); ++axis) {
        if (!named.contains(mesh.name(axis))) add(sizes_of(mesh), static_cast<size_t>(axis));
      }
      return result;
    }
    for (int64_t stages = 2; stages <= std::min(blocks, mesh.size()); ++stages) {
      if (mesh.size() % stages != 0 || !are_even(blocks, stages)) continue;
      if (stages == mesh.size()) add({stages}, 0);
      if (stages == mesh.size() || config_.layout_search.mesh_dimensions < 2) continue;
      for (std::vector<int64_t> sizes :
           mesh_shapes(mesh.size() / stages, config_.layout_search.mesh_dimensions - 1, false)) {
        sizes.insert(sizes.begin(), stages);
        add(sizes, 0);
      }
    }
    return result;
  }

  /// Looks for layouts with stages, which must be more than a little faster than the best one of `result`, to which they
  /// are added.
  void search_stages(LayoutSearch search, LayoutSearchLimits limits, LayoutSearchResult& result) {
    const bool fits = !result.evaluated.empty() && result.best().cost.fits;
    if (fits) limits.enough = result.best().cost.seconds / (1 + kAboutEqual);
    search.meshes = {meshes_.begin() + plain_meshes_, meshes_.end()};
    search.evaluate = [this](LayoutCandidate candidate, double enough) {
      candidate.mesh += static_cast<size_t>(plain_meshes_);
      return evaluate(candidate, enough);
    };
    const LayoutSearchResult staged = search.run(limits);
    result.nodes += staged.nodes;
    result.evaluations += staged.evaluations;
    for (EvaluatedLayout evaluated : staged.evaluated) {
      evaluated.layout.mesh += static_cast<size_t>(plain_meshes_);
      result.evaluated.push_back(std::move(evaluated));
    }
    std::ranges::stable_sort(result.evaluated, is_better);
    result.lower_bound = std::min(result.lower_bound, staged.lower_bound);
    if (result.evaluated.empty() || !result.best().cost.fits) return;
    const double best = result.best().cost.seconds;
    const bool is_proven = result.is_proven() && (staged.lower_bound >= limits.enough || staged.is_proven());
    result.gap = is_proven ? 0 : std::max(0.0, 1 - result.lower_bound / best);
  }

  /// True if so many chunks have about as many blocks each.
  static bool are_even(int64_t blocks, int64_t chunks) {
    constexpr double kMost = 1.1;
    if (chunks > blocks) return false;
    const int64_t largest = (blocks + chunks - 1) / chunks;
    return static_cast<double>(largest * chunks) <= kMost * static_cast<double>(blocks);
  }

  /// Those in rules that the configuration gives.
  std::set<std::string> named_mesh_dimensions() const {
    std::set<std::string> named;
    std::vector<const LayoutRules*> all{&config_.layout, &config_.parameter_layout,
                                        &config_.optimizer_layout};
    if (session_.layouts.part)
      all.insert(all.end(), {&session_.layouts.part->activation, &session_.layouts.part->parameter});
    for (const LayoutRules* rules : all) {
      for (const LayoutRule& rule : rules->rules())
        named.insert(rule.mesh_dimensions.begin(), rule.mesh_dimensions.end());
    }
    return named;
  }

  /// Takes over the rules that the configuration gives, and which mesh dimensions may be exchanged.
  void take_given(LayoutSearch& search) {
    const Mesh& mesh = session_.layouts.mesh;
    const auto rank = static_cast<size_t>(mesh.rank());
    search.fixed.resize(rank);
    const std::set<std::string> named = named_mesh_dimensions();
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
    if (most_bytes_ && bounds_.variable_bytes(axes) > static_cast<double>(*most_bytes_)) return kDoesNotFit;
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
  }

  /// Tries all splits of variables with the best layouts or, where none fits, those that are not searched with all of them.
  /// Each layout then stands with its fastest split, and with a plainer one that is about as fast.
  void try_all_splits(LayoutSearchResult& result, const std::function<bool()>& is_over) {
    constexpr int64_t kFinalists = 3;
    std::vector<EvaluatedLayout>& all = result.evaluated;
    if (all.empty() || is_over()) return;
    const bool fits = all.front().cost.fits;
    const auto end = all.begin() + (fits ? std::min(kFinalists, std::ssize(all)) : std::ssize(all));
    std::vector<EvaluatedLayout> tried;
    for (auto finalist = all.begin(); finalist != end; ++finalist) {
      const std::vector<RestSplit> splits = rest_splits(finalist->layout);
      for (int variant = 0; variant < std::ssize(splits); ++variant) {
        if (variant != finalist->cost.variant && (fits || !splits[static_cast<size_t>(variant)].is_searched))
          tried.push_back({finalist->layout, {.variant = variant}});
      }
    }
    if (tried.empty()) return;
    const double enough =
        fits ? all.front().cost.seconds * (1 + kAboutEqual) : std::numeric_limits<double>::infinity();
    std::atomic<int64_t> evaluations = 0;
    pool_.run(std::ssize(tried), [&](int64_t i, int /*worker*/) {
      if (is_over()) return;
      EvaluatedLayout& evaluated = tried[static_cast<size_t>(i)];
      evaluated.cost = evaluate(evaluated.layout, evaluated.cost.variant, enough);
      ++evaluations;
    });
    result.evaluations += evaluations;
    std::vector<EvaluatedLayout> kept;
    auto next = tried.begin();
    for (auto finalist = all.begin(); finalist != end; ++finalist) {
      std::vector<EvaluatedLayout> same{*finalist};
      for (; next != tried.end() && is_same(next->layout, finalist->layout); ++next) {
        if (next->cost.is_legal) same.push_back(std::move(*next));
      }
      std::ranges::stable_sort(same, is_better);
      const int fastest = same.front().cost.variant;
      put_plainest_first(same, std::ssize(same), rules_);
      same.resize(same.front().cost.variant == fastest ? 1 : 2);
      std::ranges::move(same, std::back_inserter(kept));
    }
    all.erase(all.begin(), end);
    std::ranges::move(kept, std::back_inserter(all));
    std::ranges::stable_sort(all, is_better);
    const LayoutCost& best = all.front().cost;
    if (!fits && best.fits) result.gap = is_over() ? 1 : std::max(0.0, 1 - result.lower_bound / best.seconds);
    put_plainest_first(all, std::ssize(all), rules_);
  }

  /// Computes what the best layouts cost with all blocks, and puts them in order before the others. Returns their number.
  /// Goes on until one fits, as the first ones may not. Those that would take more than the seconds that are left are
  /// passed over; one is computed in any case.
  int64_t make_exact(LayoutSearchResult& result, const std::function<double()>& left) {
    constexpr int64_t kAtOnce = 3, kMost = 9;
    std::vector<EvaluatedLayout>& all = result.evaluated;
    const bool has_fitting = !all.empty() && all.front().cost.fits;
    int64_t done = 0;
    bool is_found = false;
    while (done < std::min<int64_t>(kMost, std::ssize(all)) && !is_found) {
      const int64_t more = bring_forward(all, done, std::min(kAtOnce, std::ssize(all) - done), left());
      if (more == 0) break;
      pool_.run(more, [&](int64_t i, int /*worker*/) {
        EvaluatedLayout& evaluated = all[static_cast<size_t>(done + i)];
        const int variant = evaluated.cost.variant;
        const Layouts layouts = layouts_of(found(evaluated.layout, variant));
        const double needed = costs_.exact_seconds(layouts, evaluated.cost);
        evaluated.cost = costs_.exactly(layouts, evaluated.cost, [&] { return left() <= needed; });
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

  /// Moves at most `most` layouts that can be computed with all blocks in `seconds` to place `done`, and returns their
  /// number. If `done` is 0 there is at least one: the first that fits without stages, since programs with stages take
  /// longer to compile, or else the first.
  int64_t bring_forward(std::vector<EvaluatedLayout>& all, int64_t done, int64_t most, double seconds) const {
    const auto needed = [&](const EvaluatedLayout& e) {
      return costs_.exact_seconds(layouts_of(found(e.layout, e.cost.variant)), e.cost);
    };
    const auto begin = all.begin() + done;
    auto end = begin;
    for (auto next = begin; next != all.end() && end - begin < most; ++next) {
      if (needed(*next) <= seconds) std::rotate(end++, next, next + 1);
    }
    if (end != begin || done > 0 || all.empty()) return end - begin;
    const auto plain = std::ranges::find_if(
        all, [&](const EvaluatedLayout& e) { return e.cost.fits && !meshes_[e.layout.mesh].stages; });
    if (plain != all.end()) std::rotate(begin, plain, plain + 1);
    return 1;
  }

  Mesh mesh_of(const LayoutCandidate& candidate) const {
    if (!finds_mesh_) return session_.layouts.mesh;
    const std::vector<int64_t>& sizes = meshes_[candidate.mesh].sizes;
    const std::vector<std::string> names =
        mesh_names(dimensions_, candidate.chosen, meshes_[candidate.mesh].stages);
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
                       .optimizer_layout = config_.optimizer_layout};
    std::vector<std::string> names;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      names.push_back(mesh.name(axis));
      result.mesh.axes.push_back({mesh.name(axis), mesh.size(axis)});
    }
    std::vector<LayoutRule> rules = config_.layout.rules();
    const LayoutRules more = rules_of(dimensions_, candidate.chosen, names, decided_);
    rules.insert(rules.end(), more.rules().begin(), more.rules().end());
    if (const SearchMesh& on = meshes_[candidate.mesh]; on.stages && !session_.layouts.pipeline) {
      rules.push_back({std::string(kLayers), {names[*on.stages]}, {}});
      result.pipeline = PipelineOptions{.schedule = config_.pipeline.schedule, .rounds = on.rounds};
    }
    result.layout = LayoutRules(std::move(rules));
    if (variant == 0) return result;
    const RestSplit split = rest_splits(candidate)[static_cast<size_t>(variant)];
    LayoutRules& of = split.of_parameters ? result.parameter_layout : result.optimizer_layout;
    const LayoutRules base = result.layout.plus(result.parameter_layout).plus(of);
    const LayoutRules more_at_rest = rest_rules(dimensions_, costs_.step(), mesh, base, of, split.axes);
    of = of.plus(more_at_rest);
    return result;
  }

  /// What is tried with a layout, what is searched before the others; LayoutCost::variant is an index. The first one splits
  /// nothing more.
  std::vector<RestSplit> rest_splits(const LayoutCandidate& candidate) const {
    std::vector<RestSplit> splits(1);
    if (!open_.parameter && !open_.optimizer) return splits;
    const std::vector<int64_t>& sizes = meshes_[candidate.mesh].sizes;
    const std::vector<bool> sums = bounds_.sums_gradients(candidate.chosen);
    std::vector<int> axes;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sums[axis] && sizes[axis] > 1) axes.push_back(static_cast<int>(axis));
    }
    constexpr size_t kSearched = 2;  // all and the innermost one
    const std::vector<std::vector<int>> subsets = axes_at_rest(axes);
    for (const bool is_searched : {true, false}) {
      for (const bool of_parameters : {false, true}) {
        if (!(of_parameters ? open_.parameter : open_.optimizer)) continue;
        for (size_t i = 0; i < subsets.size(); ++i) {
          if ((i < kSearched) == is_searched) splits.push_back({of_parameters, subsets[i], is_searched});
        }
      }
    }
    return splits;
  }

  Layouts layouts_of(const FoundLayout& found) const {
    Config trial = config_;
    trial.layout = found.layout;
    trial.parameter_layout = found.parameter_layout;
    trial.optimizer_layout = found.optimizer_layout;
    if (found.pipeline) trial.pipeline = *found.pipeline;
    return make_layouts(trial, found.mesh.resolve(1));
  }

  /// The cost with the best of rest_splits() that are searched.
  LayoutCost evaluate(const LayoutCandidate& candidate, double enough) {
    LayoutCost best = evaluate(candidate, 0, enough);
    if (!best.is_legal) return best;  // nor is it with more rules
    const auto variants =
        static_cast<int>(std::ranges::count(rest_splits(candidate), true, &RestSplit::is_searched));
    for (int variant = 1; variant < variants; ++variant) {
      if (best.fits) enough = std::min(enough, best.seconds);
      const LayoutCost cost = evaluate(candidate, variant, enough);
      if (is_better({candidate, cost}, {candidate, best})) best = cost;
    }
    return best;
  }

  /// The cost with one of rest_splits(); not legal if it splits nothing more.
  LayoutCost evaluate(const LayoutCandidate& candidate, int variant, double enough) {
    const FoundLayout tried = found(candidate, variant);
    const size_t given = config_.parameter_layout.rules().size() + config_.optimizer_layout.rules().size();
    if (variant > 0 && tried.parameter_layout.rules().size() + tried.optimizer_layout.rules().size() == given)
      return {};
    LayoutCost cost = costs_(layouts_of(tried), enough);
    cost.variant = variant;
    return cost;
  }

  const Session& session_;
  const Config& config_;
  LayoutCosts costs_;
  const SplittableDimensions dimensions_;
  const OpenRules open_;
  const bool finds_mesh_;
  std::vector<SearchMesh> meshes_;  ///< those without stages come first
  const int64_t plain_meshes_;
  const LayoutBounds bounds_;
  const std::optional<int64_t> most_bytes_ = costs_.most_bytes();
  DimensionSet decided_;
  ThreadPool pool_;
  /// A layout without stages is plainer than all with stages.
  const RuleCount rules_ = [this](const EvaluatedLayout& e) {
    constexpr int64_t kStages = 1000;  // more than any layout has rules
    const FoundLayout layout = found(e.layout, e.cost);
    return rule_count(layout) + (layout.pipeline ? kStages : 0);
  };
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
  if (found.pipeline && found.pipeline->rounds > 1) ++count;
  return count + (found.train.microbatches.value_or(1) > 1 ? 1 : 0);
}

LayoutPlan plan_layout(const Session& session, const LayoutSearchLimits& limits) {
  return Planner(session).plan(limits);
}

}  // namespace mtf
