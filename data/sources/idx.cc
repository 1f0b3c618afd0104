#include "data/sources/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "data/input_file.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/text/text_settings.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr uint32_t image_magic = 2051;
constexpr uint32_t label_magic = 2049;

[[noreturn]] void bad_file(const std::string& path, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", path, what), hint);
}

class IdxReader {
 public:
  explicit IdxReader(const std::string& path) : file_(path, "an IDX file") {}

  /// Big-endian, as all numbers of the header.
  uint32_t read_number() {
    uint8_t bytes[4];
    if (file_.read(bytes, 4) != 4)
      bad_file(file_.path(), "the file ends within its header", "an IDX file; download it again");
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void expect_magic(uint32_t expected, std::string_view content) {
    const uint32_t magic = read_number();
    if (magic == expected) return;
    const std::string found = magic == image_magic   ? "2051: these are images"
                              : magic == label_magic ? "2049: these are labels"
                                                     : fmt::to_string(magic);
    bad_file(file_.path(), fmt::format("the file begins with the number {}", found),
             fmt::format("an IDX file of {} begins with {}", content, expected));
  }

  /// The rest of the file, which must have `size` bytes exactly.
  std::vector<uint8_t> read_rest(int64_t size, const std::string& described) {
    // The header may be wrong: memory grows with what is really there.
    std::vector<uint8_t> bytes;
    int64_t got = 0;
    while (got < size) {
      const int64_t want = std::min(size - got, std::max<int64_t>(got, 1 << 20));
      bytes.resize(static_cast<size_t>(got + want));
      const int64_t part = file_.read(bytes.data() + got, want);
      got += part;
      if (part < want) break;
    }
    if (got < size)
      bad_file(file_.path(),
               fmt::format("the file has {} bytes of data, its header says {} ({})", got, size, described),
               "the file is cut off; download it again");
    uint8_t surplus;
    if (file_.read(&surplus, 1) != 0)
      bad_file(file_.path(),
               fmt::format("the file goes on after the {} bytes that its header says ({})", size, described),
               "header and data do not belong together; download the file again");
    return bytes;
  }

 private:
  InputFile file_;
};

}  // namespace

IdxImages read_idx_images(const std::string& path) {
  IdxReader reader(path);
  reader.expect_magic(image_magic, "images");
  IdxImages images;
  images.count = reader.read_number();
  images.rows = reader.read_number();
  images.cols = reader.read_number();
  const std::string described =
      fmt::format("{} images of {} x {} pixels", images.count, images.rows, images.cols);
  int64_t bytes = 0;
  const bool too_large = __builtin_mul_overflow(images.count, images.rows, &bytes) ||
                         __builtin_mul_overflow(bytes, images.cols, &bytes);
  if (too_large)
    bad_file(path, "the header says " + described, "no file is so large; download the file again");
  if (bytes == 0)
    bad_file(path, "the header says " + described, "at least one image with at least one pixel");
  images.pixels = reader.read_rest(bytes, described);
  return images;
}

std::vector<uint8_t> read_idx_labels(const std::string& path) {
  IdxReader reader(path);
  reader.expect_magic(label_magic, "labels");
  const int64_t count = reader.read_number();
  if (count == 0) bad_file(path, "the header says 0 labels", "at least one label");
  return reader.read_rest(count, fmt::format("{} labels", count));
}

std::vector<Feature> idx_features(int64_t rows, int64_t cols) {
  return {{std::string(kImageFeature), Shape{{"rows", rows}, {"cols", cols}}, DType::kFloat32},
          {std::string(kLabelsFeature), Shape{}, DType::kInt32}};
}

