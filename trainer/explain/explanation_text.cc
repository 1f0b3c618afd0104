#include "trainer/explain/explanation_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trainer/explain/table.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

constexpr auto kRight = TextTable::kRight;

std::string bytes_text(int64_t bytes) { return mtf::bytes_text(static_cast<double>(bytes)); }
std::string count_text(int64_t count) { return with_thousands(static_cast<double>(count)); }
/// Returns "1 collective" or "22 collectives".
std::string count_text(int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count_text(count), what, count == 1 ? "" : "s");
}

std::string local_text(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  if (mesh.size() == 1) return {};
  std::string text;
  for (const Dimension& d : slice_shape(shape, layout, mesh))
    text += fmt::format("{}{}", text.empty() ? "" : " x ", d.size);
  return text;
}

std::string layer_text(const std::string& path) { return path.empty() ? "-" : path; }
std::string times_text(int64_t times) { return times == 1 ? "" : fmt::format("{} times", times); }
std::string origin_text(const Origin& origin) {
  return fmt::format("{} ({})", origin.operation, name_of(origin.phase));
}
std::string mesh_text(const Mesh& mesh) {
  return mesh.size() == 1 ? "one position"
                          : fmt::format("mesh {}: {}", mesh.to_string(), count_text(mesh.size(), "position"));
}

/// The process whose memory is explained.
std::string process_text(const Explanation& e) {
  const Mesh& mesh = e.step.program.mesh;
  const ExplainedProcesses& processes = e.processes;
  if (mesh.size() == 1) return "this process";
  if (processes.count == 1) return fmt::format("this process with all {} positions", count_text(mesh.size()));
  return fmt::format("{} with {} of {}", e.pipeline ? "the largest process" : "a process",
                     count_text(processes.positions), count_text(mesh.size(), "position"));
}

/// Returns the table under its title, or "" for a table without rows.
std::string section(const std::string& title, const TextTable& table) {
  return table.empty() ? "" : title + "\n" + table.to_string() + "\n";
}

std::string header(const Explanation& e) {
  std::string text = "a training step of " + count_text(e.step.batch_size, "example");
  if (e.microbatches > 1) text += fmt::format(" in {} microbatches", e.microbatches);
  text += " on " + mesh_text(e.step.program.mesh);
  if (e.processes.count > 1) {
    text += fmt::format(" in {} processes of {}", count_text(e.processes.count),
                        count_text(e.processes.positions, "position"));
  }
  text += "\n";
  if (e.step.program.mesh.size() > 1)
    text += "(shapes are global, local and bytes those of one position's slice)\n";
  return text + "\n";
}

std::string variables_text(const Program& program) {
  TextTable table({{"name"}, {"type"}, {"shape"}, {"layout"}, {"local"}, {"bytes", kRight}, {""}});
  struct Group {
    Variable::Kind kind;
    bool on_host;
    std::string name;
  };
  const Group groups[] = {{Variable::Kind::kWeight, false, "weights"},
                          {Variable::Kind::kSlot, false, "optimizer slots"},
                          {Variable::Kind::kSlot, true, "optimizer slots in the memory of the machine"},
                          {Variable::Kind::kStatistic, false, "statistics"},
                          {Variable::Kind::kConstant, false, "teacher weights"},
                          {Variable::Kind::kCopy, false, "copies of weights"}};
  std::string text;
  for (const auto& [kind, on_host, name] : groups) {
    TextTable of_kind = table;
    int64_t count = 0, elements = 0;
    for (const ProgramVariable& v : program.variables) {
      if (v.variable.kind != kind || v.variable.on_host != on_host) continue;
      ++count;
      elements += v.variable.shape.size();
      const int64_t bytes = slice_shape(v.variable.shape, v.layout, program.mesh).size() *
                            static_cast<int64_t>(size_of(v.variable.dtype));
      of_kind.row({v.variable.name, std::string(short_name(v.variable.dtype)), shape_text(v.variable.shape),
                   layout_text(v.variable.shape, v.layout, program.mesh),
                   local_text(v.variable.shape, v.layout, program.mesh), bytes_text(bytes)});
    }
    of_kind.fold({0}, 6);
    text += section(
        fmt::format("{}: {}, {}", name, count_text(count, "variable"), count_text(elements, "element")),
        of_kind);
  }
  return text;
}

