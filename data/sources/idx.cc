#include "data/sources/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "data/class_names.h"
#include "data/input_file.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/sources/dimensions.h"
#include "data/text/text_settings.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr uint32_t image_magic = 2051;
constexpr uint32_t label_magic = 2049;

/// The third byte of a file.
std::optional<StoredType> type_of(uint32_t code) {
  switch (code) {
    case 8:
      return StoredType::kUint8;
    case 9:
      return StoredType::kInt8;
    case 11:
      return StoredType::kInt16;
    case 12:
      return StoredType::kInt32;
    case 13:
      return StoredType::kFloat32;
    case 14:
      return StoredType::kFloat64;
    default:
      return std::nullopt;
  }
}

std::string_view things_in(IdxContent content) {
  return content == IdxContent::kImages ? "images" : "labels";
}

/// "2 images of 28 x 28 pixels"
std::string description_of(const IdxArray& array, IdxContent content) {
  const std::vector<int64_t>& sizes = array.sizes;
  if (content == IdxContent::kLabels && sizes.size() == 1) return fmt::format("{} labels", sizes[0]);
  const std::string of_each = fmt::format("{}", fmt::join(sizes.begin() + 1, sizes.end(), " x "));
  const std::string_view things = things_in(content);
  return array.type == StoredType::kUint8
             ? fmt::format("{} {} of {} pixels", sizes[0], things, of_each)
             : fmt::format("{} {} of {} numbers of {}", sizes[0], things, of_each, name_of(array.type));
}

class IdxReader {
 public:
  explicit IdxReader(const std::string& path) : file_(path, "an IDX file") {}

  IdxArray read(IdxContent content) {
    IdxArray array;
    const uint32_t magic = read_number(), rank = magic & 255;
    const std::optional<StoredType> type = magic >> 16 == 0 ? type_of(magic >> 8) : std::nullopt;
    const bool of_images = content == IdxContent::kImages;
    if (!type || rank < (of_images ? 2u : 1u)) {
      const std::string found = magic == image_magic   ? "2051: these are images"
                                : magic == label_magic ? "2049: these are labels"
                                                       : fmt::to_string(magic);
      throw_bad_file(
          file_.path(), fmt::format("the file begins with the number {}", found),
          of_images
              ? "an IDX file of images begins with 2051 or, of other types and ranks, with 256 * type + rank"
              : "an IDX file of labels begins with 2049 or, of other types and ranks, with 256 * type + "
                "rank");
    }
    array.type = *type;
    for (uint32_t i = 0; i < rank; ++i) array.sizes.push_back(read_number());
    const std::string described = description_of(array, content);
    int64_t bytes = size_of(array.type);
    for (const int64_t size : array.sizes) {
      if (__builtin_mul_overflow(bytes, size, &bytes))
        throw_bad_file(file_.path(), "the header says " + described,
                       "no file is so large; download the file again");
    }
    if (bytes == 0)
      throw_bad_file(file_.path(), "the header says " + described,
                     of_images ? "at least one image with at least one pixel" : "at least one label");
    array.bytes = read_rest(bytes, described);
    return array;
  }