IdxSource::IdxSource(const std::vector<std::string>& image_paths,
                     const std::vector<std::string>& label_paths) {
  MTF_CHECK(!image_paths.empty() && image_paths.size() == label_paths.size(),
            "{} files of images, {} files of labels", image_paths.size(), label_paths.size());
  int64_t rows = 0, cols = 0;
  for (size_t i = 0; i < image_paths.size(); ++i) {
    IdxImages images = read_idx_images(image_paths[i]);
    std::vector<uint8_t> labels = read_idx_labels(label_paths[i]);
    const auto label_count = static_cast<int64_t>(labels.size());
    if (images.count != label_count)
      bad_file(label_paths[i],
               fmt::format("{} labels for the {} images of {}", label_count, images.count, image_paths[i]),
               "one label for each image");
    if (i > 0 && (images.rows != rows || images.cols != cols))
      bad_file(image_paths[i],
               fmt::format("images of {} x {} pixels, but {} has {} x {}", images.rows, images.cols,
                           image_paths[0], rows, cols),
               "images of one size");
    rows = images.rows;
    cols = images.cols;
    label_files_.push_back({label_paths[i], examples()});
    if (i == 0) {
      pixels_ = std::move(images.pixels);
      labels_ = std::move(labels);
    } else {
      pixels_.insert(pixels_.end(), images.pixels.begin(), images.pixels.end());
      labels_.insert(labels_.end(), labels.begin(), labels.end());
    }
  }
  features_ = idx_features(rows, cols);
  for (int pixel = 0; pixel < 256; ++pixel) scaled_[pixel] = static_cast<float>(pixel) / 255.0f;
}

void IdxSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  auto* image = reinterpret_cast<float*>(slices[0].output);
  auto* label = reinterpret_cast<int32_t*>(slices[1].output);
  const int64_t size = features_[0].shape.size();
  for (const int64_t row : rows) {
    MTF_CHECK(row >= 0 && row < examples(), "row {} of {}", row, examples());
    const uint8_t* pixels = pixels_.data() + row * size;
    for_each_run(features_[0].shape, slices[0].box, [&](int64_t first, int64_t count) {
      image = std::transform(pixels + first, pixels + first + count, image,
                             [this](uint8_t pixel) { return scaled_[pixel]; });
    });
    *label++ = labels_[row];
  }
}

void IdxSource::check_labels(int64_t classes) const {
  const auto bad = std::ranges::find_if(labels_, [classes](uint8_t label) { return label >= classes; });
  if (bad == labels_.end()) return;
  const int64_t example = bad - labels_.begin();
  const auto file = std::find_if(label_files_.rbegin(), label_files_.rend(),
                                 [example](const LabelFile& f) { return f.begin <= example; });
  bad_file(
      file->path,
      fmt::format("label {} of example {}, but there are {} classes", *bad, example - file->begin, classes),
      fmt::format("labels from 0 to {}, or {} classes in the model", classes - 1,
                  *std::ranges::max_element(labels_) + 1));
}

namespace {

/// IDX files of images and their class labels.
struct IdxOptions final : SourceOptions {
  static constexpr std::string_view type_name = "idx";
  static constexpr bool type_required = true;
  std::vector<config::Path> images;
  std::vector<config::Path> labels;

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    std::vector<Problem> missing;
    const std::vector<std::string> of_images = find_regular_files(images, missing);
    const std::vector<std::string> of_labels = find_regular_files(labels, missing);
    if (!missing.empty()) throw Error(std::move(missing));
    if (of_images.empty() || of_images.size() != of_labels.size())
      throw Error(ErrorKind::kData, context.mark,
                  fmt::format("{} files of images and {} of labels", of_images.size(), of_labels.size()),
                  "one file of labels for each file of images");
    return std::make_unique<IdxSource>(of_images, of_labels);
  }
  std::vector<config::Path*> paths() override { return pointers_to({&images, &labels}); }
};

void describe(config::Visitor& visit, IdxOptions& options) {
  visit("images", options.images, "IDX files of images, plain or .gz: a path, a list or a glob",
        config::required);
  visit("labels", options.labels, "IDX files of their labels, one for each file of images", config::required);
}

const config::Registration<SourceOptions, IdxOptions> idx_registration;

}  // namespace
}  // namespace mtf
