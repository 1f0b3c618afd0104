#include "trainer/session/same_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/hash.h"
#include "trainer/session/stored_model.h"
#include "trainer/session/vocabulary_check.h"

namespace mtf {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

/// True for keys that may differ between machines: those that do not affect results, and the instruction set,
/// of which the one in use is compared.
bool is_own(std::string_view path) {
  constexpr std::array<std::string_view, 11> own = {"run.threads",
                                                    "run.memory_limit",
                                                    "run.device_memory_limit",
                                                    "run.instruction_set",
                                                    "devices",
                                                    "cluster",
                                                    "data.cache",
                                                    "infer.output",
                                                    "score.output",
                                                    "explain",
                                                    "report"};
  return std::ranges::any_of(own, [&](std::string_view key) { return is_below(path, key); });
}

/// Adds each value below `node` under the path of its key. Lists are values.
void add_values(const config::Node& node, const std::string& path, Fields& fields) {
  if (is_own(path)) return;
  if (node.is_map() && !node.entries().empty()) {
    for (const config::Entry& entry : node.entries())
      add_values(entry.value, path.empty() ? entry.key : path + "." + entry.key, fields);
  } else {
    fields.emplace_back(path, config::to_flow_yaml(node));
  }
}

/// Adds what the processes must have in common of examples.
void add_examples(const std::string& name, const Source& source, Fields& fields) {
  fields.emplace_back("examples of " + name, fmt::to_string(source.examples()));
  if (source.has_examples()) fields.emplace_back("contents of " + name, source.fingerprint());
}

}  // namespace

Fields fields_of_run(const Session& session, const std::vector<const Program*>& programs, Fields fields) {
  Fields all{{session.backend->is_host()
                  ? "instruction set of the kernels (`run.instruction_set` gives all processes the same one)"
                  : "instruction set of the kernels",
              session.backend->instruction_set()}};
  add_values(config::dump(resolved(session.config)), "", all);
  // Examples depend on vocabularies and means, so these come first.
  for (const auto& [name, hash] : fingerprints(session.vocabularies))
    all.emplace_back(name + " of data.vocabulary", hash);
  if (!session.preparation.empty())
    all.emplace_back("classes and means of data.train", hash128_hex(session.preparation));
  if (session.train_data && session.config.data.train) add_examples("data.train", *session.train_data, all);
  for (const auto& [name, part] : session.held_out)
    add_examples(fmt::format("data.train held out for {}", name), *part, all);
  if (session.teacher) {
    all.emplace_back("checkpoint of the " + session.teacher->name, session.teacher->path);
    all.emplace_back("weights of the " + session.teacher->name, weights_fingerprint(session.teacher->path));
  }
  all.insert(all.end(), fields.begin(), fields.end());
  for (size_t i = 0; i < programs.size(); ++i)
    all.emplace_back(fmt::format("program {}", i + 1), program_hash(*programs[i]));
  return all;
}

NamedExamples examples_of(const std::vector<EvaluationSet>& sets) {
  NamedExamples examples;
  for (const EvaluationSet& set : sets)
    examples.emplace_back("evaluate.datasets." + set.name, set.source.get());
  return examples;
}

void check_same_run(Session& session, const std::vector<const Program*>& programs, Fields fields,
                    const NamedExamples& examples) {
  if (session.processes->size() > 1) {  // what is compared takes time
    for (const auto& [name, source] : examples) add_examples(name, *source, fields);
    session.processes->agree(fields_of_run(session, programs, std::move(fields)));
  }
  session.collective_backend = choose_collective_backend(session);
}

}  // namespace mtf
