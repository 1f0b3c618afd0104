// Measures how many images a second one thread augments.
//
//   ninja -C build augment_bench && build/bin/augment_bench
#include <fmt/format.h>

#include <chrono>

#include "data/augment/augmented_source.h"
#include "data/loader.h"
#include "engine/config/load.h"
#include "engine/config/schema.h"

namespace mtf {
namespace {

std::shared_ptr<const Source> some_images(int64_t side, int64_t channels) {
  constexpr int64_t kExamples = 64;
  const Shape shape = {{"rows", side}, {"cols", side}, {"channels", channels}};
  std::vector<std::byte> bytes(static_cast<size_t>(kExamples * shape.size()) * sizeof(float));
  auto* const values = reinterpret_cast<float*>(bytes.data());
  for (int64_t i = 0; i < kExamples * shape.size(); ++i)
    values[i] = static_cast<float>(i * 7919 % 1009) / 1009;
  std::vector<std::byte> labels(kExamples * sizeof(int32_t));
  return std::make_shared<MemorySource>(
      std::vector<Feature>{{"image", shape, DType::kFloat32}, {"labels", {}, DType::kInt32}},
      std::vector<std::vector<std::byte>>{std::move(bytes), std::move(labels)});
}

void measure(int64_t side, int64_t channels, const std::string& yaml) {
  using Clock = std::chrono::steady_clock;
  Diagnostics diagnostics;
  const AugmentSettings settings{.augmentations = config::parse<Augmentations>(
                                     config::parse_yaml(yaml, "bench", diagnostics), diagnostics)};
  diagnostics.throw_if_errors();
  const BatchStream stream(augmented(some_images(side, channels), settings),
                           TrainingBatches{.batch_size = 64});
  Batch batch = stream.make_batch();
  int64_t batches = 0;
  const auto start = Clock::now();
  double seconds = 0;
  while (seconds < 2) {
    stream.read(batches++, batch);
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  fmt::print("{0:>3} x {0} x {1}  {2:>8.0f} images/s  {3}\n", side, channels,
             static_cast<double>(batches * 64) / seconds, yaml);
}

}  // namespace
}  // namespace mtf

int main() {
  using mtf::measure;
  measure(32, 3, "[flip, {crop: {padding: 4}}, {cutout: 8}]");
  measure(
      32, 3,
      "[flip, {crop: {padding: 4}}, rand_augment, {cutout: 8}, {normalize: {mean: 0.5, deviation: 0.25}}]");
  measure(32, 3, "[flip, {crop: {padding: 4}}, {mixup: 0.2}]");
  measure(28, 1, "[{rotate: 10}]");
  const char* const jitter = "{color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}}";
  measure(224, 3, "[{random_resized_crop: 224}]");
  measure(224, 3, fmt::format("[{}]", jitter));
  measure(224, 3, fmt::format("[{{random_resized_crop: 224}}, {}]", jitter));
  measure(224, 3, "[{rotate: 10}]");
  measure(224, 3, "[rand_augment]");
}
