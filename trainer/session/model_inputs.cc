#include "trainer/session/model_inputs.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace mtf {

Features add_inputs(Graph& graph, const Model& model, const std::vector<std::string>& needed,
                    const std::vector<Feature>& features, int64_t batch_size, Mode mode) {
  std::vector<std::string> wanted = needed;
  const bool missing = std::ranges::any_of(wanted, [&](const std::string& name) {
    return std::ranges::find(features, name, &Feature::name) == features.end();
  });
  std::ranges::copy(model.optional_features(), std::back_inserter(wanted));
  Features inputs;
  for (const Feature& feature : features) {
    // If one is missing all are added, since the model's error message lists them.
    if (!missing && std::ranges::find(wanted, feature.name) == wanted.end()) continue;
    if (feature.training_only && mode != Mode::kTrain) continue;
    const Shape shape = Shape{{std::string(kBatch), batch_size}} + feature.shape;
    inputs[feature.name] = graph.input(feature.name, shape, feature.dtype);
  }
  return inputs;
}

LabelRange label_range(const Model& model, const Dimension& classes) {
  const bool may_lack = model.labels_may_lack();
  return {.classes = classes.size,
          .feature = model.labels_feature(),
          .may_lack = may_lack,
          .missing = may_lack ? model.missing_label() : std::nullopt};
}

std::map<std::string, int64_t> vocabulary_sizes(const std::vector<Feature>& features) {
  std::map<std::string, int64_t> sizes;
  for (const Feature& feature : features) {
    if (feature.vocabulary > 0) sizes[feature.name] = feature.vocabulary;
  }
  return sizes;
}

void describe_features(const std::vector<Feature>& features, Context& context) {
  context.set_vocabularies(vocabulary_sizes(features));
  std::set<std::string> single_texts;
  for (const Feature& feature : features) {
    if (feature.one_text) single_texts.insert(feature.name);
  }
  context.set_single_texts(std::move(single_texts));
}

}  // namespace mtf
