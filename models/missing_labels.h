// The loss of a model where some places of the batch have no label (tokens without a tag, pixels that nobody labelled), or where
// some classes count more than others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/context.h"
#include "models/model.h"

namespace mtf {

/// Returns float32 of the shape of the labels: 1 where there is a label, 0 where there is none. `missing`: the number that
/// says so; nothing: all below 0 do.
Tensor has_label(const Tensor& labels, std::optional<int64_t> missing);

/// Returns the weight of the class of each label, float32 of the labels' shape; `of_classes`: a number for each class.
Tensor class_weights(const Tensor& labels, const std::vector<double>& of_classes);

/// Returns the sum of the weights of a batch's labels (Model::label_weights), float32 [], or a tiny number if all are 0.
Tensor sum_of_weights(const Tensor& weights);

/// Sets the loss, its metric and class_losses of `output`, whose logits and classes are set. The loss is the mean of `losses`
/// with `weights` (Model::label_weights) over all places of the batch, as that of PyTorch with `ignore_index` and `weight`; with
/// microbatches over those of the whole batch (kNumberOfLabels). Both tensors are float32 [batch, ...]; losses need be right only
/// where weights are above 0.
void add_labelled_loss(const Context& context, const Tensor& losses, const Tensor& weights,
                       ModelOutput& output);

/// Returns the share of the labels for which `hit` is true; both are [batch, ...].
Metric share_of_labels(const Context& context, const Tensor& hit, const Tensor& counts);

}  // namespace mtf
