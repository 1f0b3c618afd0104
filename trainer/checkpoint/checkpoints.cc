#include "trainer/checkpoint/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "engine/base/exception.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/checkpoint/blocks.h"
#include "engine/comm/rendezvous/handshake.h"
#include "engine/core/convert_elements.h"
#include "engine/runtime/slicing.h"
#include "models/model.h"
#include "trainer/checkpoint/file_names.h"
#include "trainer/optimizer/averages.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/vocabulary_check.h"

namespace mtf {
namespace {

/// The upper limit of valid steps, rows, tokens and seconds. It leaves room for the sums and products
/// computed from them.
constexpr double kMostCounted = 0x1p53;

/// The data set's name in Manifest::next_rows under which the next training row is stored.
constexpr const char* kTrainRows = "train";

/// The prefix of Manifest::state's names of slots that began later than at step 0.
constexpr std::string_view kSlotBegin = "slot_begin/";

std::map<std::string, double> numbers_of(const RunState& state, bool kept) {
  std::map<std::string, double> numbers{
      {"seconds", state.seconds},
      {"evaluation_seconds", state.evaluation_seconds},
      {"rate_scale", state.rate_scale},
      {"tokens", static_cast<double>(state.tokens)},
      {"worse_evaluations", static_cast<double>(state.worse_evaluations)},
      {"evaluation_pending", state.evaluation_pending ? 1 : 0},
      {"kept", kept ? 1 : 0},
  };
  if (state.best) numbers["best"] = *state.best;
  return numbers;
}

/// Adds the steps at which the slots among `variables` began, where these are not 0.
void add_slot_begins(const RunState& state, const VariableStore& variables,
                     std::map<std::string, double>& numbers) {
  for (const std::string& name : variables.names()) {
    if (!has_begin(variables.variable(name))) continue;
    const int64_t begin = state.slot_begins->of(name);
    if (begin > 0) numbers[std::string(kSlotBegin) + name] = static_cast<double>(begin);
  }
}

std::shared_ptr<const SlotBegins> slot_begins(const Manifest& manifest) {
  std::set<std::string, std::less<>> saved;
  for (const CheckpointVariable& variable : manifest.variables) saved.insert(variable.name);
  std::map<std::string, int64_t> late;
  for (const auto& [name, value] : manifest.state) {
    if (name.starts_with(kSlotBegin)) late[name.substr(kSlotBegin.size())] = static_cast<int64_t>(value);
  }
  return std::make_shared<SlotBegins>(manifest.step, std::move(saved), std::move(late));
}

std::optional<double> number(const std::map<std::string, double>& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

/// True if the value `a` of the metric "DATASET/METRIC" is better than `b`.
bool better(const std::string& metric, double a, double b) {
  return greater_is_better(metric.substr(metric.rfind('/') + 1)) ? a > b : a < b;
}

/// Returns the manifest, or nullopt if it is damaged.
std::optional<Manifest> try_manifest(const SavedCheckpoint& saved) {
  try {
    return read_manifest(saved.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The set of checkpoints that are kept when old ones are removed.
class Kept {
 public:
  explicit Kept(const CheckpointOptions& options) : options_(options) {}

  void choose(const std::vector<SavedCheckpoint>& saved) {
    for (const SavedCheckpoint& checkpoint : saved) add(checkpoint);
    const size_t last = std::min(saved.size(), static_cast<size_t>(options_.keep_last));
    for (size_t i = saved.size() - last; i < saved.size(); ++i) steps_.push_back(saved[i].step);
    if (!options_.keep_best) return;
    const std::vector<SavedValue> values = best_first(saved, options_.keep_best->metric);
    for (size_t i = 0; i < std::min(values.size(), static_cast<size_t>(options_.keep_best->count)); ++i)
      steps_.push_back(values[i].step);
  }
  bool contains(int64_t step) const { return std::ranges::find(steps_, step) != steps_.end(); }

 private:
  void add(const SavedCheckpoint& checkpoint) {
    const std::optional<Manifest> manifest = try_manifest(checkpoint);
    // A checkpoint that cannot be read is not removed.
    if (!manifest || number(manifest->state, "kept").value_or(0) != 0) steps_.push_back(checkpoint.step);
  }

  const CheckpointOptions& options_;
  std::vector<int64_t> steps_;
};

}  // namespace

std::vector<SavedValue> best_first(const std::vector<SavedCheckpoint>& saved, const std::string& metric) {
  std::vector<SavedValue> values;
  for (const SavedCheckpoint& checkpoint : saved) {
    const std::optional<Manifest> manifest = try_manifest(checkpoint);
    if (!manifest) continue;
    if (const auto value = number(manifest->metrics, metric)) values.push_back({checkpoint.step, *value});
  }
  std::ranges::stable_sort(
      values, [&](const SavedValue& a, const SavedValue& b) { return better(metric, a.value, b.value); });
  return values;
}

RunState run_state(const Manifest& manifest, const std::string& checkpoint) {
  const auto check = [&](const std::string& name, double value) {
    if (value >= 0 && value <= kMostCounted) return;
    throw_damaged(fmt::format("{}/{}", checkpoint, Manifest::kFile),
                  fmt::format("`{}` is {}, where no run can stand", name, value));
  };
  check("step", static_cast<double>(manifest.step));
  for (const auto& [name, row] : manifest.next_rows)
    check(fmt::format("{}` of `next_rows", name), static_cast<double>(row));
  for (const auto& [name, value] : manifest.state) {
    if (name == "best") continue;  // the value of a metric, which may be negative
    check(name, value);
    if (name.starts_with(kSlotBegin) && value > static_cast<double>(manifest.step)) {
      throw_damaged(fmt::format("{}/{}", checkpoint, Manifest::kFile),
                    fmt::format("`{}` is {}, after its step {}", name, value, manifest.step));
    }
  }
  const auto value = [&](const char* name, double otherwise) {
    return number(manifest.state, name).value_or(otherwise);
  };
  RunState state;
  state.step = manifest.step;
  const auto row = manifest.next_rows.find(kTrainRows);
  if (row == manifest.next_rows.end()) {
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} holds no place in the training data", checkpoint_name(manifest.step)),
                "it holds weights only; `checkpoint.init.path` starts a fresh run from them");
  }
  state.next_row = row->second;
  state.seconds = value("seconds", 0);
  state.evaluation_seconds = value("evaluation_seconds", 0);
  state.rate_scale = value("rate_scale", 1);
  state.tokens = static_cast<int64_t>(value("tokens", 0));
  state.best = number(manifest.state, "best");
  state.worse_evaluations = static_cast<int64_t>(value("worse_evaluations", 0));
  state.evaluation_pending = value("evaluation_pending", 0) != 0;
  state.slot_begins = slot_begins(manifest);
  return state;
}

bool is_better(const std::string& metric, double value, const std::optional<double>& before) {
  return std::isfinite(value) && (!before || better(metric, value, *before));
}

RunPosition position_of(const Session& session, const RunState& state) {
  return {state.step,
          static_cast<double>(state.next_row) / static_cast<double>(session.train_data->examples()),
          state.training_seconds()};
}

std::string checkpoints_directory(const Config& config) { return in_model_dir(config, "checkpoints"); }

Checkpoints::Checkpoints(const Session& session, VariableStore& variables, const RunState& start)
    : session_(session),
      options_(session.config.checkpoint),
      variables_(variables),
      directory_(checkpoints_directory(session.config)),
      config_(resolved_yaml(session.config)),
      keep_clock_(options_.keep_every.value_or(config::Interval{}), position_of(session, start)) {
  if (session.processes->is_first()) {
    remove_unfinished(directory_);
    remove_old();  // what an interrupted save has left
  }
  if (options_.keep_best) best_ = saved_values();
  for (const std::string& name : variables_.names()) {
    if (variables_.variable(name).is_saved()) add_pieces(variables_.variable(name));
  }
  if (session_.backend->is_host()) return;
  CopySources sources;
  for (const Piece& piece : snapshot_) {
    for (const VariableStore::StoredSlice& slice : piece.slices)
      sources.emplace_back(slice.data, static_cast<size_t>(slice.bytes));
  }
  copy_ = session_.backend->make_host_copy(std::move(sources), CopyOrder::kConcurrent);
}

/// Returns the checkpoints' values of checkpoint.keep_best.metric. Process 0 reads them and broadcasts them,
/// so that all processes make the same decisions.
std::vector<SavedValue> Checkpoints::saved_values() const {
  std::string found;
  if (session_.processes->is_first()) {
    for (const auto& [step, value] : best_first(list_checkpoints(directory_), options_.keep_best->metric))
      found += fmt::format("{} {}\n", step, value);
  }
  std::istringstream lines(broadcast(session_.processes->communicator(), found, "metrics of checkpoints"));
  std::vector<SavedValue> values;
  for (SavedValue saved; lines >> saved.step >> saved.value;) values.push_back(saved);
  return values;
}

Checkpoints::~Checkpoints() {
  if (pending_.valid()) pending_.wait();
}

void Checkpoints::save(const RunState& state, const Metrics& metrics) {
  Profile* const profile = session_.profile.get();
  const ProfileSpan span = span_on(profile, kMainTrack, "snapshot", ProfileCategory::kCheckpoint);
  wait();
  copy_variables();
  Manifest manifest;
  manifest.step = state.step;
  manifest.seed = static_cast<uint64_t>(session_.config.run.seed);
  manifest.config_hash = hash128_hex(config_);
  manifest.config = config_;
  manifest.next_rows[kTrainRows] = state.next_row;
  manifest.instruction_set = session_.backend->instruction_set();
  manifest.mesh = session_.layouts.mesh.to_string();
  manifest.vocabularies = fingerprints(session_.vocabularies);
  manifest.state = numbers_of(state, keep_clock_.due(position_of(session_, state)));
  add_slot_begins(state, variables_, manifest.state);
  for (const auto& [name, value] : metrics) {
    if (!std::isfinite(value)) continue;
    manifest.metrics[name] = value;
    if (options_.keep_best && name == options_.keep_best->metric) best_.push_back({state.step, value});
  }
  in_hand_ = true;
  pending_ = std::async(std::launch::async, [this, manifest = std::move(manifest),
                                             name = fmt::format("checkpoint/{}/{}", state.step, ++saves_),
                                             profile] {
    const ProfileSpan span = span_on(profile, "checkpoint", "write checkpoint", ProfileCategory::kCheckpoint);
    write(manifest, name);
  });
}

bool Checkpoints::is_best(const Metrics& metrics) const {
  if (!options_.keep_best) return false;
  const std::string& metric = options_.keep_best->metric;
  for (const auto& [name, value] : metrics) {
    if (name != metric || !std::isfinite(value)) continue;
    const auto ahead = std::ranges::count_if(
        best_, [&, mine = value](const SavedValue& other) { return !better(metric, mine, other.value); });
    return ahead < options_.keep_best->count;
  }
  return false;
}

void Checkpoints::check() {
  if (pending_.valid() && is_written(std::chrono::milliseconds(0))) pending_.get();
}

bool Checkpoints::is_written(std::chrono::milliseconds patience) const {
  return !pending_.valid() || pending_.wait_for(patience) == std::future_status::ready;
}

void Checkpoints::wait() {
  if (!std::exchange(in_hand_, false)) return;
  // The processes exchange their states until all have written, so the loss of a process ends the wait.
  Communicator& communicator = session_.processes->communicator();
  for (bool all = false; !all;) {
    check();
    const std::string mine = is_written(std::chrono::milliseconds(100)) ? "" : "writes";
    all = std::ranges::all_of(all_gather(communicator, mine, "wait for the checkpoint"), &std::string::empty);
  }
  check();
}

/// Adds what this process saves of the variable: a single process saves whole variables, several save slices.
void Checkpoints::add_pieces(const Variable& variable) {
  std::vector<VariableStore::StoredSlice> slices;
  std::set<std::vector<int64_t>> begins;  // with run.check_replicas several positions hold copies of a slice
  for (VariableStore::StoredSlice& slice : variables_.slices(variable.name)) {
    if (slice.first && begins.insert(slice.begin).second) slices.push_back(std::move(slice));
  }
  if (session_.processes->size() == 1) {
    snapshot_.push_back({&variable, {}, variable.shape, std::move(slices), {}, {}});
    return;
  }
  for (VariableStore::StoredSlice& slice : slices) {
    const std::vector<int64_t> begin =
        std::exchange(slice.begin, std::vector<int64_t>(slice.begin.size(), 0));
    snapshot_.push_back({&variable, begin, slice.shape, {slice}, {}, {}});
  }
}

/// Copies the variables. A device goes on meanwhile: the copy is complete when await_copy() returns.
void Checkpoints::copy_variables() {
  if (copy_) return variables_.begin(copy_);
  for (Piece& piece : snapshot_) {
    assemble(piece, [&](size_t slice) { return piece.slices[slice].data; });
  }
}

/// Waits for the copy from a device, on the background thread.
void Checkpoints::await_copy() {
  if (!copy_) return;
  copy_->wait();
  size_t first = 0;  // number of the piece's first slice in the copy
  for (Piece& piece : snapshot_) {
    const bool is_whole = piece.slices.size() == 1 && piece.slices[0].shape == piece.shape;
    if (is_whole) {
      piece.values = {copy_->part(first), static_cast<size_t>(piece.slices[0].bytes)};
    } else {
      assemble(piece, [&](size_t slice) { return copy_->part(first + slice); });
    }
    first += piece.slices.size();
  }
}

/// Copies the slices of a piece to their places. data_of(i) is slice number i, in the host's memory.
template <class DataOf>
void Checkpoints::assemble(Piece& piece, const DataOf& data_of) {
  const size_t element_bytes = size_of(piece.variable->dtype);
  piece.bytes.resize(static_cast<size_t>(piece.shape.size()) * element_bytes);
  for (size_t i = 0; i < piece.slices.size(); ++i) {
    copy_from_slice(piece.shape, piece.slices[i].shape, piece.slices[i].begin, element_bytes, data_of(i),
                    piece.bytes.data());
  }
  piece.values = piece.bytes;
}

/// Writes the snapshot, on the background thread. The processes synchronise through their key-value store,
/// not with collectives, which the training thread uses at the same time. `name` identifies this save in the
/// store.
void Checkpoints::write(const Manifest& manifest, const std::string& name) {
  ProcessGroup& processes = *session_.processes;
  const bool is_first = processes.is_first();
  CheckpointWriter writer(directory_, manifest.step);
  processes.first_then_others(name + "/begin", [&] {
    if (is_first) writer.begin();
  });
  std::string written;  // empty if writing failed
  std::optional<Error> failure;
  try {
    await_copy();
    WrittenPart part = write_pieces(writer);
    part.writer = process_name(processes.launch());
    written = to_json(part);
  } catch (const std::exception& error) {
    failure = as_error(error, "mtf-train");
  }
  const std::vector<std::string> texts = processes.collect(name + "/parts", written);
  processes.first_then_others(name + "/written", [] {});  // from here on no process writes into the directory
  if (failure) processes.refuse(*failure);
  processes.first_then_others(name + "/end", [&] {
    if (!is_first) return;
    std::vector<WrittenPart> parts;
    for (size_t process = 0; process < texts.size(); ++process) {
      if (texts[process].empty()) processes.await_failure(static_cast<int>(process));
      parts.push_back(parse_part(texts[process]));
    }
    writer.finish(manifest, parts);
    remove_old();
    fault_point("save.done");
  });
}

WrittenPart Checkpoints::write_pieces(CheckpointWriter& writer) const {
  const auto empty_file = [&](std::string_view stem) {
    return CheckpointFile{file_name_of_process(stem, session_.processes->rank(), session_.processes->size()),
                          {}};
  };
  CheckpointFile weights = empty_file("weights"), slots = empty_file("optimizer"),
                 averages = empty_file("averages");
  const auto file_of = [&](const Variable& variable) -> CheckpointFile& {
    if (is_average(variable)) return averages;
    return variable.kind == Variable::Kind::kSlot ? slots : weights;
  };
  const DType master = precision_of(session_.config).master;
  std::list<std::vector<std::byte>> converted;  // converted copies, which must live until they are written
  for (const Piece& piece : snapshot_) {
    const Variable& variable = *piece.variable;
    const DType dtype = variable.kind == Variable::Kind::kWeight ? master : variable.dtype;
    std::span<const std::byte> bytes = piece.values;
    if (dtype != variable.dtype) {
      const int64_t elements = piece.shape.size();
      std::vector<std::byte>& other = converted.emplace_back(static_cast<size_t>(elements) * size_of(dtype));
      convert_elements(piece.values.data(), variable.dtype, other.data(), dtype, elements);
      bytes = other;
    }
    file_of(variable).tensors.push_back({variable.name, dtype, variable.shape, piece.begin,
                                         piece.begin.empty() ? std::vector<int64_t>{} : piece.shape.sizes(),
                                         bytes});
  }
  std::vector<CheckpointFile> files;
  for (CheckpointFile* file : {&weights, &slots, &averages}) {
    if (!file->tensors.empty()) files.push_back(std::move(*file));
  }
  return writer.write(files);
}

void Checkpoints::remove_old() {
  const std::vector<SavedCheckpoint> saved = list_checkpoints(directory_);
  Kept kept(options_);
  kept.choose(saved);
  for (const SavedCheckpoint& checkpoint : saved) {
    if (!kept.contains(checkpoint.step)) remove_checkpoint(checkpoint);
  }
}

}  // namespace mtf
