#include "trainer/plan/costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "engine/base/seconds_since.h"
#include "engine/runtime/memory_plan.h"
#include "engine/spmd/partition/unit_places.h"
#include "trainer/costs/cost_model.h"
#include "trainer/costs/prediction.h"
#include "trainer/costs/schedule.h"
#include "trainer/memory/microbatches.h"
#include "trainer/plan/depth.h"
#include "trainer/plan/stage_costs.h"

namespace mtf {
namespace {

/// Bytes that a position of each stage sends in a block of instructions; without stages there is one entry, of stage 0.
void add_bytes_sent(const Program& program, const std::vector<Instruction>& block, double times,
                    std::map<int64_t, double>& stages) {
  for (const Instruction& instruction : block) {
    add_bytes_sent(program, instruction.body(), times * static_cast<double>(instruction.count()), stages);
    if (!instruction.is_collective()) continue;
    const std::optional<Pin>& pin = program.values[program.root(instruction.inputs[0])].layout.pin;
    const double bytes = times * bytes_sent(program, instruction);
    if (pin) {
      stages[pin->coordinate] += bytes;
    } else {
      for (auto& [stage, sum] : stages) sum += bytes;
    }
  }
}

/// Bytes that a position of the stage sends that sends most.
double most_bytes_sent(const Program& program, int64_t stages) {
  std::map<int64_t, double> sums;
  for (int64_t stage = 0; stage < stages; ++stage) sums[stage] = 0;
  add_bytes_sent(program, program.instructions, 1, sums);
  return std::ranges::max_element(sums, {}, &std::pair<const int64_t, double>::second)->second;
}

/// A key for a mesh with rules.
std::string layouts_text(const Layouts& layouts) {
  std::string text;
  for (const Dimension& d : layouts.mesh.shape()) text += fmt::format("{}:{};", d.name, d.size);
  for (const LayoutRules* rules : {&layouts.activation, &layouts.parameter, &layouts.optimizer}) {
    text += ' ';
    for (const LayoutRule& rule : rules->rules())
      text += fmt::format("{}:{};", rule.dimension, fmt::join(rule.mesh_dimensions, ","));
  }
  return text + ' ';
}

}  // namespace

LayoutCosts::LayoutCosts(const Session& session, StepMemory memory)
    : session_(session), memory_(std::move(memory)) {
  const int64_t steps = planned_steps(session).value_or(std::numeric_limits<int64_t>::max());
  options_ = train_step_options(session.config, session.layouts, steps);
  options_.update->runs_ahead = runs_ahead(session);
  if (chooses_recompute()) options_.recompute = RecomputeWord::kNone;
  whole_.step = build(whole_, plain()).graph;
  add_shallow();
  if (session.config.evaluate.datasets.empty()) return;
  Diagnostics of_evaluation;  // its problems are reported when it is built for the run
  evaluation_ = build_evaluation(session, of_evaluation).graph;
}

CostModel LayoutCosts::model_for(const Mesh& mesh) const {
  Diagnostics reported;  // by explain
  return cost_model_of(session_.config, mesh, !session_.backend->is_host(), reported);
}

std::string LayoutCosts::Variation::text() const {
  return fmt::format("{} {} {}", expert_parts, microbatches, recompute_text(recompute));
}

TrainStep LayoutCosts::build(const Part& part, const Variation& variation) const {
  TrainStepOptions options = options_;
  options.expert_parts = variation.expert_parts;
  options.recompute = variation.recompute;
  options.microbatches = variation.microbatches;
  return build_train_step(model_of(part), session_.train_data->features(), options);
}

void LayoutCosts::add_shallow() {
  constexpr int64_t kDeep = 8, kShallow = 2;
  const std::optional<int64_t> depth = depth_of(session_.config.model);
  if (!depth || *depth < kDeep || session_.teacher) return;
  depth_ = static_cast<double>(*depth);
  const auto more = static_cast<double>(*depth - kShallow);
  try {
    for (const auto& [blocks, weight] : {std::pair(kShallow, 1 - more), std::pair(kShallow + 1, more)}) {
      Diagnostics known;  // the whole model is correct
      Part part{.weight = weight,
                .depth = blocks,
                .own = make_model(with_depth(session_.config.model, blocks), known),
                .step = nullptr,
                .free = {},
                .known = {}};
      if (known.has_errors()) throw Error(known.errors());
      part.step = build(part, plain()).graph;
      shallow_.push_back(std::move(part));
    }
  } catch (const Error&) {  // such as a rule for a block that is not there: all blocks then count
    shallow_.clear();
  }
}

TrainStep LayoutCosts::take(Part& part, const Variation& variation) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<TrainStep>& free = part.free[variation.text()];
    if (!free.empty()) {
      TrainStep step = std::move(free.back());
      free.pop_back();
      return step;
    }
  }
  return build(part, variation);
}