std::vector<std::string> tensor_row(const Program& program, const TensorFact& t) {
  const Value& value = program.values[t.value];
  const std::string bytes = bytes_text(program.local_bytes(t.value));
  return {fmt::format("  {}", t.origin.operation),
          layer_text(t.origin.layer.path()),
          std::string(short_name(value.dtype)),
          shape_text(value.shape),
          layout_text(value.shape, value.layout, program.mesh),
          local_text(value.shape, value.layout, program.mesh),
          program.is_in_place(t.value) ? "(" + bytes + ")" : bytes,
          times_text(t.times)};
}

std::string tensors_text(const ExplainedProgram& step) {
  TextTable table({{"operation"},
                   {"layer"},
                   {"type"},
                   {"shape"},
                   {"layout"},
                   {"local"},
                   {"bytes", kRight},
                   {"", kRight},
                   {""}});
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    table.line(std::string(name_of(phase)));
    int64_t scalars = 0;
    for (const TensorFact& t : step.facts.tensors) {
      if (t.origin.phase != phase) continue;
      if (step.program.values[t.value].shape.rank() == 0) {
        ++scalars;
      } else {
        table.row(tensor_row(step.program, t));
      }
    }
    if (scalars > 0) table.line("  and " + count_text(scalars, "scalar"));
  }
  table.fold({1}, 8);
  return section(
      "tensors of a step, in the order in which they are made; (bytes): in the memory of an operand", table);
}

std::string collectives_text(const ExplainedProgram& step) {
  const Mesh& mesh = step.program.mesh;
  TextTable table(
      {{"collective"}, {"over"}, {"of"}, {"layer"}, {"variable"}, {"sent", kRight}, {"", kRight}, {""}});
  for (const CollectiveFact& c : step.facts.collectives) {
    table.row({std::string(c.kind), mesh.names(c.axes), origin_text(c.origin),
               layer_text(c.origin.layer.path()), c.variable, mtf::bytes_text(c.bytes_sent),
               times_text(c.times)});
  }
  table.fold({3, 4}, 7);
  std::string text = section("collectives of a step: bytes that one position sends each time", table);
  for (const auto& [axes, traffic] : step.facts.traffic) {
    text += fmt::format("  over {}: {} in {} (the tensors of a bucket travel in one)\n", mesh.names(axes),
                        mtf::bytes_text(traffic.bytes_sent), count_text(traffic.messages, "collective"));
  }
  return text.empty() ? text : text + "\n";
}

std::string counters_text(const ExplainedProgram& step) {
  TextTable table({{"counter"}, {"elements", kRight}, {"bytes", kRight}});
  for (const auto& [name, counter] : counter_totals(step.facts.counters)) {
    const auto depth = static_cast<size_t>(std::count(name.begin(), name.end(), '/'));
    table.row({std::string(depth, ' ') + name, fmt::format("{:.3g}", counter.elements),
               counter.bytes > 0 ? mtf::bytes_text(counter.bytes) : ""});
  }
  return section("counters of a step, over all positions (einsum: multiply-adds)", table);
}

std::string layers_text(const Explanation& e) {
  TextTable table({{"layer"},
                   {"parameters", kRight},
                   {"forward", kRight},
                   {"backward", kRight},
                   {"operations", kRight},
                   {"moved", kRight},
                   {"sent", kRight},
                   {"bytes/FLOP", kRight},
                   {""}});
  for (const LayerWork& layer : e.layers) {
    const double flops = layer.flops[0] + layer.flops[1] + layer.flops[2];
    const bool sends = layer.bytes_sent > 0;
    table.row({layer_text(layer.path), layer.parameters > 0 ? count_text(layer.parameters) : "",
               layer.flops[0] > 0 ? flops_text(layer.flops[0]) : "",
               layer.flops[1] > 0 ? flops_text(layer.flops[1]) : "",
               layer.operations > 0 ? count_text(layer.operations) : "",
               layer.bytes_moved > 0 ? mtf::bytes_text(layer.bytes_moved) : "",
               sends ? mtf::bytes_text(layer.bytes_sent) : "",
               sends && flops > 0 ? fmt::format("{:.3g}", layer.bytes_sent / flops) : ""});
  }
  table.fold({0}, 8);
  return section(
      "work of a position by layer (FLOPs of contractions; moved: bytes that operations without FLOPs read "
      "and write)",
      table);
}

