// Norms with what is fused into them have the bits of separate instructions.
#include <gtest/gtest.h>

#include "engine/spmd/passes/passes.h"
#include "tests/cuda/run_on.h"
#include "tests/support/budget.h"
#include "tests/support/random_norms.h"

namespace mtf::testing {
namespace {

int count_of(const std::string& text, const std::string& name) {
  int count = 0;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) ++count;
  return count;
}

TEST(FusedNorms, HaveTheBitsOfSeparateInstructions) {
  const std::pair<const char*, const char*> meshes[] = {
      {"p:1", ""}, {"p:2;q:1", "a:p"}, {"p:1;q:2", "n:q"}, {"p:2;q:2", "a:p;n:q"}, {"p:8", "a:p"}};
  for (int seed = 0; seed < tries(60); ++seed) {
    NormLayers layers;
    layers.dtype = seed % 2 == 0 ? DType::kBFloat16 : DType::kFloat32;
    layers.masked = seed % 3 != 0;
    layers.microbatches = seed % 5 == 0 ? 2 : 1;
    const RandomNorms random = random_norms(static_cast<uint32_t>(seed), layers);
    const auto& [mesh, layout] = meshes[static_cast<size_t>(seed / 2) % std::size(meshes)];
    const Program lowered = lower(*random.graph, layouts(mesh, layout));
    for (const bool with_parameters : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << random.text << ", " << layout);
      const Program fused = fuse_norms(lowered, with_parameters);
      if (std::string(layout).find('n') == std::string::npos) {
        EXPECT_EQ(count_of(fused.to_string(), "= multiply("), 1) << "the loss has one\n" << fused.to_string();
        // Gradients of casts are added one by one, in float32.
        const int addends = layers.dtype == DType::kFloat32 ? 2 : 0;
        EXPECT_EQ(count_of(fused.to_string(), "addend"), addends) << fused.to_string();
        EXPECT_EQ(count_of(fused.to_string(), "parameter_gradient("), with_parameters ? 0 : 2);
      }
      expect_same_bits(run_on(cuda_device(), reuse_memory(split_collectives(fused)), random.feeds),
                       run_on(cuda_device(), reuse_memory(split_collectives(lowered)), random.feeds));
    }
  }
}

}  // namespace
}  // namespace mtf::testing
