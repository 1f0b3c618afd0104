#include "trainer/explain/explanation_json.h"

#include <variant>

#include "engine/base/json.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(Variable::Kind kind) {
  switch (kind) {
    case Variable::Kind::kWeight:
      return "weight";
    case Variable::Kind::kSlot:
      return "slot";
    case Variable::Kind::kStatistic:
      return "statistic";
    case Variable::Kind::kConstant:
      return "teacher";
    case Variable::Kind::kCopy:
      return "copy of a weight";
    case Variable::Kind::kSession:
      break;
  }
  return "cache";
}

Json names_of(AxisMask axes, const Mesh& mesh) {
  Json names = Json::array();
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (has_axis(axes, axis)) names.push_back(mesh.name(axis));
  }
  return names;
}

void add_origin(const Origin& origin, Json& object) {
  object["operation"] = origin.operation;
  object["layer"] = origin.layer.path();
  object["phase"] = name_of(origin.phase);
}

void add_shape(const Shape& shape, const Layout& layout, const Mesh& mesh, Json& object) {
  Json names = Json::array(), sizes = Json::array(), split = Json::array();
  for (int i = 0; i < shape.rank(); ++i) {
    names.push_back(shape[i].name);
    sizes.push_back(shape[i].size);
    Json over = Json::array();
    for (int axis : layout.split[i]) over.push_back(mesh.name(axis));
    split.push_back(std::move(over));
  }
  object["dimensions"] = std::move(names);
  object["shape"] = std::move(sizes);
  object["split"] = std::move(split);
}

void add_tensor(const Shape& shape, const Layout& layout, DType dtype, const Mesh& mesh, Json& object) {
  add_shape(shape, layout, mesh, object);
  const Shape local = slice_shape(shape, layout, mesh);
  object["local_shape"] = local.sizes();
  object["partial_over"] = names_of(layout.partial, mesh);
  object["dtype"] = name_of(dtype);
  object["bytes"] = bytes_of(local, dtype);
}

void add_value(const Program& program, ValueId id, Json& object) {
  const Value& value = program.values[id];
  add_tensor(value.shape, value.layout, value.dtype, program.mesh, object);
}

Json mesh_json(const Mesh& mesh) {
  Json dimensions = Json::array();
  for (const Dimension& d : mesh.shape()) dimensions.push_back({{"name", d.name}, {"size", d.size}});
  return {{"dimensions", dimensions}, {"positions", mesh.size()}};
}

Json processes_json(const ExplainedProcesses& processes) {
  return {
      {"count", processes.count}, {"positions", processes.positions}, {"bytes_sent", processes.bytes_sent}};
}

Json variables_json(const Program& program) {
  Json variables = Json::array();
  for (const ProgramVariable& v : program.variables) {
    Json object{{"name", v.variable.name}, {"kind", name_of(v.variable.kind)}};
    add_tensor(v.variable.shape, v.layout, v.variable.dtype, program.mesh, object);
    if (v.variable.on_host) object["on_host"] = true;
    variables.push_back(std::move(object));
  }
  return variables;
}

Json tensors_json(const ExplainedProgram& step) {
  Json tensors = Json::array();
  for (const TensorFact& t : step.facts.tensors) {
    Json object = Json::object();
    add_origin(t.origin, object);
    object["times"] = t.times;
    object["in_place"] = step.program.is_in_place(t.value);
    add_value(step.program, t.value, object);
    tensors.push_back(std::move(object));
  }
  return tensors;
}

Json contractions_json(const ExplainedProgram& step) {
  Json contractions = Json::array();
  for (const ContractionFact& c : step.facts.contractions) {
    Json object = Json::object();
    add_origin(c.origin, object);
    object["times"] = c.times;
    add_shape(c.volume, c.layout, step.program.mesh, object);
    object["flops"] = c.flops;
    object["unique_flops"] = c.unique_flops;
    object["repeated_over"] = names_of(c.repeated, step.program.mesh);
    contractions.push_back(std::move(object));
  }
  return contractions;
}

Json collectives_json(const ExplainedProgram& step) {
  Json collectives = Json::array();
  for (const CollectiveFact& c : step.facts.collectives) {
    Json object{{"kind", c.kind}, {"mesh_dimensions", names_of(c.axes, step.program.mesh)}};
    add_origin(c.origin, object);
    object["variable"] = c.variable.empty() ? Json() : Json(c.variable);
    object["message"] = c.message;
    object["times"] = c.times;
    object["bytes_sent"] = c.bytes_sent;
    add_value(step.program, c.result, object);
    collectives.push_back(std::move(object));
  }
  return collectives;
}

Json traffic_json(const ExplainedProgram& step) {
  Json traffic = Json::array();
  for (const auto& [axes, sent] : step.facts.traffic) {
    traffic.push_back({{"mesh_dimensions", names_of(axes, step.program.mesh)},
                       {"collectives", sent.messages},
                       {"bytes_sent", sent.bytes_sent}});
  }
  return traffic;
}