std::string kinds_text(const Explanation& e) {
  TextTable table({{"kind"}, {"operations", kRight}, {"FLOPs", kRight}, {"bytes", kRight}});
  KindWork without_flops;
  for (size_t i = 0; i < kWorkKinds; ++i) {
    const KindWork& work = e.work[i];
    const auto kind = static_cast<WorkKind>(i);
    if (work.operations == 0) continue;
    table.row({std::string(name_of(kind)), count_text(work.operations),
               work.flops > 0 ? flops_text(work.flops) : "", mtf::bytes_text(work.bytes)});
    if (has_flops(kind) || kind == WorkKind::kCollective) continue;
    without_flops.operations += work.operations;
    without_flops.bytes += work.bytes;
  }
  table.row(
      {"all without FLOPs", count_text(without_flops.operations), "", mtf::bytes_text(without_flops.bytes)});
  table.row(
      {"of these transposes", count_text(e.transposes.operations), "", mtf::bytes_text(e.transposes.bytes)});
  return section("work of a position by kind of operation (bytes read and written; collectives: sent)",
                 table);
}

void add_parts(const std::string& whose, int64_t total, const std::vector<MemoryNeed::Part>& parts,
               TextTable& table) {
  table.row({whose, bytes_text(total)});
  for (const MemoryNeed::Part& part : parts) table.row({"  " + part.name, bytes_text(part.bytes)});
}

std::string memory_text(const ExplainedMemory& memory, const std::string& process) {
  TextTable table({{""}, {"", kRight}});
  add_parts("tensors of a position alone on its device", memory.position_bytes, memory.position, table);
  if (memory.on_device) add_parts("GPU of " + process, memory.device.total(), memory.device.parts, table);
  add_parts(process, memory.process.total(), memory.process.parts, table);
  return section("memory", table);
}

/// Returns the sections on contractions that several positions repeat and on the rules that would save them.
std::string repeated_text(const Explanation& e) {
  const Mesh& mesh = e.step.program.mesh;
  TextTable table(
      {{"contraction"}, {"layer"}, {"over"}, {"every position does all of"}, {"FLOPs", kRight}, {""}});
  for (const ContractionFact& c : e.step.facts.contractions) {
    if (!c.repeated) continue;
    std::string dimensions;
    for (int i = 0; i < c.volume.rank(); ++i) {
      if (c.layout.split[i].empty())
        dimensions +=
            fmt::format("{}{}={}", dimensions.empty() ? "" : " ", c.volume[i].name, c.volume[i].size);
    }
    table.row({origin_text(c.origin), layer_text(c.origin.layer.path()), mesh.names(c.repeated), dimensions,
               flops_text(c.flops)});
  }
  table.fold({1}, 5);
  std::string text = section("repeated work: these mesh dimensions do not share out", table);
  if (e.splits.empty()) return text;
  TextTable trials({{"rule"}, {"FLOPs", kRight}, {"sent", kRight}, {"memory of the step", kRight}});
  const ProgramFacts& now = e.step.facts;
  trials.row(
      {"now", flops_text(now.flops), mtf::bytes_text(now.bytes_sent), bytes_text(e.memory.step_bytes)});
  for (const SplitTrial& split : e.splits) {
    const std::string over = split.mesh_dimensions.size() == 1
                                 ? split.mesh_dimensions[0]
                                 : fmt::format("[{}]", fmt::join(split.mesh_dimensions, ", "));
    trials.row({fmt::format("layout.{}={}", split.dimension, over), flops_text(split.flops),
                mtf::bytes_text(split.bytes_sent), bytes_text(split.position_bytes)});
  }
  return text + section("rules that would share it out, each tried alone", trials);
}

