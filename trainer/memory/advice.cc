#include "trainer/memory/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "trainer/session/evaluation_graph.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// The options with which a run is planned.
struct Change {
  TrainStepOptions step;
  int64_t evaluate_batch = 1;
  Layouts layouts;
  Hosting hosting;                         ///< the processes that share the mesh
  std::optional<int64_t> offloaded_bytes;  ///< PartitionOptions::offloaded_bytes
  bool check_replicas = false;
};

/// Layout rules that split `dimensions` over the mesh dimension `axis`, which splits no variable yet.
struct FurtherSplit {
  std::string axis;
  std::vector<std::string> dimensions;
};

/// Returns the largest mesh dimension that splits no variable, and the dimensions that would split most
/// variables over it. They are chosen greedily: each is the one that splits most of the remaining variables.
FurtherSplit further_split(const Program& program, const Layouts& layouts) {
  const Mesh& mesh = program.mesh;
  int unused = -1;
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    const bool used = std::ranges::any_of(
        program.variables, [&](const ProgramVariable& v) { return has_axis(v.layout.varies(), axis); });
    if (!used && mesh.size(axis) > (unused < 0 ? 1 : mesh.size(unused))) unused = axis;
  }
  FurtherSplit result;
  if (unused < 0) return result;
  result.axis = mesh.name(unused);
  std::set<std::string> barred;  // they occur in a variable together with a chosen one
  std::vector<bool> split(program.variables.size(), false);
  while (true) {
    std::map<std::string, int64_t> gain;
    for (size_t i = 0; i < program.variables.size(); ++i) {
      const Shape& shape = program.variables[i].variable.shape;
      for (const Dimension& d : shape) {
        const bool possible =
            !barred.contains(d.name) && d.size % mesh.size(unused) == 0 && !layouts.optimizer.find(d.name);
        if (possible && !split[i]) gain[d.name] += shape.size();
      }
    }
    const auto best = std::ranges::max_element(gain, {}, [](const auto& entry) { return entry.second; });
    if (best == gain.end()) return result;
    result.dimensions.push_back(best->first);
    for (size_t i = 0; i < program.variables.size(); ++i) {
      const Shape& shape = program.variables[i].variable.shape;
      if (std::ranges::none_of(shape, [&](const Dimension& d) { return d.name == best->first; })) continue;
      split[i] = true;
      for (const Dimension& d : shape) barred.insert(d.name);
    }
  }
}

class Search {
 public:
  Search(const Session& session, const std::vector<const Program*>& programs, const MemoryUse& use,
         const MemoryLimits& limits)
      : session_(session), config_(session.config), programs_(programs), use_(use), limits_(limits) {
    trains_ = std::ranges::any_of(programs, [](const Program* p) { return !is_evaluation(*p); });
    evaluates_ = std::ranges::any_of(programs, [](const Program* p) { return is_evaluation(*p); });
    const int64_t steps = planned_steps(session).value_or(std::numeric_limits<int64_t>::max());
    now_ = {train_step_options(config_, session.layouts, steps),
            evaluate_batch_size(config_, session.layouts),
            session.layouts,
            use.hosting,
            offloaded_bytes(config_),
            use.check_replicas};
    now_.step.update->runs_ahead = runs_ahead(session);
    batch_parts_ = LayoutMap(session.layouts.mesh, session.layouts.activation).parts(std::string(kBatch));
  }

  std::vector<std::string> run() {
    if (use_.check_replicas) try_check_replicas();
    if (trains_) {
      try_batch_size();
      try_microbatches();
      try_loss_chunks();
      try_recompute();
      try_bfloat16();
      try_slots();
      try_offload();
      try_layouts();
    }
    if (evaluates_) try_evaluate_batch_size();
    const bool is_alone = use_.hosting.processes == 1;
    if (session_.layouts.mesh.size() > 1 && is_alone) try_one_position();
    if (trains_ && session_.layouts.mesh.size() == 1 && is_alone && !session_.backend->is_host())
      try_more_gpus();
    return std::move(found_);
  }

