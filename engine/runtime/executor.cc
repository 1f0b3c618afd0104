#include "engine/runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/runtime/instruction_text.h"
#include "engine/runtime/output_reports.h"
#include "engine/runtime/prepared_program.h"
#include "engine/runtime/program_profile.h"
#include "engine/runtime/recorded_segments.h"
#include "engine/runtime/scalar_value.h"
#include "engine/runtime/slicing.h"
#include "engine/runtime/workspace.h"

namespace mtf {
namespace {

/// The bytes behind the scratch memory of a kernel that tell whether it has written there, and what they hold.
constexpr size_t kGuardBytes = 4096;
constexpr std::byte kGuardByte{0xA5};

/// The work of one worker, on a cache line of its own.
struct alignas(64) WorkerCounters {
  Work work;
};

}  // namespace

class Executor::Implementation {
 public:
  Implementation(Program program, Backend& backend, VariableStore& variables, const ExecutorOptions& options)
      : options_(options),
        backend_(backend),
        own_workspace_(options.workspace == nullptr ? std::make_unique<Workspace>(backend, options.threads)
                                                    : nullptr),
        workspace_(options.workspace == nullptr ? *own_workspace_ : *options.workspace),
        pool_(workspace_.pool),
        prepared_(std::move(program), backend, communicator(), variables, workspace_, options.seed,
                  options.check_replicas),
        workers_(pool_.threads()),
        scratch_bytes_(whole_pages(
            static_cast<int64_t>(prepared_.scratch_bytes() + (guards_scratch() ? kGuardBytes : 0)))),
        scratch_(workspace_.scratch.at_least(scratch_bytes_ * pool_.threads())),
        variables_(variables),
        recorded_(backend, communicator(), prepared_.segments()),
        profile_(options.profile, backend, prepared_.program(), pool_.threads()) {
    for (const auto& [name, id] : this->program().inputs)
      input_shapes_.push_back(this->program().local_shape(id));
  }

  void feed(const std::string& name, const FedPart& part);
  std::byte* input(const std::string& name, int64_t position) {
    MTF_CHECK(backend_.is_host(), "input `{}` is in the memory of a device", name);
    const ValueId id = program().input(name);
    return id == kNoValue ? nullptr : prepared_.address(id, position);
  }
  void run(uint64_t step);
  void carry(const std::string& output, const std::string& input);
  void report(const std::vector<std::string>& outputs);
  std::span<const double> reported(int runs_ago) {
    MTF_CHECK(reports_.has_value(), "the executor reports nothing");
    return reports_->values(runs_ago);
  }
  std::optional<NonFinite> first_non_finite(uint64_t step);
  HostTensor fetch(const std::string& name) const;
  const std::byte* slice(const std::string& name, int64_t position, std::vector<std::byte>& buffer) const {
    return on_host(output(name), position, buffer);
  }
  double scalar(const std::string& name) const;
  std::vector<double> elements(const std::string& name) const;
  const PreparedProgram& prepared() const { return prepared_; }
  const Counters& counters() const { return counters_; }
  int64_t recorded_nodes() const { return recorded_.nodes(); }

