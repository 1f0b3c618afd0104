// Tests optimizers whose slots are stored in bfloat16 and in codes of 8 bits (precision.slots).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <tuple>

#include "tests/support/golden.h"
#include "tests/trainer/update_run.h"

namespace mtf::testing {
namespace {

const Shape kMatrix{{"rows", 8}, {"cols", 32}}, kVector{{"cols", 32}};
constexpr int64_t kUpdates = 30;

struct SlotCase {
  std::string name, optimizer;
  /// An element depends on its own gradients alone, so that layouts give the same bits.
  bool is_elementwise;
  /// How far weights may be from those of float32, as a part of how far they have moved, and layouts from each other.
  double of_float32 = 0.05, of_layouts = 2e-3;
  double of_codes = 0.2;  ///< how far with slots in codes of 8 bits
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
    {"soap", "{type: soap, precondition_frequency: 3}", false, 0.3, 1e-2, 0.4}};

/// The type of a variable where slots are stored as `slots`.
DType expected_type(const Variable& variable, DType slots) {
  const std::string& name = variable.name;
  if (variable.kind != Variable::Kind::kSlot || name.ends_with("/ema")) return DType::kFloat32;
  if (slots != DType::kInt8) return slots;
  if (name.find("/soap_") != std::string::npos && !name.ends_with("/soap_v") && !name.ends_with("/largest"))
    return DType::kBFloat16;
  if (variable.shape.rank() < 2) return DType::kFloat32;  // vectors, and largest magnitudes of rows
  const bool is_of_squares =
      name.ends_with("/adam_v") || name.ends_with("/soap_v") || name.ends_with("_slot_v");
  return is_of_squares ? DType::kUInt8 : DType::kInt8;
}

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
      EXPECT_EQ(v.variable.dtype, expected_type(v.variable, slots)) << v.variable.name;
    }
  }
  return run.variables();
}

class SlotTypes : public ::testing::TestWithParam<std::tuple<SlotCase, DType>> {
 protected:
  SlotCase slot_case() const { return std::get<0>(GetParam()); }
  DType type() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Optimizers, SlotTypes,
                         ::testing::Combine(::testing::ValuesIn(kSlotCases),
                                            ::testing::Values(DType::kBFloat16, DType::kInt8)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param).name,
                                              name_of(std::get<1>(info.param)));
                         });

TEST_P(SlotTypes, TrainAsFloat32DoesUpToTheRoundingOfSlots) {
  const auto wide = trained(slot_case(), DType::kFloat32, Layouts::single()),
             narrow = trained(slot_case(), type(), Layouts::single());
  EXPECT_NE(wide, narrow);
  const double tolerance = type() == DType::kInt8 ? slot_case().of_codes : slot_case().of_float32;
  for (const std::string name : {"kernel", "bias"}) {
    double moved = 0, apart = 0;
    const Values initial =
        random_values(static_cast<int64_t>(wide.at(name).size()), name == "kernel" ? 1 : 2);
    for (size_t i = 0; i < initial.size(); ++i) {
      moved += std::pow(wide.at(name)[i] - initial[i], 2);
      apart += std::pow(wide.at(name)[i] - narrow.at(name)[i], 2);
    }
    EXPECT_LT(std::sqrt(apart), tolerance * std::sqrt(moved)) << name;
  }
}

TEST_P(SlotTypes, LayoutsRoundAlike) {
  const auto one = trained(slot_case(), type(), Layouts::single());
  for (const Layouts& layout : {layouts("x:2", "", "rows:x"), layouts("x:2;y:2", "", "rows:x;cols:y"),
                                layouts("x:4", "", "", "cols:x"), layouts("x:8", "", "", "rows:x")}) {
    const auto split = trained(slot_case(), type(), layout);
    for (const auto& [name, values] : one) {
      if (slot_case().is_elementwise) {
        EXPECT_EQ(split.at(name), values) << name;
      } else if (name == "kernel" || name == "bias") {
        EXPECT_LE(relative_difference(split.at(name), values), slot_case().of_layouts) << name;
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
