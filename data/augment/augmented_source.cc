#include "data/augment/augmented_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/nearest.h"

namespace mtf {
namespace {

bool is_mixing(const config::Listed<AugmentationOptions>& augmentation) {
  return augmentation.choice.get_if<MixingOptions>() != nullptr;
}

/// The augmentations that apply, with their places in the list.
std::vector<std::pair<size_t, config::Listed<AugmentationOptions>>> applied(const AugmentSettings& settings) {
  std::vector<std::pair<size_t, config::Listed<AugmentationOptions>>> result;
  for (size_t i = 0; i < settings.augmentations.size(); ++i) {
    const auto& augmentation = settings.augmentations[i];
    if (settings.purpose == AugmentFor::kTraining || augmentation.choice->in_evaluation())
      result.emplace_back(i, augmentation);
  }
  return result;
}

std::vector<std::string> feature_names(const std::vector<Feature>& features) {
  std::vector<std::string> names;
  for (const Feature& feature : features) names.push_back(feature.name);
  return names;
}

/// The place of a feature. Throws Error (kConfig) at `mark` when there is none.
size_t place_of(const std::vector<Feature>& features, const std::string& name, const Mark& mark) {
  const auto found = std::ranges::find(features, name, &Feature::name);
  if (found == features.end())
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`data.augment`: the examples have no feature `{}`", name),
                did_you_mean(name, feature_names(features)));
  return static_cast<size_t>(found - features.begin());
}

/// The shapes of an image on its way: the first is the source's.
struct ShapesOnTheWay {
  FeatureImage first;
  ImageShape last;
  int64_t capacity = 0;  ///< numbers of the largest, or of its rows with the columns of another
};

ShapesOnTheWay shapes_of(const Feature& feature, const AugmentSettings& settings) {
  const std::optional<FeatureImage> image = image_of(feature);
  if (!image)
    throw Error(
        ErrorKind::kConfig, settings.mark,
        fmt::format("`data.augment` works on images, and feature `{}` is {} {}", feature.name,
                    name_of(feature.dtype), feature.shape.to_string()),
        "in `data.image` a feature of float32 whose dimensions are `rows`, `cols` and perhaps channels; "
        "`dimensions` of a source names them");
  ShapesOnTheWay shapes{*image, image->shape, 0};
  int64_t rows = image->shape.rows, cols = image->shape.cols;
  const Augmentations* const list = &settings.augmentations;
  const config::Listed<AugmentationOptions>* mixed = nullptr;
  for (const auto& [place, augmentation] : applied(settings)) {
    if (is_mixing(augmentation) && mixed != nullptr && !is_mixing((*list)[place - 1]))
      throw Error(ErrorKind::kConfig, augmentation.mark,
                  fmt::format("`{}` and `{}` mix rows, and others stand between them", mixed->choice.type(),
                              augmentation.choice.type()),
                  "those that mix one after the other");
    if (is_mixing(augmentation)) mixed = &(*list)[place];
    shapes.last = augmentation.choice->result(shapes.last, augmentation.mark);
    rows = std::max(rows, shapes.last.rows);
    cols = std::max(cols, shapes.last.cols);
  }
  shapes.capacity = rows * cols * image->shape.channels;
  return shapes;
}

}  // namespace

std::vector<Feature> augmented_features(const std::vector<Feature>& features,
                                        const AugmentSettings& settings) {
  const auto list = applied(settings);
  if (list.empty()) return features;
  std::vector<Feature> result = features;
  Feature& image = result[place_of(features, settings.image, settings.mark)];
  const ImageShape made = shapes_of(image, settings).last;
  image.shape = image.shape.resized("rows", made.rows).resized("cols", made.cols);
  const auto mixing = std::ranges::find_if(list, [](const auto& entry) { return is_mixing(entry.second); });
  if (mixing == list.end()) return result;
  const Mark& mark = mixing->second.mark;
  const Feature labels = result[place_of(features, settings.labels, mark)];
  if (labels.dtype != DType::kInt32 || labels.shape.rank() != 0)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`{}` mixes rows with one label each, and feature `{}` is {} {}",
                            mixing->second.choice.type(), labels.name, name_of(labels.dtype),
                            labels.shape.to_string()),
                "the number of a class for each example");
  Feature other = labels;
  other.name += kOtherSuffix;
  other.training_only = true;
  result.push_back(other);
  result.push_back({labels.name + std::string(kWeightSuffix), Shape{}, DType::kFloat32, 0, true});
  return result;
}

