// The configuration of a small run: a regression of what it reads, by one matrix.
#pragma once

namespace mtf::testing {

inline constexpr const char* kToyRun = R"(
data: {train: {type: identity, size: 4}}
model: {type: regression, input: x, target: y, layers: [{dense: {output: {io: 4}}}]}
optimizer: sgd
learning_rate: 0.1
train: {steps: 30, batch_size: 40}
)";

}  // namespace mtf::testing
