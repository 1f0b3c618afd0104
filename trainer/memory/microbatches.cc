#include "trainer/memory/microbatches.h"

#include <algorithm>
#include <functional>
#include <string>

#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// The most microbatches for each stage that are tried: with 16 S of them, S stages wait for less than a sixteenth of the time.
constexpr int64_t kMostForStage = 16;

}  // namespace

std::vector<int64_t> microbatch_counts(const Layouts& layouts, int64_t batch_size) {
  const int64_t parts = LayoutMap(layouts.mesh, layouts.activation).parts(std::string(kBatch));
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= batch_size / parts; ++n) {
    if (batch_size % n == 0 && batch_size / n % parts == 0) counts.push_back(n);
  }
  if (!layouts.pipeline) return counts;
  const int64_t stages = layouts.pipeline->stages(layouts.mesh), most = kMostForStage * stages;
  std::erase_if(counts, [most](int64_t n) { return n > most; });
  const auto is_in_turn = [stages](int64_t n) { return n % stages == 0; };
  if (layouts.pipeline->rounds > 1 && std::ranges::any_of(counts, is_in_turn))
    std::erase_if(counts, std::not_fn(is_in_turn));
  return counts;
}

}  // namespace mtf
