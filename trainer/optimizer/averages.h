// Running means of the weights (train.ema_decay): state of the training beside the weights, which
// evaluations, decoding and scoring take in their place.
//
//   Programs of a training run read them under their own names (WEIGHT/ema):
//     context.set_averaged(averaged_weights(config));
//   Programs with variables of their own read the weights, which are restored from the averages:
//     restore_variables(reader, variables, evaluated_weights(config));
//
// With t the steps done since the mean began: mean += (1 - d) * (weight - mean), d = min(ema_decay, (1 + t) / (10 + t)).
// A mean starts at the weight that training starts or goes on from; as long as it is young it forgets that start
// faster (as TensorFlow's ExponentialMovingAverage with num_updates and Marian's smoothing do), so there is
// nothing left to correct.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/variable_store.h"

namespace mtf {

/// The variable that holds the running mean of a weight: float32, laid out like optimizer slots.
std::string average_name(const std::string& weight);
/// The weight of a running mean; empty: `variable` is none.
std::string averaged_weight(const std::string& variable);
bool is_average(const Variable& variable);

/// 1 - d of the step before which `step` steps are done since the mean began.
double average_rate(double decay, int64_t step);

/// Sets a running mean to the weight that it is of, or all of them. The calls are collective where a weight and its running
/// mean lie differently.
void start_average(const std::string& average, VariableStore& variables);
void start_averages(VariableStore& variables);

}  // namespace mtf