 private:
  /// Returns the larger share of the limits that the run takes with `change`, at most 1 if it fits; nullopt if the
  /// change is not legal.
  std::optional<double> need(const Change& change) const {
    try {
      std::vector<Program> programs;
      for (const Program* program : programs_) {
        const std::unique_ptr<Graph> graph = build(*program, change);
        Diagnostics diagnostics;
        check_layouts(*graph, change.layouts, diagnostics);
        if (diagnostics.has_errors()) return std::nullopt;
        PartitionOptions options = partition_options_of(session_, change.layouts.mesh, change.hosting);
        options.offloaded_bytes = change.offloaded_bytes;
        programs.push_back(partition(*graph, change.layouts, options));
      }
      std::vector<const Program*> pointers;
      for (const Program& program : programs) pointers.push_back(&program);
      MemoryUse use = use_;
      use.check_replicas = change.check_replicas;
      use.hosting = change.hosting;
      return tightest(largest_need(session_, pointers, use), limits_).share();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  std::unique_ptr<Graph> build(const Program& program, const Change& change) const {
    const std::vector<Feature>& features = session_.train_data->features();
    if (is_evaluation(program)) {
      EvaluationGraphOptions options = evaluation_graph_options(session_);
      options.precision = change.step.precision;
      options.loss_chunks = change.step.loss_chunks;
      return build_evaluation(*session_.model, features, change.evaluate_batch, options).graph;
    }
    return build_train_step(*session_.model, features, change.step).graph;
  }

  bool fits(const Change& change) const {
    const std::optional<double> share = need(change);
    return share && *share <= 1;
  }

  /// Returns the largest n below `count` with which the run fits, or a smaller one that interpolation finds
  /// in a few trials; 0 if n = 1 does not fit. change_to(n) is the change, whose need grows about linearly
  /// with n. Where it bends, each further n that is too large makes the next step a greater part shorter.
  template <class ChangeTo>
  int64_t largest(int64_t count, const ChangeTo& change_to) const {
    constexpr int kTrials = 6;
    constexpr double kLeastMargin = 1.0 / 64;
    if (count <= 1) return 0;
    const std::optional<double> least = need(change_to(int64_t{1})), most = need(change_to(count));
    if (!least || *least > 1 || !most || *most <= 1) return 0;
    int64_t low = 1, high = count;
    double low_share = *least, high_share = *most, margin = 0;
    for (int trial = 0; trial < kTrials && high - low > 1; ++trial) {
      const double slope = (high_share - low_share) / static_cast<double>(high - low);
      const auto guess = low + static_cast<int64_t>((1 - margin) * (1 - low_share) / slope);
      const int64_t middle = std::clamp(guess, low + 1, high - 1);
      const std::optional<double> share = need(change_to(middle));
      if (!share) break;
      (*share <= 1 ? low : high) = middle;
      (*share <= 1 ? low_share : high_share) = *share;
      margin = *share <= 1 ? 0 : std::clamp(4 * margin, kLeastMargin, 1.0);
    }
    return low;
  }

  void try_check_replicas() {
    Change change = now_;
    change.check_replicas = false;
    if (fits(change)) found_.push_back("`run.check_replicas: false`");
  }

  void try_batch_size() {
    const bool same = std::holds_alternative<SameWord>(config_.evaluate.batch_size);
    const int64_t unit = batch_parts_ * now_.step.microbatches;
    const int64_t units = largest(now_.step.batch_size / unit, [&](int64_t n) {
      Change change = now_;
      change.step.batch_size = n * unit;
      if (same) change.evaluate_batch = n * unit;
      return change;
    });
    if (units > 0) found_.push_back(fmt::format("`train.batch_size: {}`", units * unit));
  }

  /// Returns the numbers of microbatches above the present one that divide the rows of each part, in increasing order. Of more
  /// than 10^12 rows it leaves out divisors in the middle.
  std::vector<int64_t> further_microbatches() const {
    constexpr int64_t kMostTried = 1 << 20;
    std::set<int64_t> counts;
    if (now_.step.batch_size % batch_parts_ != 0) return {};
    const int64_t rows = now_.step.batch_size / batch_parts_;
    for (int64_t n = 1; n <= kMostTried && n <= rows / n; ++n) {
      if (rows % n == 0) counts.insert({n, rows / n});
    }
    return {counts.upper_bound(now_.step.microbatches), counts.end()};
  }

  void try_microbatches() {
    const std::vector<int64_t> counts = further_microbatches();
    const auto with = [&](int64_t count) {
      Change change = now_;
      change.step.microbatches = count;
      return change;
    };
    if (counts.empty() || !fits(with(counts.back()))) return;
    const auto least = std::partition_point(counts.begin(), counts.end() - 1,
                                            [&](int64_t count) { return !fits(with(count)); });
    found_.push_back(fmt::format("`train.microbatches: {}`", *least));
    const TrainStep step = build_train_step(*session_.model, session_.train_data->features(), now_.step);
    if (!step.batch_statistics.empty())
      found_.back() += fmt::format(" (which changes {})", batch_statistics_text(step.batch_statistics));
  }

  /// Tries parts of rows of which the logits are small beside all else.
  void try_loss_chunks() {
    constexpr int64_t kMostChunks = 64;
    for (int64_t count = std::max<int64_t>(2, 2 * now_.step.loss_chunks); count <= kMostChunks; count *= 2) {
      Change change = now_;
      change.step.loss_chunks = count;
      if (!fits(change)) continue;
      found_.push_back(fmt::format("`train.loss_chunks: {}`", count));
      return;
    }
  }

  void try_recompute() {
    const auto* word = std::get_if<RecomputeWord>(&now_.step.recompute);
    if (!word || *word != RecomputeWord::kNone) return;
    Change change = now_;
    change.step.recompute = RecomputeWord::kBlock;
    if (fits(change)) found_.push_back("`train.recompute: block`");
  }

  /// On GPUs bfloat16 is the faster type, too; on processors it may be slower.
  void try_bfloat16() {
    if (session_.backend->is_host() || config_.precision.activation == ElementType::kBFloat16) return;
    Change change = now_;
    change.step.precision.activation = DType::kBFloat16;
    if (fits(change)) found_.push_back("`precision.activation: bfloat16`");
  }

  /// Tries smaller types of optimizer slots, the more exact one first.
  void try_slots() {
    for (const auto& [type, name] :
         {std::pair(DType::kBFloat16, "bfloat16"), std::pair(DType::kInt8, "int8")}) {
      Change change = now_;
      if (size_of(type) >= size_of(change.step.update->slot_type)) continue;
      change.step.update->slot_type = type;
      if (!fits(change)) continue;
      found_.push_back(fmt::format("`precision.slots: {}`", name));
      return;
    }
  }

  /// The memory of a GPU's machine may have room.
  void try_offload() {
    if (session_.backend->is_host()) return;
    if (!now_.step.update->slots_on_host && parameter_servers(config_) == nullptr) {
      Change change = now_;
      change.step.update->slots_on_host = true;
      if (fits(change)) found_.push_back("`offload.slots: host`");
    }
    if (!now_.offloaded_bytes) {
      Change change = now_;
      change.offloaded_bytes = config_.offload.least_bytes.value;
      if (fits(change)) found_.push_back("`offload.activations: host`");
    }
  }

  /// Tries the fewest GPUs that share the batch, with a process for each.
  void try_more_gpus() {
    for (int count = 2; count <= 8 && now_.step.batch_size / now_.step.microbatches % count == 0;
         count *= 2) {
      Change change = now_;
      change.layouts =
          Layouts::make(Mesh(Shape{{"all", count}}), LayoutRules({{std::string(kBatch), {"all"}, {}}}),
                        config_.parameter_layout, config_.optimizer_layout);
      change.hosting = {count, 0};
      if (!fits(change)) continue;
      found_.push_back(
          fmt::format("{} GPUs: `mesh: {{all: {}}}` with `layout: {{{}: all}}`", count, count, kBatch));
      return;
    }
  }

  void try_layouts() {
    const FurtherSplit split = further_split(*programs_[0], session_.layouts);
    if (split.dimensions.empty()) return;
    std::vector<LayoutRule> rules;
    std::string text;
    for (const std::string& dimension : split.dimensions) {
      rules.push_back({dimension, {split.axis}, {}});
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", dimension, split.axis);
    }
    const LayoutRules more(std::move(rules));
    const auto try_section = [&](AutoLayout Config::*section, std::string_view name) {
      Config trial = config_;
      trial.*section = (config_.*section).plus(more);
      Change change = now_;
      change.layouts = make_layouts(trial, session_.layouts.mesh);
      if (fits(change)) found_.push_back(fmt::format("`{}` with `{}`", name, text));
    };
    try_section(&Config::optimizer_layout, "optimizer_layout");
    try_section(&Config::parameter_layout, "parameter_layout");
  }

  void try_evaluate_batch_size() {
    const int64_t units = largest(now_.evaluate_batch / batch_parts_, [&](int64_t n) {
      Change change = now_;
      change.evaluate_batch = n * batch_parts_;
      return change;
    });
    if (units > 0) found_.push_back(fmt::format("`evaluate.batch_size: {}`", units * batch_parts_));
  }

  /// Tries a single position. The positions of a process share replicated tensors, but each has its own
  /// partial sums.
  void try_one_position() {
    Change change = now_;
    change.layouts = Layouts::single();
    if (fits(change)) found_.push_back("one position, without `mesh` and layouts");
  }

  const Session& session_;
  const Config& config_;
  const std::vector<const Program*>& programs_;
  const MemoryUse& use_;
  const MemoryLimits& limits_;
  bool trains_ = false;
  bool evaluates_ = false;
  int64_t batch_parts_ = 1;  ///< number of parts into which the layout splits the batch
  Change now_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> memory_advice(const Session& session, const std::vector<const Program*>& programs,
                                       const MemoryUse& use, const MemoryLimits& limits) {
  return Search(session, programs, use, limits).run();
}

}  // namespace mtf