Json layers_json(const std::vector<LayerWork>& layers) {
  Json result = Json::array();
  for (const LayerWork& layer : layers) {
    Json flops = Json::object();
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate})
      flops[std::string(name_of(phase))] = layer.flops[static_cast<size_t>(phase)];
    result.push_back({{"layer", layer.path},
                      {"parameters", layer.parameters},
                      {"flops", flops},
                      {"bytes_sent", layer.bytes_sent},
                      {"operations", layer.operations},
                      {"bytes_moved", layer.bytes_moved}});
  }
  return result;
}

Json work_json(const std::array<KindWork, kWorkKinds>& kinds) {
  Json result = Json::object();
  for (size_t i = 0; i < kWorkKinds; ++i) {
    const KindWork& work = kinds[i];
    if (work.operations == 0) continue;
    result[std::string(name_of(static_cast<WorkKind>(i)))] = {
        {"operations", work.operations}, {"flops", work.flops}, {"bytes", work.bytes}};
  }
  return result;
}

Json model_json(const Explanation& explanation) {
  int64_t parameters = 0;
  for (const LayerWork& layer : explanation.layers) parameters += layer.parameters;
  return {{"name", explanation.run.name}, {"type", explanation.run.model}, {"parameters", parameters}};
}

Json rules_json(const LayoutRules& rules) {
  Json result = Json::array();
  for (const LayoutRule& rule : rules.rules())
    result.push_back({{"dimension", rule.dimension}, {"mesh_dimensions", rule.mesh_dimensions}});
  return result;
}

Json schedule_json(const std::vector<ScheduleItem>& items, const Mesh& mesh) {
  struct ItemJson {
    const Mesh& mesh;
    Json operator()(const ScheduledWork& work) const {
      Json item{{"layer", work.layer.path()}, {"phase", name_of(work.phase)}, {"kind", name_of(work.kind)},
                {"flops", work.flops},        {"bytes", work.bytes},          {"seconds", work.seconds}};
      if (work.message) item["message"] = *work.message;
      if (work.lane) item["lane"] = *work.lane;
      return item;
    }
    Json operator()(const ScheduledStart& start) const {
      Json item{{"start", start.message},
                {"kind", start.kind},
                {"mesh_dimensions", names_of(start.axes, mesh)},
                {"layer", start.layer.path()},
                {"phase", name_of(start.phase)},
                {"bytes_sent", start.bytes_sent},
                {"seconds", start.seconds},
                {"processor", start.processor}};
      if (start.lane) item["lane"] = *start.lane;
      if (!start.to.empty()) item["to"] = start.to;
      return item;
    }
    Json operator()(const ScheduledWait& wait) const { return {{"wait", wait.messages}}; }
    Json operator()(const ScheduleLoop& loop) const {
      return {{"repeat", loop.times}, {"body", schedule_json(loop.body, mesh)}};
    }
  };
  Json result = Json::array();
  for (const ScheduleItem& item : items) result.push_back(std::visit(ItemJson{mesh}, item));
  return result;
}

Json totals_json(const ProgramFacts& facts) {
  return {{"flops", facts.flops},
          {"unique_flops", facts.unique_flops},
          {"bytes_sent", facts.bytes_sent},
          {"collectives", facts.messages},
          {"bytes_per_flop", facts.flops > 0 ? Json(facts.bytes_sent / facts.flops) : Json()}};
}

Json evaluation_json(const Explanation& explanation) {
  if (!explanation.evaluation) return {};
  Json object{{"batch_size", explanation.evaluation->batch_size}};
  object.update(totals_json(explanation.evaluation->facts));
  return object;
}

Json parts_json(const std::vector<MemoryNeed::Part>& parts, int64_t bytes, bool fits) {
  Json named = Json::object();
  for (const MemoryNeed::Part& part : parts) named[part.name] = part.bytes;
  return {{"parts", named}, {"bytes", bytes}, {"fits", fits}};
}

Json memory_json(const ExplainedMemory& memory) {
  const auto limit_json = [](const MemoryLimit& limit) -> Json {
    return {{"bytes", limit.bytes}, {"source", limit.source}};
  };
  Json result{{"position", parts_json(memory.position, memory.position_bytes, memory.position_fits())},
              {"process", parts_json(memory.process.parts, memory.process.total(), memory.process_fits())},
              {"limit", memory.limit.is_known() ? limit_json(memory.limit) : Json()},
              {"device", Json()},
              {"device_limit", memory.device_limit ? limit_json(*memory.device_limit) : Json()}};
  if (memory.on_device)
    result["device"] = parts_json(memory.device.parts, memory.device.total(), memory.device_fits());
  return result;
}

Json pipeline_json(const std::optional<ExplainedPipeline>& pipeline) {
  if (!pipeline) return {};
  return {{"mesh_dimension", pipeline->mesh_dimension},
          {"stages", pipeline->stages},
          {"rounds", pipeline->rounds},
          {"schedule", config::dump(pipeline->schedule).text()},
          {"bubble", pipeline->bubble},
          {"bytes", pipeline->bytes},
          {"parameters", pipeline->parameters}};
}