 private:
  const Program& program() const { return prepared_.program(); }
  Communicator& communicator() {
    return options_.communicator != nullptr ? *options_.communicator : in_process_;
  }
  void run(std::span<const PreparedSegment> segments, int64_t iteration);
  void run(const KernelSteps& segment, int64_t iteration);
  void run(const CollectiveStep& step, int64_t iteration);
  void run(const StartStep& step, int64_t iteration);
  void run(const TransferStep& step, int64_t iteration);
  void run(const WaitStep& step, int64_t iteration);
  void run(const LoopStep& step, int64_t iteration);
  /// Runs an instruction. If each is awaited on the device, waits for it; an error then names the instruction.
  template <class Action>
  void run_located(const PreparedStep& step, const Action& action);
  void run_together(std::span<const KernelStep> steps, int64_t iteration);
  void run_tasks(const KernelStep& step, int64_t coordinate, int64_t begin, int64_t end, int64_t iteration,
                 int worker);
  void check(const PreparedStep& step, const std::vector<ValueId>& results, int64_t iteration);
  void check_replicas(const PreparedStep& step, ValueId id);
  void check_finite(ValueId id);
  std::optional<NonFinite> non_finite_at_rest() const;
  NonFinite examine_slices(ValueId id) const;
  ValueId output(const std::string& name) const;
  /// An output that each position has as a whole.
  ValueId whole_output(const std::string& name) const;
  /// True if each instruction is awaited on the device.
  bool is_awaited() const { return backend_.submission() == Submission::kAwaited; }
  /// True if what kernels write behind their scratch memory is noticed.
  bool guards_scratch() const { return options_.check_replicas && backend_.is_host(); }
  /// True if the instructions run one after the other, and results are checked after each.
  bool is_stepwise() const { return options_.check_replicas || search_.has_value() || is_awaited(); }
  /// True if the guard of the step holds at a coordinate, or the step has none. On a device this waits for
  /// the value.
  bool guard_holds(const PreparedStep& step, int64_t coordinate) const;
  /// Called before the step is run or enqueued.
  void before(const PreparedStep& step) {
    if (step.writes_variables) variables_.await_copies();
  }
  const std::byte* on_host(ValueId id, int64_t position, std::vector<std::byte>& buffer) const {
    return backend_.on_host(prepared_.address(id, position), program().local_bytes(id), buffer);
  }

  ExecutorOptions options_;
  Backend& backend_;
  InProcessCommunicator in_process_;
  std::unique_ptr<Workspace> own_workspace_;  ///< null if it is shared
  Workspace& workspace_;
  ThreadPool& pool_;
  PreparedProgram prepared_;
  std::vector<WorkerCounters> workers_;
  int64_t scratch_bytes_;  ///< scratch memory of one worker
  std::shared_ptr<DeviceMemory> scratch_;
  VariableStore& variables_;
  RecordedSegments recorded_;
  ProgramProfile profile_;
  std::vector<std::pair<ValueId, ValueId>> carried_;  ///< outputs that become inputs of the next run
  std::optional<OutputReports> reports_;
  mutable std::vector<std::byte> host_slice_;  ///< staging buffer for a slice of a device that is read
  std::vector<Shape> input_shapes_;            ///< shape of one position's slice, by input
  std::vector<int64_t> begin_;                 ///< global index at which the slice being fed begins
  Counters counters_;
  std::optional<NonFiniteSearch> search_;  ///< set while first_non_finite() runs
};

void Executor::Implementation::feed(const std::string& name, const FedPart& part) {
  const ValueId id = program().input(name);
  if (id == kNoValue) return;  // the program does not depend on it
  const Value& value = program().values[id];
  const Shape& local = input_shapes_[value.index];
  const HostedCopies& copies = prepared_.copies(prepared_.stored(id));
  std::byte* memory = prepared_.inputs().fill(static_cast<size_t>(value.index));
  for (int64_t copy = 0; copy < copies.size(); ++copy) {
    const int64_t position = copies.position(copy);
    begin_ = prepared_.begin(id, position);
    for (size_t axis = 0; axis < part.begin.size(); ++axis) begin_[axis] -= part.begin[axis];
    const auto* const from = static_cast<const std::byte*>(part.data);
    std::byte* const to = memory + prepared_.offset_in_input(id, position);
    if (part.in_bytes) {
      MTF_CHECK(value.dtype == DType::kFloat32, "bytes for input `{}` of {}", name, name_of(value.dtype));
      scale_to_slice(part.shape, local, begin_, from, reinterpret_cast<float*>(to));
    } else {
      copy_to_slice(part.shape, local, begin_, size_of(value.dtype), from, to);
    }
  }
}

void Executor::Implementation::run(uint64_t step) {
  for (WorkerCounters& worker : workers_) worker = {};
  prepared_.inputs().set_step(step);
  prepared_.inputs().send();
  const auto enqueue = [&](std::span<const PreparedSegment> segments) { run(segments, 0); };
  profile_.begin();
  // A recording has no place to wait for copies of variables: a run that may have to is enqueued as a whole.
  if (backend_.is_host() || is_stepwise() || profile_.is_on() || variables_.are_copied()) {
    enqueue(prepared_.segments());
  } else {
    recorded_.run(enqueue, workers_[0].work);
  }
  for (const auto& [output, input] : carried_) {
    const HostedCopies& copies = prepared_.copies(prepared_.stored(input));
    for (int64_t copy = 0; copy < copies.size(); ++copy) {
      const int64_t position = copies.position(copy);
      backend_.copy(prepared_.address(input, position), prepared_.address(output, position),
                    program().local_bytes(input));
    }
  }
  if (reports_) reports_->begin();
  profile_.end();
  const auto positions = static_cast<double>(prepared_.mesh().positions());
  ++counters_.runs;
  for (const WorkerCounters& worker : workers_) {
    counters_.flops_per_position += worker.work.flops / positions;
    counters_.bytes_per_position += worker.work.bytes / positions;
    counters_.bytes_to_processes += worker.work.bytes_to_processes;
  }
}

void Executor::Implementation::carry(const std::string& name, const std::string& input_name) {
  const ValueId from = output(name), to = program().input(input_name);
  MTF_CHECK(to != kNoValue && program().local_bytes(from) == program().local_bytes(to),
            "output `{}` cannot become input `{}`", name, input_name);
  carried_.emplace_back(from, to);
}

void Executor::Implementation::report(const std::vector<std::string>& outputs) {
  std::vector<OutputReports::Output> reported;
  for (const std::string& name : outputs) {
    const ValueId id = whole_output(name);
    const Value& value = program().values[id];
    reported.push_back({value.dtype, value.shape.size(), prepared_.address(id, prepared_.mesh().begin())});
  }
  reports_.emplace(backend_, reported);
}

template <class Action>
void Executor::Implementation::run_located(const PreparedStep& step, const Action& action) {
  if (!is_awaited()) return action();
  try {
    action();
    backend_.wait();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeerLost) throw;
    throw located_error(program(), *step.instruction, backend_.device_info()->name, error);
  }
}