/// Steps with other numbers of layers are hardly asked for again.
void LayoutCosts::give_back(Part& part, const Variation& variation, TrainStep step) {
  if (std::holds_alternative<config::Named<int64_t>>(variation.recompute)) return;
  const std::lock_guard lock(mutex_);
  part.free[variation.text()].push_back(std::move(step));
}

std::vector<const Graph*> LayoutCosts::graphs() const {
  std::vector<const Graph*> graphs{&step()};
  if (evaluation_) graphs.push_back(evaluation_.get());
  return graphs;
}

int64_t LayoutCosts::blocks() const { return std::ranges::count_if(step().units(), &Unit::is_block); }

LayoutBounds LayoutCosts::bounds(const SplittableDimensions& dimensions, const OpenRules& open) const {
  const Layouts single = Layouts::single();
  const PartitionOptions options = partition_options_of(session_, single.mesh, {});
  LayoutBounds bounds(dimensions, rates(session_.layouts.mesh), open);
  const auto add = [&](const Part& part) {
    const Graph& step = *part.step;
    std::set<std::string> trained;
    for (const auto& variable : step.variables()) {
      if (variable->kind == Variable::Kind::kWeight && is_trained(variable->name, session_.config))
        trained.insert(variable->name);
    }
    bounds.add(step, partition(step, single, options), trained, part.weight);
  };
  if (shallow_.empty()) {
    add(whole_);
  } else {
    for (const Part& part : shallow_) add(part);
  }
  return bounds;
}

BoundRates LayoutCosts::rates(const Mesh& mesh) const {
  const CostModel model = model_for(mesh);
  BoundRates result{.seconds = [model](const Work& work) { return model.least_seconds(work); },
                    .hosted = model.placement().mesh.positions(),
                    .step = model.step_seconds(),
                    .link = 0,
                    .links = 0};
  result.microbatches = chooses_microbatches() ? options_.batch_size : options_.microbatches;
  for (const LinkOptions& link : model.hardware().links) {
    result.link = std::max(result.link, link.bandwidth);
    ++result.links;
  }
  return result;
}

std::optional<int64_t> LayoutCosts::most_bytes() const {
  if (memory_.position || !memory_.process) return memory_.position;
  if (hosting_of(session_.config).processes != session_.layouts.mesh.size()) return std::nullopt;
  return memory_.process->device ? memory_.process->device->bytes : memory_.process->host.bytes;
}

bool LayoutCosts::are_dimensions_alike() const {
  const CostModel model = model_for(session_.layouts.mesh);
  const HostedMesh& mesh = model.placement().mesh;
  return mesh.processes() == 1 || (mesh.positions() == 1 && model.hardware().links.size() == 1);
}

bool LayoutCosts::is_legal(const Graph& step, const Layouts& layouts, bool with_evaluation) const {
  Diagnostics problems;
  check_layouts(step, layouts, problems);
  check_pipeline(step, layouts, problems);
  if (with_evaluation && evaluation_ && !problems.has_errors())
    check_layouts(*evaluation_, layouts, problems);
  return !problems.has_errors();
}