Json recompute_json(const std::optional<RecomputeChoice>& choice) {
  if (!choice) return {};
  Json trials = Json::array();
  for (const RecomputeTrial& trial : choice->trials) {
    trials.push_back({{"recompute", recompute_text(trial.recompute)},
                      {"microbatches", trial.microbatches},
                      {"seconds", trial.seconds},
                      {"bytes", trial.memory.need},
                      {"limit", trial.memory.limit.bytes},
                      {"fits", trial.fits}});
  }
  return {{"recompute", recompute_text(choice->recompute)},
          {"microbatches", choice->microbatches},
          {"trials", trials}};
}

Json splits_json(const std::vector<SplitTrial>& splits) {
  Json result = Json::array();
  for (const SplitTrial& split : splits) {
    result.push_back({{"dimension", split.dimension},
                      {"mesh_dimensions", split.mesh_dimensions},
                      {"flops", split.flops},
                      {"bytes_sent", split.bytes_sent},
                      {"position_bytes", split.position_bytes}});
  }
  return result;
}

Json hardware_json(const ExplainedHardware& hardware) {
  const DeviceOptions& device = hardware.options.device;
  Json links = Json::array();
  for (const LinkOptions& link : hardware.options.links) {
    links.push_back({{"name", link.name},
                     {"processes", link.processes ? Json(*link.processes) : Json()},
                     {"bandwidth", link.bandwidth},
                     {"latency", link.latency}});
  }
  return {{"given", hardware.is_given},
          {"name", device.name},
          {"kind", device.kind == DeviceKind::kCuda ? "cuda" : "cpu"},
          {"cores", device.cores},
          {"memory", device.memory ? Json(device.memory->value) : Json()},
          {"links", links}};
}

Json prediction_json(const Explanation& explanation) {
  const StepPrediction& prediction = explanation.prediction;
  const ExplainedHardware& hardware = explanation.hardware;
  Json kinds = Json::object();
  for (size_t kind = 0; kind < kWorkKinds; ++kind) {
    if (prediction.kinds[kind] > 0)
      kinds[std::string(name_of(static_cast<WorkKind>(kind)))] = prediction.kinds[kind];
  }
  return {{"seconds", prediction.seconds},
          {"computing", prediction.computing},
          {"waiting", prediction.waiting},
          {"sending", prediction.sending},
          {"step", prediction.step},
          {"kinds", kinds},
          {"examples_per_second", hardware.examples_per_second},
          {"tokens_per_second", hardware.tokens_per_second ? Json(*hardware.tokens_per_second) : Json()},
          {"utilization", hardware.utilization}};
}

}  // namespace

Json explanation_document(const Explanation& explanation, bool tensors) {
  const ExplainedProgram& step = explanation.step;
  Json counters = Json::object();
  for (const auto& [name, counter] : step.facts.counters)
    counters[name] = {{"elements", counter.elements}, {"bytes", counter.bytes}};
  Json result{{"version", 1},
              {"model", model_json(explanation)},
              {"layout",
               {{"layout", rules_json(explanation.run.layout)},
                {"parameter_layout", rules_json(explanation.run.parameter_layout)},
                {"optimizer_layout", rules_json(explanation.run.optimizer_layout)}}},
              {"mesh", mesh_json(step.program.mesh)},
              {"processes", processes_json(explanation.processes)},
              {"batch_size", step.batch_size},
              {"microbatches", explanation.microbatches},
              {"variables", variables_json(step.program)}};
  if (tensors) result["tensors"] = tensors_json(step);
  result["contractions"] = contractions_json(step);
  result["collectives"] = collectives_json(step);
  result["traffic"] = traffic_json(step);
  result["schedule"] = schedule_json(explanation.schedule, step.program.mesh);
  result["lanes"] = lanes_of(explanation.schedule);
  result["peak_flops"] = explanation.run.peak_flops ? Json(*explanation.run.peak_flops) : Json();
  result["hardware"] = hardware_json(explanation.hardware);
  result["prediction"] = prediction_json(explanation);
  result["work"] = work_json(explanation.work);
  result["layers"] = layers_json(explanation.layers);
  result["counters"] = std::move(counters);
  result["step"] = totals_json(step.facts);
  result["evaluation"] = evaluation_json(explanation);
  result["memory"] = memory_json(explanation.memory);
  result["pipeline"] = pipeline_json(explanation.pipeline);
  result["recompute"] = recompute_json(explanation.recompute);
  result["repeated_flops"] = step.facts.repeated_flops;
  result["splits"] = splits_json(explanation.splits);
  result["unused_mesh_dimensions"] = names_of(explanation.unused_axes, step.program.mesh);
  result["warnings"] = explanation.warnings;
  result["notes"] = explanation.notes;
  for (const ExplainedPart& part : explanation.parts) result[part.key] = part.document;
  return result;
}

std::string explain_json(const Explanation& explanation, bool tensors) {
  return json_text(explanation_document(explanation, tensors), 1) + "\n";
}

}  // namespace mtf
