#include "layers/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/layers/yaml_layers.h"

namespace mtf::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// The values of the activations at x = -1 and x = 2.
const std::map<std::string, Values> kValues = {{"linear", {-1, 2}},
                                               {"relu", {0, 2}},
                                               {"squared_relu", {0, 4}},
                                               {"leaky_relu", {-0.2, 2}},
                                               {"gelu", {-0.158808, 1.954598}},
                                               {"gelu_erf", {-0.158655, 1.954500}},
                                               {"swish", {-0.268941, 1.761594}},
                                               {"sigmoid", {0.268941, 0.880797}},
                                               {"tanh", {-0.761594, 0.964028}},
                                               {"elu", {-0.632121, 2}},
                                               {"selu", {-1.111331, 2.101402}},
                                               {"softplus", {0.313262, 2.126928}},
                                               {"exp", {0.367879, 7.389056}},
                                               {"square", {1, 4}},
                                               {"abs", {1, 2}},
                                               {"sin", {-0.841471, 0.909297}},
                                               {"cos", {0.540302, -0.416147}}};

TEST(ActivationLayer, HasEveryFunctionByName) {
  std::set<int64_t> functions;  // some functions have several names
  for (const config::EnumName& word : enum_names(Activation{})) functions.insert(word.value);
  EXPECT_EQ(kValues.size(), functions.size());
  for (const auto& [name, expected] : kValues) {
    const YamlLayers net("[activation: " + name + "]", {{"batch", 2}});
    EXPECT_THAT(net.evaluate({-1, 2}), Pointwise(DoubleNear(2e-6), expected)) << name;
  }
}

TEST(ActivationLayer, NamesTheNearestFunction) {
  EXPECT_THAT(problems_of("[activation: rellu]"), HasSubstr("`relu`"));
  EXPECT_THAT(problems_of("[activation]"), HasSubstr("function"));
}

}  // namespace
}  // namespace mtf::testing