LayoutCosts::StepCost LayoutCosts::compiled(Part& part, const Layouts& layouts, const Variation& variation) {
  StepCost result;
  const auto begin = std::chrono::steady_clock::now();
  TrainStep step = take(part, variation);
  if (!is_legal(*step.graph, layouts, &part == &whole_)) {
    give_back(part, variation, std::move(step));
    return result;
  }
  const Program program = compile(session_, *step.graph, layouts);
  const CostModel model = model_for(layouts.mesh);
  const std::vector<ScheduleItem> schedule = schedule_of(program, model);
  const StepPrediction time = predict_step(schedule, model.step_seconds());
  result.cost.is_legal = true;
  result.cost.seconds = time.seconds;
  result.cost.computing = time.computing;
  const std::vector<MemoryPlan::Position> memory = position_memory(program);
  const MemoryPlan::Position& largest = memory[MemoryPlan::largest(memory)];
  result.cost.bytes = largest.total();
  result.variable_bytes = static_cast<double>(largest.variables);
  const int64_t stages = layouts.pipeline ? layouts.pipeline->stages(layouts.mesh) : 1;
  result.cost.bytes_sent = most_bytes_sent(program, stages);
  if (memory_.process) {
    std::vector<int64_t> scratch;
    {
      const std::lock_guard lock(memory_mutex_);
      scratch = kernel_scratch(session_, {&program});
    }
    const RunMemory need = largest_need(session_, {&program}, memory_use(session_, true, {}, {}), scratch);
    result.host_need = static_cast<double>(need.host.total());
    result.device_need = static_cast<double>(need.device.total());
  }
  result.has_batch_statistics = !step.batch_statistics.empty();
  if (chooses_recompute() && variation.recompute == Recompute(RecomputeWord::kNone))
    result.layers = recomputable_layers(step.layers, program, schedule);
  if (part.depth > 0) {
    result.handed_bytes = handed_between_blocks(*step.graph, layouts);
    result.kept_bytes = kept_of_microbatch(program);
  }
  give_back(part, variation, std::move(step));
  if (part.depth > 0) {
    seconds_of_blocks_ += seconds_since(begin);
    compiled_blocks_ += static_cast<double>(part.depth);
  }
  return result;
}

LayoutCosts::StepCost LayoutCosts::of_part(Part& part, const Layouts& layouts, const Variation& variation) {
  const bool is_kept = part.depth > 0;
  const std::string key = is_kept ? layouts_text(layouts) + variation.text() : "";
  if (is_kept) {
    const std::lock_guard lock(mutex_);
    if (const auto known = part.known.find(key); known != part.known.end()) return known->second;
  }
  StepCost result;
  try {
    result = compiled(part, layouts, variation);
  } catch (const Error& error) {  // a layer does not work on so few examples
    if (error.kind() != ErrorKind::kConfig) throw;
  }
  if (is_kept) {
    const std::lock_guard lock(mutex_);
    part.known.emplace(key, result);
  }
  return result;
}

void LayoutCosts::add_layers(const std::vector<RecomputableLayers>& layers, double weight,
                             std::vector<RecomputableLayers>& sum) {
  for (const RecomputableLayers& kind : layers) {
    auto known = std::ranges::find(sum, kind.name, &RecomputableLayers::name);
    if (known == sum.end()) known = sum.insert(sum.end(), RecomputableLayers{.name = kind.name});
    known->count += std::llround(weight * static_cast<double>(kind.count));
    known->saved += weight * kind.saved;
    known->seconds += weight * kind.seconds;
  }
}

void LayoutCosts::add(const StepCost& part, double weight, StepCost& sum) {
  sum.cost.seconds += weight * part.cost.seconds;
  sum.cost.computing += weight * part.cost.computing;
  sum.cost.bytes += std::llround(weight * static_cast<double>(part.cost.bytes));
  sum.cost.bytes_sent += weight * part.cost.bytes_sent;
  sum.host_need += weight * part.host_need;
  sum.device_need += weight * part.device_need;
  sum.variable_bytes += weight * part.variable_bytes;
  sum.has_batch_statistics |= part.has_batch_statistics;
  add_layers(part.layers, weight, sum.layers);
}

void LayoutCosts::complete(StepCost& sum, const Variation& variation) {
  std::erase_if(sum.layers,
                [](const RecomputableLayers& kind) { return kind.count <= 0 || kind.saved <= 0; });
  sum.cost.is_legal = true;
  sum.cost.waiting = sum.cost.seconds - sum.cost.computing;
  sum.cost.fits = fits(sum);
  sum.cost.recompute = variation.recompute;
  sum.cost.microbatches = variation.microbatches;
  has_cost_ = true;
}