std::string recompute_section(const Explanation& e) {
  if (!e.recompute) return {};
  const bool has_microbatches = std::ranges::any_of(
      e.recompute->trials, [](const RecomputeTrial& trial) { return trial.microbatches > 1; });
  TextTable table({{"recompute"}, {"microbatches", kRight}, {"step", kRight}, {"memory", kRight}, {""}});
  for (const RecomputeTrial& trial : e.recompute->trials) {
    const bool is_chosen =
        trial.recompute == e.recompute->recompute && trial.microbatches == e.recompute->microbatches;
    table.row({recompute_text(trial.recompute), has_microbatches ? count_text(trial.microbatches) : "",
               predicted_time_text(trial.seconds), bytes_text(trial.memory.need),
               is_chosen    ? "chosen"
               : trial.fits ? ""
                            : "does not fit"});
  }
  const std::string microbatches =
      has_microbatches ? fmt::format(", microbatches: {}", e.recompute->microbatches) : "";
  return section("train.recompute: auto, with the predicted time of a step and the memory of the run",
                 table) +
         fmt::format("train: {{recompute: {}{}}}\n\n", recompute_text(e.recompute->recompute), microbatches);
}

std::string remarks_text(const Explanation& e) {
  std::string text;
  for (const std::string& warning : e.warnings) text += "warning: " + warning + "\n";
  for (const std::string& note : e.notes) text += "note: " + note + "\n";
  return text.empty() ? text : text + "\n";
}

std::string work_line(const Explanation& e) {
  const ProgramFacts& facts = e.step.facts;
  std::string text = fmt::format("  work     {} on a position in a step", flops_text(facts.flops));
  if (e.step.program.mesh.size() == 1) return text + "\n";
  if (facts.repeated_flops == 0) return text + "; no contraction is done twice\n";
  return text + fmt::format("; {:.0f} % of it is repeated work\n", 100 * facts.repeated_flops / facts.flops);
}

std::string pipeline_lines(const Explanation& e) {
  if (!e.pipeline) return {};
  const ExplainedPipeline& pipeline = *e.pipeline;
  std::string text = fmt::format(
      "  stages   {} along `{}`{}, microbatches: {}, {}: each waits for {:.1f} % of the loop at least\n",
      pipeline.stages, pipeline.mesh_dimension,
      pipeline.rounds > 1 ? fmt::format(" with {} chunks each", pipeline.rounds) : "", e.microbatches,
      config::dump(pipeline.schedule).text(), 100 * pipeline.bubble);
  TextTable table({{""}, {"", kRight}, {"", kRight}});
  for (size_t stage = 0; stage < pipeline.bytes.size(); ++stage) {
    table.row({fmt::format("         stage {}", stage),
               fmt::format("{} parameters", with_thousands(static_cast<double>(pipeline.parameters[stage]))),
               bytes_text(pipeline.bytes[stage])});
  }
  return text + table.to_string();
}

std::string traffic_lines(const ProgramFacts& facts, const ExplainedProcesses& processes) {
  if (facts.messages == 0) return {};
  std::string text = fmt::format("  traffic  {} sent by a position in {} of a step",
                                 mtf::bytes_text(facts.bytes_sent), count_text(facts.messages, "collective"));
  if (facts.flops > 0) {
    const double ratio = facts.bytes_sent / facts.flops;
    text += fmt::format("; {:.3g} bytes per FLOP: {}/s at 1 TFLOP/s", ratio, mtf::bytes_text(ratio * 1e12));
  }
  text += "\n";
  if (processes.count > 1) {
    text += fmt::format("           {} sent by a process to others\n", mtf::bytes_text(processes.bytes_sent));
  }
  return text;
}

std::string evaluation_line(const Explanation& e) {
  if (!e.evaluation) return {};
  const ProgramFacts& facts = e.evaluation->facts;
  const std::string sent =
      facts.messages == 0 ? "" : fmt::format(", {} sent", mtf::bytes_text(facts.bytes_sent));
  return fmt::format("           evaluation of {}: {}{}\n", count_text(e.evaluation->batch_size, "example"),
                     flops_text(facts.flops), sent);
}