std::shared_ptr<const Source> augmented(std::shared_ptr<const Source> source,
                                        const AugmentSettings& settings) {
  if (applied(settings).empty()) return source;
  return std::make_shared<AugmentedSource>(std::move(source), settings);
}

void undo_normalization(FloatImage& image, const AugmentSettings& settings) {
  const auto list = applied(settings);
  for (auto step = list.rbegin(); step != list.rend(); ++step) step->second.choice->undo(image);
}

AugmentedSource::AugmentedSource(std::shared_ptr<const Source> source, const AugmentSettings& settings)
    : source_(std::move(source)), features_(augmented_features(source_->features(), settings)) {
  image_ = place_of(source_->features(), settings.image, settings.mark);
  const ShapesOnTheWay shapes = shapes_of(source_->features()[image_], settings);
  from_ = shapes.first;
  to_ = *image_of(features_[image_]);
  capacity_ = shapes.capacity;
  for (const auto& [place, augmentation] : applied(settings)) {
    std::vector<Step>& steps = is_mixing(augmentation) ? mixing_ : mixes() ? steps_of_mixed_ : steps_;
    steps.push_back({augmentation, random_key(fmt::format("data.augment/{}", place), settings.seed)});
  }
  if (mixes()) labels_ = place_of(source_->features(), settings.labels, settings.mark);
  pool_ = std::make_unique<WorkerPool>(settings.threads);
}

struct AugmentedSource::Portion {
  std::span<const int64_t> examples;  ///< where rows are mixed, also that of the row after the last
  std::span<const int64_t> epochs;
  std::span<const FeatureSlice> slices;
  int64_t first = 0;                ///< the row of the slices at which it begins
  const float* images = nullptr;    ///< as the source has them
  const int32_t* labels = nullptr;  ///< where rows are mixed

  template <class T>
  T* output(size_t feature, int64_t row) const {
    return reinterpret_cast<T*>(slices[feature].output) + first + row;
  }
};

AugmentedSource::Portions AugmentedSource::portions(int64_t rows) const {
  constexpr int64_t kBytes = 4 << 20, kTasksOfThread = 4, kRowsOfThread = 4;
  const int64_t threads = pool_->threads(), bytes = from_.shape.size() * static_cast<int64_t>(sizeof(float));
  Portions result{};
  result.rows = std::min(rows, std::max(kBytes / bytes, kRowsOfThread * threads));
  // The first row after a task is worked on twice where rows are mixed.
  result.tasks = std::min(result.rows, mixes() || threads == 1 ? threads : kTasksOfThread * threads);
  return result;
}

int64_t AugmentedSource::bytes_of_reading(int64_t rows) const {
  const Portions of = portions(rows);
  const int64_t read = of.rows + (mixes() ? 1 : 0);
  int64_t bytes = read * from_.shape.size() * static_cast<int64_t>(sizeof(float));
  if (mixes()) {
    for (const Feature& feature : source_->features()) bytes += read * feature.bytes();
  }
  const int64_t buffers = mixes() ? 4 : 2;
  bytes += std::min<int64_t>(of.tasks, pool_->threads()) * buffers * capacity_ *
           static_cast<int64_t>(sizeof(float));
  return bytes + source_->bytes_of_reading(of.rows);
}

void AugmentedSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  MTF_CHECK(!mixes(), "mixed rows have no examples of their own");
  read_rows(rows, std::vector<int64_t>(rows.size(), 0), std::ssize(rows), slices);
}

void AugmentedSource::read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                                    std::span<const FeatureSlice> slices) const {
  read_rows(examples, epochs, std::ssize(examples) - 1, slices);
}