void Executor::Implementation::run(std::span<const PreparedSegment> segments, int64_t iteration) {
  for (const PreparedSegment& segment : segments)
    std::visit([&](const auto& steps) { run(steps, iteration); }, segment.steps);
}

void Executor::Implementation::run(const LoopStep& step, int64_t) {
  for (int64_t i = 0; i < step.count; ++i) {
    if (search_) search_->enter(*step.instruction, i);
    run(step.body, i);
    if (search_) search_->leave();
  }
}

/// With at least as many coordinates as threads, each worker runs the whole segment for one coordinate at a
/// time. Otherwise the tasks of steps that may run at the same time are divided among the workers, in ranges: a kernel may do
/// some tasks together in less time than one by one.
void Executor::Implementation::run(const KernelSteps& segment, int64_t iteration) {
  if (is_stepwise()) {
    for (const KernelStep& step : segment.steps) {
      run_located(step, [&] { run_together({&step, 1}, iteration); });
      check(step, step.results, iteration);
    }
  } else if (segment.at.count >= pool_.threads()) {
    pool_.run(segment.at.count, [&](int64_t coordinate, int worker) {
      for (const KernelStep& step : segment.steps)
        run_tasks(step, coordinate, 0, step.tasks, iteration, worker);
    });
  } else {
    size_t begin = 0;
    for (const size_t end : segment.ends) {
      run_together(std::span(segment.steps).subspan(begin, end - begin), iteration);
      begin = end;
    }
  }
}

