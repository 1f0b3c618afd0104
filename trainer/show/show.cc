#include "trainer/show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/images/encode.h"
#include "data/loader.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "trainer/session/example_images.h"
#include "trainer/session/open_data.h"
#include "trainer/show/contact_sheet.h"
#include "trainer/steps/step_runner.h"

namespace mtf {
namespace {

/// The images and labels of some rows of training.
struct ShownRows {
  std::vector<std::vector<float>> images;
  std::vector<std::vector<std::string>> lines;
  BrightnessRange range;
};

/// The feature that is drawn. Throws Error (kConfig) where it is no image.
size_t shown_feature(const Session& session) {
  const Config& config = session.config;
  const std::vector<Feature>& features = session.train_data->features();
  if (const std::optional<size_t> found = image_feature(config, features)) return *found;
  std::vector<std::string> texts;
  for (const Feature& feature : features)
    texts.push_back(fmt::format("{} {} {}", feature.name, name_of(feature.dtype), feature.shape.to_string()));
  throw Error(
      ErrorKind::kConfig, config.mark("data.image"),
      fmt::format("run.mode=show: there are no images to show; `data.image` is `{}`, and the features are {}",
                  config.data.image.text, fmt::join(texts, ", ")),
      "a feature of float32 with the dimensions `rows`, `cols` and perhaps 1 or 3 channels");
}

/// The values of one feature of a batch, where the source has a feature of this name and type.
template <class T>
std::span<const T> values_of(const Source& source, const Batch& batch, const std::string& name) {
  const std::vector<Feature>& features = source.features();
  const auto found = std::ranges::find(features, name, &Feature::name);
  if (found == features.end() || found->dtype != DTypeOf<T>::value || found->shape.rank() > 0) return {};
  return batch.values<T>(static_cast<int>(found - features.begin()));
}

/// The label of each row; of a mixed one both labels with their weights.
std::vector<std::vector<std::string>> label_lines(const Source& source, const Batch& batch,
                                                  const AugmentSettings& settings) {
  const std::vector<std::string> names = source.class_names();
  const auto labels = values_of<int32_t>(source, batch, settings.labels);
  const auto others = values_of<int32_t>(source, batch, settings.labels + std::string(kOtherSuffix));
  const auto weights = values_of<float>(source, batch, settings.labels + std::string(kWeightSuffix));
  std::vector<std::vector<std::string>> lines(batch.weights.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string own = class_text(names, labels[i]);
    if (others.empty() || weights[i] == 1)
      lines[i] = {own};
    else
      lines[i] = {fmt::format("{:.2f} {}", weights[i], own),
                  fmt::format("{:.2f} {}", 1 - weights[i], class_text(names, others[i]))};
  }
  return lines;
}

ShownRows rows_of_training(const Session& session, size_t feature, int64_t count) {
  const AugmentSettings settings = augment_settings(session.config, AugmentFor::kTraining);
  const TrainingBatches batches = batches_from(session, 0);
  const BatchStream stream(session.train_data, batches,
                           {.begin = 0, .count = std::min(count, batches.batch_size)});
  const FeatureImage order = *image_of(session.train_data->features()[feature]);
  FloatImage image(order.shape.size());
  image.shape = order.shape;
  ShownRows rows;
  Batch batch = stream.make_batch();
  for (int64_t index = 0; std::ssize(rows.images) < count; ++index) {
    stream.read(index, batch);
    const auto values = batch.values<float>(static_cast<int>(feature));
    const std::vector<std::vector<std::string>> lines = label_lines(*session.train_data, batch, settings);
    for (int64_t i = 0; i < stream.local_rows() && std::ssize(rows.images) < count; ++i) {
      order.read(values.data() + i * image.shape.size(), image.pixels());
      undo_normalization(image, settings);
      rows.images.emplace_back(image.pixels(), image.pixels() + image.shape.size());
      rows.lines.push_back(lines[static_cast<size_t>(i)]);
    }
  }
  return rows;
}

}  // namespace

void show(const Session& session, Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  if (!session.processes->is_first()) return;
  const size_t feature = shown_feature(session);
  ShownRows rows = rows_of_training(session, feature, session.config.data.show);
  for (const std::vector<float>& image : rows.images) rows.range.include(image);
  const ImageShape shape = image_of(session.train_data->features()[feature])->shape;
  std::vector<SheetTile> tiles;
  for (size_t i = 0; i < rows.images.size(); ++i)
    tiles.push_back({drawn(rows.images[i], shape, rows.range, 3), rows.lines[i]});
  const std::vector<std::byte> file = encode_png(contact_sheet(tiles));
  const std::string path(kShowFile);
  if (const int error = write_file(path, file))
    throw Error(ErrorKind::kSystem, fmt::format("{} cannot be written: {}", path, system_message(error)));
  fmt::print("{}, in the working directory: the first {} training examples, {} x {}{}\n", path, tiles.size(),
             shape.rows, shape.cols,
             rows.range.is_default()
                 ? ""
                 : fmt::format("; black is {:.3g} and white {:.3g}", rows.range.least(), rows.range.most()));
}

}  // namespace mtf
