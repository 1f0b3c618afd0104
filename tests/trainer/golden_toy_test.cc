// Compares the toy model with recorded results of Mesh TensorFlow: run.mode=trace reads the recorded files
// unchanged.
#include "tests/trainer/golden_trace.h"

namespace mtf::testing {
namespace {

void expect_case(const std::string& name, std::vector<std::string> arguments) {
  const std::string folder = MTF_SOURCE_DIR "/tests/golden/" + name;
  arguments.insert(arguments.begin(), {"vars.io_size=6", "vars.hidden_size=12"});
  // loss, output/y, two gradients, trajectory/loss, two final weights
  expect_traced(MTF_SOURCE_DIR "/configs/models/toy.yaml", folder, folder + "/tensors.safetensors", 20,
                arguments, 7);
}

/// Layouts: no mesh, and 2x2 meshes with every kind of rule.
const std::vector<std::vector<std::string>> kToyLayouts = {
    {},
    {"mesh=x:2;y:2", "layout=batch:x;hidden_odd:y"},
    {"mesh=x:2;y:2", "layout=batch:x;io:y"},
    {"mesh=x:2;y:2", "layout.batch=[x, y]"},
    {"mesh=x:2;y:2", "layout=batch:x", "parameter_layout=hidden_odd:x;io:y"},
    {"mesh=x:2;y:2", "layout=batch:x", "optimizer_layout=hidden_odd:x"},
    {"mesh=x:2;y:2", "layout=batch:x;hidden_odd:y", "train.microbatches=2"},
};

TEST(GoldenToy, Sgd) {
  for (std::vector<std::string> layout : kToyLayouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    layout.push_back("learning_rate=0.05");
    expect_case("02_toy_sgd", layout);
  }
}

TEST(GoldenToy, Adafactor) {
  for (std::vector<std::string> layout : kToyLayouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    layout.push_back("optimizer=adafactor");
    layout.push_back("learning_rate=null");
    expect_case("02_toy_adafactor", layout);
  }
}

}  // namespace
}  // namespace mtf::testing