/// Runs steps that may run at the same time.
void Executor::Implementation::run_together(std::span<const KernelStep> steps, int64_t iteration) {
  int64_t tasks = 0;
  for (const KernelStep& step : steps) tasks += step.at.count * step.tasks;
  pool_.run_ranges(tasks, [&](int64_t begin, int64_t end, int worker) {
    int64_t first = 0;  // task of the first coordinate of the step
    for (const KernelStep& step : steps) {
      const int64_t last = first + step.at.count * step.tasks;
      while (begin < std::min(end, last)) {
        const int64_t coordinate = (begin - first) / step.tasks, task = (begin - first) % step.tasks,
                      next = std::min(std::min(end, last) - begin, step.tasks - task) + task;
        run_tasks(step, coordinate, task, next, iteration, worker);
        begin += next - task;
      }
      first = last;
    }
  });
}

void Executor::Implementation::run_tasks(const KernelStep& step, int64_t coordinate, int64_t begin,
                                         int64_t end, int64_t iteration, int worker) {
  const bool* guard = step.guards.empty() ? nullptr : step.guards[coordinate];
  if (backend_.is_host() && guard != nullptr && !*guard) return;
  before(step);
  if (options_.before_task) options_.before_task();
  const ProgramProfile::Span span = profile_.span(*step.instruction, worker, coordinate);
  const Slice* slices = step.slices.data() + coordinate * static_cast<int64_t>(step.inputs + step.outputs);
  std::byte* const scratch = scratch_->data() + worker * scratch_bytes_;
  const KernelCall call{{slices, step.inputs},     {slices + step.inputs, step.outputs}, scratch,
                        prepared_.inputs().step(), step.iteration_in(iteration),         guard};
  std::span<std::byte> behind;
  if (guards_scratch()) behind = {scratch + step.kernel->scratch_bytes(), kGuardBytes};
  std::ranges::fill(behind, kGuardByte);
  Work& work = workers_[worker].work;
  work.flops += static_cast<double>(step.kernel->run(call, begin, end)) * step.positions;
  work.bytes += step.bytes * static_cast<double>(end - begin);
  MTF_CHECK(std::ranges::all_of(behind, [](std::byte b) { return b == kGuardByte; }),
            "{} has written behind its scratch memory", to_string(program(), *step.instruction));
}

void Executor::Implementation::run(const CollectiveStep& step, int64_t iteration) {
  before(step);
  int64_t tasks = 0;
  for (const CollectivePart& part : step.parts) tasks += part.tasks * step.coordinates;
  auto run_task = [&](int64_t task, int worker) {
    const CollectivePart* part = step.parts.data();
    for (; task >= part->tasks * step.coordinates; ++part) task -= part->tasks * step.coordinates;
    const int64_t coordinate = task / part->tasks, begin = task % part->tasks;
    const bool* guard = step.guards.empty() ? nullptr : step.guards[coordinate];
    if (backend_.is_host() && guard != nullptr && !*guard) return;
    if (options_.before_task) options_.before_task();
    const ProgramProfile::Span span = profile_.span(*step.instruction, worker, coordinate);
    const std::span<const std::byte* const> inputs(part->inputs.data() + coordinate * part->members,
                                                   static_cast<size_t>(part->members));
    workers_[worker].work.bytes += part->collective->run(inputs, part->member[coordinate],
                                                         part->results[coordinate], begin, begin + 1, guard) *
                                   part->positions[coordinate];
  };
  run_located(step, [&] { pool_.run(tasks, run_task); });
  check(step, step.instruction->outputs, iteration);
}

bool Executor::Implementation::guard_holds(const PreparedStep& step, int64_t coordinate) const {
  if (step.guards.empty()) return true;
  const auto* guard = reinterpret_cast<const std::byte*>(step.guards[coordinate]);
  return *reinterpret_cast<const bool*>(backend_.on_host(guard, sizeof(bool), host_slice_));
}

void Executor::Implementation::run(const StartStep& step, int64_t) {
  if (!communicator().is_on_device() && !guard_holds(step, 0)) return;
  before(step);
  if (options_.before_task) options_.before_task();
  const ProgramProfile::Span span = profile_.span(*step.instruction);
  run_located(step, [&] {
    step.pending->collective->start();
    step.pending->running = true;
    if (!options_.overlap) step.pending->collective->wait();
  });
}

