// The loss of a model where some places of the batch have no label: tokens without a tag, pixels that nobody labelled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "layers/context.h"
#include "models/model.h"

namespace mtf {

/// Returns float32 of the shape of the labels: 1 where there is a label, 0 where there is none. `missing`: the number that
/// says so; nothing: all below 0 do.
Tensor has_label(const Tensor& labels, std::optional<int64_t> missing);

/// Returns the number of labels of a batch, float32 [], at least 1; counts: has_label() of the batch.
Tensor number_of_labels(const Tensor& counts);

/// Sets the loss, its metric and class_losses of `output`, whose logits and classes are set. The loss is the mean of `losses`
/// over all places of the batch that have a label, as that of PyTorch with `ignore_index`; with microbatches over those of
/// the whole batch (kNumberOfLabels). Both tensors are float32 [batch, ...]; losses need be right only where counts are 1.
void add_labelled_loss(const Context& context, const Tensor& losses, const Tensor& counts,
                       ModelOutput& output);

/// Returns the share of the labels for which `hit` is true; both are [batch, ...].
Metric share_of_labels(const Context& context, const Tensor& hit, const Tensor& counts);

}  // namespace mtf
