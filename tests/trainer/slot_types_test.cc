// Tests optimizers whose slots are stored in bfloat16 (precision.slots).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/golden.h"
#include "tests/trainer/update_run.h"

namespace mtf::testing {
namespace {

const Shape kMatrix{{"rows", 8}, {"cols", 12}}, kVector{{"cols", 12}};
constexpr int64_t kUpdates = 30;

struct SlotCase {
  std::string name, optimizer;
  /// An element depends on its own gradients alone, so that layouts give the same bits.
  bool is_elementwise;
  /// How far weights may be from those of float32, as a part of how far they have moved, and layouts from each other.
  double of_float32 = 0.05, of_layouts = 2e-3;
};
std::ostream& operator<<(std::ostream& out, const SlotCase& c) { return out << c.name; }

// Bases of soap follow differences between eigenvalues, so that rounded ones soon lead elsewhere.
const std::vector<SlotCase> kSlotCases = {
    {"momentum", "{type: momentum}", true},
    {"adam", "{type: adam}", true},
    {"adamw", "{type: adamw, weight_decay: 0.1}", true},
    {"adam_weight_decay", "{type: adam_weight_decay}", true},
    {"lion", "{type: lion}", true},
    {"adafactor", "{type: adafactor, min_dim_size_to_factor: 8, beta1: 0.9}", false},
    {"unfactored", "{type: adafactor, factored: false}", false},
    {"muon", "{type: muon}", false},
    {"soap", "{type: soap, precondition_frequency: 3}", false, 0.3, 1e-2}};

/// Weights and slots after some steps on the loss |kernel - target|^2, with noise in the gradients.
std::map<std::string, Values> trained(const SlotCase& c, DType slots, const Layouts& layouts) {
  UpdateOptions options = update_options(c.optimizer, "0.01");
  options.slot_type = slots;
  options.ema_decay = 0.9;
  UpdateRun run({{"kernel", {kMatrix, DType::kFloat32, random_values(kMatrix.size(), 1)}},
                 {"bias", {kVector, DType::kFloat32, random_values(kVector.size(), 2)}}},
                options);
  const Values target = random_values(kMatrix.size(), 3);
  for (int64_t step = 0; step < kUpdates; ++step) {
    std::map<std::string, Values> gradients;
    for (const auto& [name, weight] : run.variables()) {
      if (name != "kernel" && name != "bias") continue;
      Values& gradient = gradients[name];
      const Values noise =
          random_values(static_cast<int64_t>(weight.size()), static_cast<unsigned>(10 + step), 0.1);
      for (size_t i = 0; i < weight.size(); ++i)
        gradient.push_back(static_cast<float>(weight[i] - target[i] + noise[i]));
    }
    const MeshRun result = run.step(step, gradients, layouts);
    for (const ProgramVariable& v : result.program.variables) {
      const bool is_slot = v.variable.kind == Variable::Kind::kSlot && !v.variable.name.ends_with("/ema");
      EXPECT_EQ(v.variable.dtype, is_slot ? slots : DType::kFloat32) << v.variable.name;
    }
  }
  return run.variables();
}

class SlotTypes : public ::testing::TestWithParam<SlotCase> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, SlotTypes, ::testing::ValuesIn(kSlotCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(SlotTypes, TrainAsFloat32DoesUpToTheRoundingOfSlots) {
  const auto wide = trained(GetParam(), DType::kFloat32, Layouts::single()),
             narrow = trained(GetParam(), DType::kBFloat16, Layouts::single());
  ASSERT_EQ(wide.size(), narrow.size());
  EXPECT_NE(wide, narrow);
  for (const std::string name : {"kernel", "bias"}) {
    double moved = 0, apart = 0;
    const Values initial =
        random_values(static_cast<int64_t>(wide.at(name).size()), name == "kernel" ? 1 : 2);
    for (size_t i = 0; i < initial.size(); ++i) {
      moved += std::pow(wide.at(name)[i] - initial[i], 2);
      apart += std::pow(wide.at(name)[i] - narrow.at(name)[i], 2);
    }
    EXPECT_LT(std::sqrt(apart), GetParam().of_float32 * std::sqrt(moved)) << name;
  }
}

TEST_P(SlotTypes, LayoutsRoundAlike) {
  const auto one = trained(GetParam(), DType::kBFloat16, Layouts::single());
  for (const Layouts& layout : {layouts("x:2", "", "rows:x"), layouts("x:2;y:2", "", "rows:x;cols:y"),
                                layouts("x:4", "", "", "cols:x"), layouts("x:8", "", "", "rows:x")}) {
    const auto split = trained(GetParam(), DType::kBFloat16, layout);
    for (const auto& [name, values] : one) {
      if (GetParam().is_elementwise) {
        EXPECT_EQ(split.at(name), values) << name;
      } else if (name == "kernel" || name == "bias") {
        EXPECT_LE(relative_difference(split.at(name), values), GetParam().of_layouts) << name;
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