 private:
  /// Big-endian, as all numbers of the header.
  uint32_t read_number() {
    uint8_t bytes[4];
    if (file_.read(bytes, 4) != 4)
      throw_bad_file(file_.path(), "the file ends within its header", "an IDX file; download it again");
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  /// The rest of the file, which must have `size` bytes exactly.
  std::vector<std::byte> read_rest(int64_t size, const std::string& described) {
    // The header may be wrong: memory grows with what is really there.
    std::vector<std::byte> bytes;
    int64_t got = 0;
    while (got < size) {
      const int64_t want = std::min(size - got, std::max<int64_t>(got, 1 << 20));
      bytes.resize(static_cast<size_t>(got + want));
      const int64_t part = file_.read(bytes.data() + got, want);
      got += part;
      if (part < want) break;
    }
    if (got < size)
      throw_bad_file(
          file_.path(),
          fmt::format("the file has {} bytes of data, its header says {} ({})", got, size, described),
          "the file is cut off; download it again");
    uint8_t surplus;
    if (file_.read(&surplus, 1) != 0)
      throw_bad_file(
          file_.path(),
          fmt::format("the file goes on after the {} bytes that its header says ({})", size, described),
          "header and data do not belong together; download the file again");
    return bytes;
  }

  InputFile file_;
};

/// Feature `name` of files that each have one array.
ArrayFeature feature_of(std::string name, Shape shape, std::vector<IdxArray> arrays,
                        const std::vector<std::string>& paths) {
  const bool is_image = name == kImageFeature;
  const DType dtype = is_image || !is_integer(arrays[0].type) ? DType::kFloat32 : DType::kInt32;
  ArrayFeature result{{std::move(name), std::move(shape), dtype}, {}};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(arrays[i].bytes));
    const StoredType type = arrays[i].type;
    const std::vector<int64_t> strides = row_major_strides(arrays[i].sizes, size_of(type));
    result.arrays.push_back({.path = paths[i],
                             .owner = bytes,
                             .data = bytes->data(),
                             .examples = arrays[i].sizes[0],
                             .stride = strides[0],
                             .strides = {strides.begin() + 1, strides.end()},
                             .elements = {type, true, is_image && type == StoredType::kUint8},
                             .bytes_in_memory = std::ssize(*bytes)});
  }
  return result;
}

/// The sizes of one example.
std::vector<int64_t> sizes_of(const IdxArray& array) { return {array.sizes.begin() + 1, array.sizes.end()}; }

std::string text_of(const std::vector<int64_t>& sizes) {
  return sizes.empty() ? "one number" : fmt::format("{}", fmt::join(sizes, " x "));
}

/// Whether numbers of both types mean the same in one feature: pixels of 8 bits are scaled, and no other numbers.
bool are_alike(StoredType a, StoredType b, IdxContent content) {
  if (is_integer(a) != is_integer(b)) return false;
  return content == IdxContent::kLabels || (a == StoredType::kUint8) == (b == StoredType::kUint8);
}

/// Throws Error unless the files have examples of the same kind.
void check_alike(const std::vector<IdxArray>& arrays, const std::vector<std::string>& paths,
                 IdxContent content) {
  const std::string_view things = things_in(content);
  for (size_t i = 1; i < arrays.size(); ++i) {
    if (sizes_of(arrays[i]) != sizes_of(arrays[0]))
      throw_bad_file(paths[i],
                     fmt::format("{} of {}, but {} has {}", things, text_of(sizes_of(arrays[i])), paths[0],
                                 text_of(sizes_of(arrays[0]))),
                     fmt::format("{} of one size", things));
    if (!are_alike(arrays[i].type, arrays[0].type, content))
      throw_bad_file(paths[i],
                     fmt::format("{} of {}, but {} has {}", things, name_of(arrays[i].type), paths[0],
                                 name_of(arrays[0].type)),
                     fmt::format("{} of one type", things));
  }
}

}  // namespace

IdxArray read_idx(const std::string& path, IdxContent content) { return IdxReader(path).read(content); }

std::vector<Feature> idx_features(int64_t rows, int64_t cols) {
  return {{std::string(kImageFeature), Shape{{"rows", rows}, {"cols", cols}}, DType::kFloat32},
          {std::string(kLabelsFeature), Shape{}, DType::kInt32}};
}

