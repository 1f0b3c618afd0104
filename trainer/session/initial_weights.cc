#include "trainer/session/initial_weights.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "data/class_names.h"
#include "layers/embedding.h"
#include "trainer/optimizer/patterns.h"
#include "trainer/session/stored_model.h"
#include "trainer/session/vocabulary_check.h"

namespace mtf {
namespace {

/// The weights that a fresh run may start from and whose shapes `has` accepts.
std::vector<std::string> weights_with(const Graph& graph,
                                      const std::function<bool(const Shape& shape)>& has) {
  std::vector<std::string> names;
  for (const auto& variable : graph.variables()) {
    if (is_initialized(*variable) && has(variable->shape)) names.push_back(variable->name);
  }
  return names;
}

/// Those of `weights` that checkpoint.init sets.
std::vector<std::string> selected(const InitOptions& options, std::vector<std::string> weights) {
  std::erase_if(weights, [&](const std::string& name) { return !selects(options, name); });
  return weights;
}

/// The weights of tokens that checkpoint.init sets; none if they may come from a run with another vocabulary.
std::vector<std::string> initial_token_weights(const Session& session, const Graph& step) {
  const InitOptions& init = session.config.checkpoint.init;
  if (init.path.empty() || is_allowed_change(session.config, "data.vocabulary")) return {};
  const auto has_tokens = [](const Shape& shape) { return shape.contains(kVocabularyDimension); };
  return selected(init, weights_with(step, has_tokens));
}

/// Tells how to leave weights out.
std::string exclusion(const std::vector<std::string>& weights) {
  std::vector<std::string> patterns;
  for (const std::string& name : weights) patterns.push_back(exact_pattern(name));
  return fmt::format("`checkpoint.init.exclude: [{}]` leaves these weights as they are",
                     fmt::join(patterns, ", "));
}

/// Tells what to do about weights of tokens; `key` takes the file of the vocabulary.
std::string vocabulary_hint(std::string_view key, const std::vector<std::string>& weights) {
  return fmt::format("`{}` with the file of its run; {}; `run.allow_change: [data.vocabulary]` takes them",
                     key, exclusion(weights));
}

}  // namespace

bool selects(const InitOptions& options, const std::string& variable) {
  return matches_any(variable, options.include) && !matches_any(variable, options.exclude);
}

bool is_initialized(const Variable& variable) {
  return variable.is_saved() && variable.kind != Variable::Kind::kSlot;
}

void check_initial_vocabulary(const Session& session, const Graph& step, Diagnostics& diagnostics) {
  const std::vector<std::string> weights = initial_token_weights(session, step);
  if (weights.empty()) return;
  const config::Path& init = session.config.checkpoint.init.path;
  const std::string path = checkpoint_at(init);
  const Manifest manifest = manifest_at(path);
  if (!has_other_vocabulary(session, manifest)) return;
  if (shares_vocabulary(session, manifest)) {
    diagnostics.warning(
        init.mark,
        fmt::format("{} was trained with vocabularies that are these in part: check that the ids of {} mean "
                    "the same tokens",
                    path, fmt::join(weights, ", ")));
    return;
  }
  diagnostics.error(init.mark,
                    fmt::format("{} was trained with another vocabulary, so its ids mean other tokens", path),
                    vocabulary_hint("data.vocabulary", weights));
}

void check_vocabulary_to_train(const Session& session, const Graph& step, const VocabularyTexts& texts,
                               Diagnostics& diagnostics) {
  const std::vector<std::string> weights = initial_token_weights(session, step);
  if (weights.empty()) return;
  const Config& config = session.config;
  const std::string path = checkpoint_at(config.checkpoint.init.path);
  if (manifest_at(path).vocabularies.empty() ||
      !trains_other_vocabularies(*config.data.vocabulary, config.run.model_dir.text, texts, run_of(path)))
    return;
  diagnostics.error(
      config.checkpoint.init.path.mark,
      fmt::format("{} has a vocabulary, and this run would train another, whose ids mean other tokens", path),
      vocabulary_hint("data.vocabulary.path", weights));
}

void check_initial_classes(const Session& session, const TrainStep& step, Diagnostics& diagnostics) {
  const InitOptions& init = session.config.checkpoint.init;
  if (init.path.empty() || !step.classes || !session.train_data) return;
  const auto has_classes = [&](const Shape& shape) {
    return shape.contains(step.classes->name) &&
           shape.dimension(step.classes->name).size == step.classes->size;
  };
  const std::vector<std::string> all = weights_with(*step.graph, has_classes);
  const std::vector<std::string> weights = selected(init, all);
  const NamedClasses own{"data.train", session.train_data->class_names()};
  if (weights.empty() || own.names.empty()) return;
  const std::string path = checkpoint_at(init.path);
  const KnownClasses known = kept_classes(preparation_at(path));
  if (!known) return;
  const NamedClasses theirs{path, *known};
  std::string difference = class_difference(own, theirs);
  if (difference.empty()) return;
  // What is left out may be the output, and the others layers below whose dimension has the same name.
  if (number_differently(own, theirs) && weights.size() == all.size()) {
    diagnostics.error(init.path.mark, std::move(difference),
                      fmt::format("data with the classes in that order; {}", exclusion(weights)));
  } else {
    diagnostics.warning(init.path.mark, fmt::format("{}; {}", difference, exclusion(weights)));
  }
}

}  // namespace mtf