LayoutCosts::StepCost LayoutCosts::sum_of(const std::vector<Part*>& parts, const Layouts& layouts,
                                          const Variation& variation) {
  if (layouts.pipeline && parts.size() > 1) return about_stages(layouts, variation);
  StepCost sum;
  for (Part* part : parts) {
    const StepCost of_part = this->of_part(*part, layouts, variation);
    if (!of_part.cost.is_legal) return {};
    add(of_part, part->weight, sum);
  }
  complete(sum, variation);
  return sum;
}

/// Some of the layers of a kind cost as much more as their share of all of them, which are measured: a model with few
/// blocks has no number of layers that stands for one of a deep model.
LayoutCosts::StepCost LayoutCosts::interpolated(
    const std::function<const StepCost&(const Recompute&)>& measured,
    const config::Named<int64_t>& numbers) const {
  const std::vector<RecomputableLayers>& layers = measured(RecomputeWord::kNone).layers;
  std::vector<std::string> without;
  std::optional<std::string> partial;
  double share = 1;
  for (const auto& [name, number] : numbers) {
    const auto kind = std::ranges::find(layers, name, &RecomputableLayers::name);
    if (kind == layers.end()) return {};
    if (number == kind->count) {
      without.push_back(name);
    } else {
      partial = name;
      share = static_cast<double>(number) / static_cast<double>(kind->count);
    }
  }
  std::vector<std::string> with = without;
  if (partial) with.push_back(*partial);
  const StepCost& all = measured(with);
  const StepCost& none = without.empty() ? measured(RecomputeWord::kNone) : measured(without);
  if (!all.cost.is_legal || !none.cost.is_legal) return {};
  StepCost result = none;
  const auto mix = [share](double a, double b) { return a + share * (b - a); };
  result.cost.seconds = mix(none.cost.seconds, all.cost.seconds);
  result.cost.computing = mix(none.cost.computing, all.cost.computing);
  result.cost.waiting = mix(none.cost.waiting, all.cost.waiting);
  result.cost.bytes =
      std::llround(mix(static_cast<double>(none.cost.bytes), static_cast<double>(all.cost.bytes)));
  result.cost.bytes_sent = mix(none.cost.bytes_sent, all.cost.bytes_sent);
  result.host_need = mix(none.host_need, all.host_need);
  result.device_need = mix(none.device_need, all.device_need);
  result.cost.fits = fits(result);
  result.cost.recompute = numbers;
  return result;
}

bool LayoutCosts::fits(const StepCost& cost) const {
  if (memory_.position && cost.cost.bytes > *memory_.position) return false;
  if (!memory_.process) return true;
  const std::optional<MemoryLimit>& device = memory_.process->device;
  return cost.host_need <= static_cast<double>(memory_.process->host.bytes) &&
         (!device || cost.device_need <= static_cast<double>(device->bytes));
}

/// The memory in which the results of layers are.
TightMemory LayoutCosts::memory_of(const StepCost& cost) const {
  if (!memory_.process) {
    constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
    return {cost.cost.bytes, {memory_.position.value_or(kUnlimited), memory_.source}};
  }
  if (const auto& device = memory_.process->device) return {std::llround(cost.device_need), *device};
  return {std::llround(cost.host_need), memory_.process->host};
}