std::unique_ptr<ArraySource> open_idx(const std::vector<std::string>& image_paths,
                                      const std::vector<std::string>& label_paths,
                                      const std::vector<config::Name>& dimensions, const Mark& mark,
                                      std::vector<std::string> class_names) {
  const bool labelled = !label_paths.empty();
  MTF_CHECK(!image_paths.empty() && (!labelled || image_paths.size() == label_paths.size()),
            "{} files of images, {} files of labels", image_paths.size(), label_paths.size());
  std::vector<IdxArray> images, labels;
  for (size_t i = 0; i < image_paths.size(); ++i) {
    images.push_back(read_idx(image_paths[i], IdxContent::kImages));
    if (!labelled) continue;
    labels.push_back(read_idx(label_paths[i], IdxContent::kLabels));
    if (images[i].sizes[0] != labels[i].sizes[0])
      throw_bad_file(label_paths[i],
                     fmt::format("{} labels for the {} images of {}", labels[i].sizes[0], images[i].sizes[0],
                                 image_paths[i]),
                     "one label for each image");
  }
  check_alike(images, image_paths, IdxContent::kImages);
  check_alike(labels, label_paths, IdxContent::kLabels);
  const Shape shape = named_shape(sizes_of(images[0]), dimensions, mark, "the images of " + image_paths[0]);
  std::vector<ArrayFeature> features;
  if (!labelled) {
    features.push_back(feature_of(std::string(kImageFeature), shape, std::move(images), image_paths));
    return std::make_unique<ArraySource>(std::move(features), std::move(class_names), mark);
  }
  const std::vector<int64_t> of_labels = sizes_of(labels[0]), of_images = sizes_of(images[0]);
  if (of_labels.size() > of_images.size() ||
      !std::equal(of_labels.begin(), of_labels.end(), of_images.begin()))
    throw_bad_file(label_paths[0],
                   fmt::format("labels of {} for images of {}", text_of(of_labels), text_of(of_images)),
                   "one label for each image, or for each of its pixels");
  const Shape shape_of_labels(
      std::vector<Dimension>(shape.begin(), shape.begin() + static_cast<int64_t>(of_labels.size())));
  features.push_back(feature_of(std::string(kImageFeature), shape, std::move(images), image_paths));
  features.push_back(
      feature_of(std::string(kLabelsFeature), shape_of_labels, std::move(labels), label_paths));
  return std::make_unique<ArraySource>(std::move(features), std::move(class_names), mark);
}

namespace {

/// IDX files of images and their class labels.
struct IdxOptions final : SourceOptions {
  static constexpr std::string_view type_name = "idx";
  static constexpr bool type_required = true;
  std::vector<config::Path> images;
  std::vector<config::Path> labels;
  std::vector<config::Name> dimensions;
  std::vector<std::string> class_names;

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    std::vector<Problem> missing;
    const std::vector<std::string> of_images = find_regular_files(images, missing);
    if (context.labelled && labels.empty())
      throw Error(ErrorKind::kConfig, context.mark, "a source `idx` without `labels`",
                  "IDX files of labels, one for each file of images");
    std::vector<std::string> of_labels;
    if (context.labelled) of_labels = find_regular_files(labels, missing);
    if (!missing.empty()) throw Error(std::move(missing));
    if (!context.labelled && !of_images.empty())
      return open_idx(of_images, {}, dimensions, context.mark, class_names);
    if (of_images.empty() || of_images.size() != of_labels.size())
      throw Error(ErrorKind::kData, context.mark,
                  fmt::format("{} files of images and {} of labels", of_images.size(), of_labels.size()),
                  "one file of labels for each file of images");
    return open_idx(of_images, of_labels, dimensions, context.mark, class_names);
  }
  std::vector<config::Path*> paths() override { return pointers_to({&images, &labels}); }
  bool read_from(const config::Path& path) override {
    images = {path};
    labels.clear();
    return true;
  }
};

void describe(config::Visitor& visit, IdxOptions& options) {
  visit("images", options.images, "IDX files of images, plain or .gz: a path, a list or a glob",
        config::required);
  visit("labels", options.labels,
        "IDX files of their labels, one for each file of images; not needed in `infer.input`");
  visit("dimensions", options.dimensions,
        "names of the dimensions of an image; by default [inputs], [rows, cols], [rows, cols, channels] or "
        "[rows, cols, depth, channels], whichever it has");
  visit("class_names", options.class_names,
        "names of all classes, in the order of the labels; of data.train those of later data, too");
  visit.check([&options](const config::Report& report) {
    check_class_names(options.class_names, "class_names", report);
  });
}

const config::Registration<SourceOptions, IdxOptions> idx_registration;

}  // namespace
}  // namespace mtf