std::string prediction_lines(const Explanation& e) {
  const StepPrediction& step = e.prediction;
  const std::string network =
      e.step.program.mesh.size() == 1
          ? ""
          : fmt::format(", {} waiting for collectives; the network sends for {}",
                        predicted_time_text(step.waiting), predicted_time_text(step.sending));
  const ExplainedHardware& hardware = e.hardware;
  const std::string& name = hardware.options.device.name;
  std::string text = fmt::format(
      "  time     {} predicted{}: {} computing{}\n", predicted_time_text(step.seconds),
      name.empty() ? " on `hardware`" : " on " + name, predicted_time_text(step.computing), network);
  std::vector<std::string> kinds;
  for (size_t kind = 0; kind < kWorkKinds; ++kind) {
    if (step.kinds[kind] > 0)
      kinds.push_back(
          fmt::format("{} {}", name_of(static_cast<WorkKind>(kind)), predicted_time_text(step.kinds[kind])));
  }
  text += fmt::format("           computing: {}\n", fmt::join(kinds, ", "));
  text += fmt::format(
      "           {}{:.4g} examples/s, {:.1f} % of the peak (MFU)\n",
      hardware.tokens_per_second ? with_thousands(*hardware.tokens_per_second) + " tokens/s, " : "",
      hardware.examples_per_second, 100 * hardware.utilization);
  return text;
}

std::string memory_lines(const ExplainedMemory& memory, const std::string& process) {
  TextTable table({{""}, {"", kRight}, {""}});
  const auto verdict = [](bool fits) { return fits ? "fits" : "does not fit"; };
  const bool is_known = !memory.on_device || memory.device_limit;
  const auto on_device = [&](bool fits) { return is_known ? verdict(fits) : ""; };
  table.row({"memory   a position alone on its device", bytes_text(memory.position_bytes),
             on_device(memory.position_fits())});
  if (memory.on_device) {
    table.row(
        {"         GPU of " + process, bytes_text(memory.device.total()), on_device(memory.device_fits())});
    if (is_known) {
      table.row({"         limit", bytes_text(memory.device_limit->bytes), memory.device_limit->source});
    } else {
      table.row({"         limit", "",
                 "not checked: there is no GPU here, and neither `hardware` nor run.device_memory_limit"});
    }
  }
  table.row({"         " + process, bytes_text(memory.process.total()), verdict(memory.process_fits())});
  table.row(
      {"         limit", memory.limit.is_known() ? bytes_text(memory.limit.bytes) : "", memory.limit.source});
  return table.to_string();
}

}  // namespace

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const Dimension& d : shape) text += fmt::format("{}{}={}", text.empty() ? "" : " ", d.name, d.size);
  return text.empty() ? "scalar" : text;
}

std::string layout_text(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  if (mesh.size() == 1) return {};
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::vector<int>& axes = layout.split[i];
    if (axes.empty()) continue;
    std::string over;
    for (int axis : axes) over += (over.empty() ? "" : ", ") + mesh.name(axis);
    if (axes.size() > 1) over = "[" + over + "]";
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", shape[i].name, over);
  }
  if (layout.partial)
    text += fmt::format("{}partial sum over {}", text.empty() ? "" : "; ", mesh.names(layout.partial));
  if (layout.pin) {
    text += fmt::format("{}at {} {}", text.empty() ? "" : "; ", mesh.name(layout.pin->axis),
                        layout.pin->coordinate);
  }
  return text.empty() ? "whole" : text;
}

std::string flops_text(double flops) {
  constexpr std::string_view units[] = {"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(units); ++unit) flops /= 1000;
  return fmt::format("{:.4g} {}", flops, units[unit]);
}

std::string explain_text(const Explanation& explanation, const ExplainOptions& options) {
  const ExplainedProgram& step = explanation.step;
  const std::string process = process_text(explanation);
  std::string text = header(explanation) + variables_text(step.program) + kinds_text(explanation) +
                     layers_text(explanation) + collectives_text(step) +
                     memory_text(explanation.memory, process) + repeated_text(explanation);
  if (options.tensors) text += tensors_text(step);
  if (options.detail) text += counters_text(step);
  text += recompute_section(explanation) + remarks_text(explanation) + "verdict\n" + work_line(explanation) +
          pipeline_lines(explanation) + traffic_lines(step.facts, explanation.processes) +
          evaluation_line(explanation) +
          (explanation.hardware.is_given ? prediction_lines(explanation) : "") +
          memory_lines(explanation.memory, process);
  for (const ExplainedPart& part : explanation.parts) text += "\n" + part.text;
  return text;
}

}  // namespace mtf