void Executor::Implementation::run(const TransferStep& step, int64_t) {
  const ProgramProfile::Span span = profile_.span(*step.instruction);
  run_located(step, [&] { step.transfer->begin(); });
}

void Executor::Implementation::run(const WaitStep& step, int64_t iteration) {
  const ProgramProfile::Span span = profile_.span(*step.instruction);
  run_located(step, [&] {
    for (PendingCollective* pending : step.awaited) {
      if (!std::exchange(pending->running, false)) continue;
      pending->collective->wait();
      workers_[0].work.bytes += pending->bytes;
      workers_[0].work.bytes_to_processes += pending->collective->bytes_sent();
    }
    for (MemoryTransfer* transfer : step.transfers) transfer->hold_back();
  });
  check(step, step.instruction->inputs, iteration);
}

void Executor::Implementation::check(const PreparedStep& step, const std::vector<ValueId>& results,
                                     int64_t iteration) {
  if (!is_stepwise()) return;
  // A batch that is assembled from microbatches has undefined elements until the last one is written.
  const auto* place = step.instruction->as<action::Place>();
  if (place && step.iteration_in(iteration) + 1 < place->count) return;
  if (!guard_holds(step, 0)) return;
  for (ValueId id : results) {
    if (options_.check_replicas) check_replicas(step, id);
    if (search_) check_finite(id);
  }
}

std::optional<NonFinite> Executor::Implementation::first_non_finite(uint64_t step) {
  prepared_.inputs().send();
  // All processes must agree on whether to run the program.
  if (const auto found = earliest(communicator(), non_finite_at_rest())) return found;
  search_.emplace(program());
  run(step);
  const std::optional<NonFinite> found = std::move(search_->found);
  search_.reset();
  return earliest(communicator(), found);
}

void Executor::Implementation::check_finite(ValueId id) {
  const ValueId made = prepared_.computed_as(id);
  std::vector<int64_t> order = search_->order(made);
  if (search_->found && search_->found->order <= order) return;
  NonFinite found = examine_slices(id);
  if (found.nans + found.infinities == 0) return;
  const Instruction& maker = search_->maker(made);
  found.order = std::move(order);
  found.tensor = instruction_text(program(), maker);
  found.operation = name_of(maker);
  found.layer = maker.provenance.path();
  search_->found = std::move(found);
}

/// The first input, or else variable, with a value that is not finite before the step.
std::optional<NonFinite> Executor::Implementation::non_finite_at_rest() const {
  std::optional<NonFinite> first;
  int64_t number = 0;
  const auto check = [&](std::string_view kind, const std::string& name, ValueId id) {
    ++number;
    if (id == kNoValue || first) return;
    NonFinite found = examine_slices(id);
    if (found.nans + found.infinities == 0) return;
    found.order = {number};
    found.tensor = fmt::format("{} `{}`", kind, name);
    first = std::move(found);
  };
  for (const auto& [name, id] : program().inputs) check("input", name, id);
  for (const ProgramVariable& v : program().variables) check("variable", v.variable.name, v.value);
  return first;
}

NonFinite Executor::Implementation::examine_slices(ValueId id) const {
  NonFinite found;
  const HostedCopies& copies = prepared_.copies(prepared_.stored(id));
  for (int64_t copy = 0; copy < copies.size(); ++copy) {
    examine(program().values[id].dtype, on_host(id, copies.position(copy), host_slice_),
            program().local_shape(id).size(), found);
  }
  return found;
}

void Executor::Implementation::check_replicas(const PreparedStep& step, ValueId id) {
  const HostedMesh& mesh = prepared_.mesh();
  const Layout& layout = program().values[id].layout;
  const HostedCopies& copies = prepared_.copies(layout.copies());
  std::vector<std::byte> other_slice;
  for (int64_t position = mesh.begin(); position < mesh.begin() + mesh.positions(); ++position) {
    if (layout.pin && !mesh.mesh().is_at(position, *layout.pin)) continue;
    const int64_t other = copies.position(*copies.find(position));
    if (std::memcmp(on_host(id, position, host_slice_), on_host(id, other, other_slice),
                    static_cast<size_t>(program().local_bytes(id))) == 0) {
      continue;
    }
    throw Error(ErrorKind::kSystem, fmt::format("positions {} and {} hold different replicas after {}", other,
                                                position, to_string(program(), *step.instruction)));
  }
}

