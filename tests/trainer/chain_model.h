// A model that has something to recompute.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace mtf::testing {

/// Arguments that make configs/models/toy.yaml a chain of equal residual blocks whose inside is their largest part, with
/// `train.recompute: auto`.
inline std::vector<std::string> chain_arguments(int blocks) {
  return {fmt::format(
              "model.layers=[{{dense: {{name: first, output: {{hidden_odd: 64}}}}}},"
              " {{repeat: {{name: chain, times: {}, layers: [{{residual: {{name: unit, layers:"
              " [{{layer_norm: {{name: norm}}}},"
              " {{dense: {{name: wide, output: {{hidden_even: 256}}, activation: gelu}}}}, {{dropout: 0.1}},"
              " {{dense: {{name: narrow, output: {{hidden_odd: 64}}}}}}]}}}}]}}}},"
              " {{dense: {{name: last, output: {{io: 16}}}}}}]",
              blocks),
          "optimizer=adam",
          "learning_rate=0.001",
          "train.steps=3",
          "train.batch_size=960",
          "train.recompute=auto",
          "run.model_dir=never_written"};
}

}  // namespace mtf::testing