void AugmentedSource::read_rows(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                                int64_t rows, std::span<const FeatureSlice> slices) const {
  const std::vector<Feature>& inner = source_->features();
  const Portions of = portions(rows);
  const int64_t more = mixes() ? 1 : 0;
  std::vector<float> images(static_cast<size_t>((of.rows + more) * from_.shape.size()));
  std::vector<std::vector<std::byte>> others(inner.size());
  if (mixes()) {
    for (size_t f = 0; f < inner.size(); ++f) {
      if (f != image_) others[f].resize(static_cast<size_t>((of.rows + more) * inner[f].bytes()));
    }
  }
  std::vector<FeatureSlice> inner_slices(inner.size());
  for (int64_t begin = 0; begin < rows; begin += of.rows) {
    const int64_t count = std::min(of.rows, rows - begin);
    const auto part = static_cast<size_t>(count + more);
    for (size_t f = 0; f < inner.size(); ++f) {
      inner_slices[f] = slices[f];
      inner_slices[f].output += begin * slices[f].bytes(inner[f]);
      if (mixes() && f != image_) inner_slices[f].output = others[f].data();
    }
    inner_slices[image_] = {reinterpret_cast<std::byte*>(images.data())};
    Portion portion{examples.subspan(static_cast<size_t>(begin), part),
                    epochs.subspan(static_cast<size_t>(begin), part), slices, begin, images.data()};
    source_->read(portion.examples, inner_slices);
    if (mixes()) {
      for (size_t f = 0; f < inner.size(); ++f) {
        if (f == image_) continue;
        const int64_t bytes = slices[f].bytes(inner[f]);
        std::memcpy(slices[f].output + begin * bytes, others[f].data(), static_cast<size_t>(count * bytes));
      }
      portion.labels = reinterpret_cast<const int32_t*>(others[labels_].data());
    }
    const int64_t tasks = std::min(of.tasks, count);
    pool_->run(tasks,
               [&](int64_t task) { run_task(portion, task * count / tasks, (task + 1) * count / tasks); });
  }
}

void AugmentedSource::apply(const std::vector<Step>& steps, FloatImage& image, int64_t example,
                            int64_t epoch) const {
  for (const Step& step : steps) {
    Draws draws(step.key, example, epoch);
    step.augmentation.choice->apply(image, draws);
  }
}

void AugmentedSource::run_task(const Portion& portion, int64_t begin, int64_t end) const {
  const Feature& feature = features_[image_];
  const FeatureSlice& slice = portion.slices[image_];
  const auto first_steps = [&](FloatImage& image, int64_t row) {
    image.shape = from_.shape;
    from_.read(portion.images + row * image.shape.size(), image.pixels());
    const auto i = static_cast<size_t>(row);
    apply(steps_, image, portion.examples[i], portion.epochs[i]);
  };
  FloatImage one(capacity_), another(mixes() ? capacity_ : 0);
  FloatImage *image = &one, *next = &another;
  if (mixes()) first_steps(*image, begin);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t example = portion.examples[static_cast<size_t>(row)],
                  epoch = portion.epochs[static_cast<size_t>(row)];
    if (mixes()) {
      first_steps(*next, row + 1);
      float weight = 1;
      for (const Step& step : mixing_) {
        Draws draws(step.key, example, epoch);
        const auto& mixing = *step.augmentation.choice.get_if<MixingOptions>();
        if (!draws.chance(mixing.probability)) continue;
        weight = mixing.mix(*image, *next, draws);
        break;
      }
      apply(steps_of_mixed_, *image, example, epoch);
      *portion.output<int32_t>(features_.size() - 2, row) = portion.labels[row + 1];
      *portion.output<float>(features_.size() - 1, row) = weight;
    } else {
      first_steps(*image, row);
    }
    const float* value = image->pixels();
    if (!to_.is_in_order()) {
      to_.write(value, image->spare());
      value = image->spare();
    }
    copy_box(feature, slice.box, reinterpret_cast<const std::byte*>(value),
             slice.output + (portion.first + row) * slice.bytes(feature));
    if (mixes()) std::swap(image, next);
  }
}

}  // namespace mtf