ValueId Executor::Implementation::output(const std::string& name) const {
  const ValueId id = program().output(name);
  MTF_CHECK(id != kNoValue, "the program has no output `{}`", name);
  return id;
}

ValueId Executor::Implementation::whole_output(const std::string& name) const {
  const ValueId id = output(name);
  MTF_CHECK(program().local_shape(id) == program().values[id].shape, "output `{}` is split", name);
  return id;
}

HostTensor Executor::Implementation::fetch(const std::string& name) const {
  const ValueId id = output(name);
  const Value& value = program().values[id];
  return gather_slices(
      value.shape, value.dtype, value.layout, prepared_.mesh(),
      [&](int64_t position) { return on_host(id, position, host_slice_); }, options_.communicator, name);
}

double Executor::Implementation::scalar(const std::string& name) const {
  const ValueId id = output(name);
  return scalar_value(program().values[id].dtype, on_host(id, prepared_.mesh().begin(), host_slice_));
}

std::vector<double> Executor::Implementation::elements(const std::string& name) const {
  const ValueId id = whole_output(name);
  const Value& value = program().values[id];
  const std::byte* const data = on_host(id, prepared_.mesh().begin(), host_slice_);
  std::vector<double> result;
  for (int64_t i = 0; i < value.shape.size(); ++i)
    result.push_back(scalar_value(value.dtype, data + i * size_of(value.dtype)));
  return result;
}

Executor::Executor(Program program, Backend& backend, VariableStore& variables,
                   const ExecutorOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(program), backend, variables, options)) {}

Executor::~Executor() = default;

void Executor::feed(const std::string& name, const void* data, int64_t first) {
  const ValueId id = program().input(name);
  if (id == kNoValue) return;
  const Shape& shape = program().values[id].shape;
  implementation_->feed(name, {data, shape, std::span(&first, shape.rank() > 0 ? 1 : 0)});
}

void Executor::feed(const std::string& name, const FedPart& part) { implementation_->feed(name, part); }

std::byte* Executor::input(const std::string& name, int64_t position) {
  return implementation_->input(name, position);
}

void Executor::feed_scalar(const std::string& name, double value) {
  const ValueId id = program().input(name);
  if (id == kNoValue) return;
  feed(name, scalar_bytes(program().values[id].dtype, value).data());
}

void Executor::run(uint64_t step) { implementation_->run(step); }
void Executor::carry(const std::string& output, const std::string& input) {
  implementation_->carry(output, input);
}
void Executor::report(const std::vector<std::string>& outputs) { implementation_->report(outputs); }
std::span<const double> Executor::reported(int runs_ago) { return implementation_->reported(runs_ago); }
HostTensor Executor::fetch(const std::string& name) const { return implementation_->fetch(name); }
const std::byte* Executor::slice(const std::string& name, int64_t position,
                                 std::vector<std::byte>& buffer) const {
  return implementation_->slice(name, position, buffer);
}

double Executor::scalar(const std::string& name) const { return implementation_->scalar(name); }
std::vector<double> Executor::elements(const std::string& name) const {
  return implementation_->elements(name);
}
const Program& Executor::program() const { return implementation_->prepared().program(); }
const MemoryPlan& Executor::memory() const { return implementation_->prepared().memory(); }
const Counters& Executor::counters() const { return implementation_->counters(); }
int64_t Executor::recorded_nodes() const { return implementation_->recorded_nodes(); }

std::optional<NonFinite> Executor::first_non_finite(uint64_t step) {
  return implementation_->first_non_finite(step);
}

}  // namespace mtf
