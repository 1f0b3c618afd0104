// The inputs of a graph that holds a model: the features of a batch, and what the model's layers are told of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "layers/context.h"
#include "models/model.h"

namespace mtf {

/// The name of the dimension of the examples.
inline constexpr std::string_view kBatch = "batch";

/// Adds the features that the model reads as inputs of the graph, [batch, shape of the feature]: those `needed`, and
/// optional ones that the data have.
Features add_inputs(Graph& graph, const Model& model, const std::vector<std::string>& needed,
                    const std::vector<Feature>& features, int64_t batch_size, Mode mode);

/// Returns what the labels of a model of `classes` are, which refers to `model`.
LabelRange label_range(const Model& model, const Dimension& classes);

/// Returns the vocabulary sizes of the features that hold ids.
std::map<std::string, int64_t> vocabulary_sizes(const std::vector<Feature>& features);
/// Tells layers what the data say of features.
void describe_features(const std::vector<Feature>& features, Context& context);

}  // namespace mtf