LayoutCost LayoutCosts::cost_of(const std::vector<Part*>& parts, const Layouts& layouts,
                                std::vector<int64_t> counts, double enough,
                                const std::function<bool()>& stop) {
  Variation variation = plain();
  variation.expert_parts = mtf::expert_parts(layouts);
  std::map<std::string, StepCost> costs;  // by Variation::text()
  const auto measured = [&](const Recompute& recompute) -> const StepCost& {
    variation.recompute = recompute;
    const auto [found, added] = costs.try_emplace(variation.text());
    if (added && !stop()) found->second = sum_of(parts, layouts, variation);
    return found->second;
  };
  if (!chooses_recompute() && !chooses_microbatches()) return measured(options_.recompute).cost;

  if (counts.empty()) return {};
  variation.microbatches = counts.front();
  if (const StepCost& first = measured(options_.recompute); is_hopeless(first)) return first.cost;
  RecomputeSearch search(
      {.counts = std::move(counts),
       .chooses_layers = chooses_recompute(),
       .base = options_.recompute,
       .is_pipelined = layouts.pipeline.has_value(),
       .measure = [&](const Recompute& recompute, int64_t microbatches) {
         variation.microbatches = microbatches;
         const auto* numbers = std::get_if<config::Named<int64_t>>(&recompute);
         if (numbers != nullptr && chooses_recompute() && parts.size() > 1) {
           StepCost cost = interpolated(measured, *numbers);
           variation.recompute = recompute;
           costs.insert_or_assign(variation.text(), std::move(cost));
         }
         const StepCost& cost = measured(recompute);
         return MeasuredStep{
             .trial = {.seconds = cost.cost.seconds, .memory = memory_of(cost), .fits = cost.cost.fits},
             .is_legal = cost.cost.is_legal,
             .least_seconds = cost.least_seconds,
             .has_batch_statistics = cost.has_batch_statistics,
             .layers = cost.layers};
       }});
  const MeasuredStep* best = search.run(enough);
  if (best == nullptr) best = search.least_memory();
  if (best == nullptr) return {};
  variation.microbatches = best->trial.microbatches;
  return measured(best->trial.recompute).cost;
}

bool LayoutCosts::is_hopeless(const StepCost& cost) const {
  const std::optional<int64_t> most = most_bytes();
  return cost.cost.is_legal && most && cost.variable_bytes > static_cast<double>(*most);
}

double LayoutCosts::exact_seconds(const Layouts& layouts, const LayoutCost& about) const {
  if (compiled_blocks_ == 0) return 0;
  constexpr double kBuilt = 2;            // graphs of few blocks are used again
  constexpr double kOfMicrobatch = 0.09;  // each one has instructions of its own in a program with stages
  const auto microbatches = static_cast<double>(layouts.pipeline ? about.microbatches : 0);
  return kBuilt * seconds_of_blocks_ / compiled_blocks_ * depth_ * (1 + kOfMicrobatch * microbatches);
}

LayoutCost LayoutCosts::exactly(const Layouts& layouts, const LayoutCost& about,
                                const std::function<bool()>& stop) {
  Variation variation{mtf::expert_parts(layouts), about.recompute, about.microbatches};
  StepCost result = sum_of({&whole_}, layouts, variation);
  if (!about.fits) return result.cost;
  constexpr int64_t kTries = 4, kSmallPart = 32;
  for (int64_t tried = 1; tried < kTries && result.cost.is_legal && !result.cost.fits; ++tried) {
    auto* numbers = std::get_if<config::Named<int64_t>>(&variation.recompute);
    if (numbers == nullptr) break;
    int64_t& number =
        numbers->back().second;  // that of the only kind of which some layers are not recomputed
    number += tried * (number / kSmallPart + 1);
    StepCost more = sum_of({&whole_}, layouts, variation);
    if (!more.cost.is_legal) break;  // there are not so many
    result = std::move(more);
  }
  const bool recomputes = result.cost.recompute != Recompute(RecomputeWord::kNone);
  const bool is_certain = result.cost.fits && !recomputes;
  if (!layouts.pipeline || !chooses_recompute() || !result.cost.is_legal || is_certain) return result.cost;
  const double enough = result.cost.fits ? result.cost.seconds : std::numeric_limits<double>::infinity();
  LayoutCost fewest = cost_of({&whole_}, layouts, {about.microbatches}, enough, stop);
  return fewest.is_legal && fewest.fits && fewest.seconds < enough ? fewest : result.cost;
}

LayoutCost LayoutCosts::operator()(const Layouts& layouts, double enough) {
  std::vector<Part*> parts;
  for (Part& part : shallow_) parts.push_back(&part);
  if (parts.empty()) parts.push_back(&whole_);
  std::vector<int64_t> counts = {options_.microbatches};
  if (chooses_microbatches()) counts = microbatch_counts(layouts, options_.batch_size);
  return cost_of(parts, layouts, std::move(counts), enough, [this] { return is_over(); });
}

}  // namespace mtf
