#include "data/sources/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "data/delimited.h"
#include "data/elements.h"
#include "data/input_file.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/text/line_reader.h"
#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClassesFile = "classes.txt";

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_image_name(const fs::path& path) {
  const std::string extension = lower_case(path.extension().string());
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// The entries of a directory that are not hidden, sorted by name.
template <class Wanted>
std::vector<fs::path> entries_of(const fs::path& directory, const Wanted& wanted) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_hidden(entry->path()) && wanted(*entry)) entries.push_back(entry->path());
  }
  if (error)
    throw Error(ErrorKind::kData, fmt::format("cannot read {}: {}", directory.string(), error.message()),
                "a folder of images");
  std::ranges::sort(entries);
  return entries;
}

std::vector<fs::path> folders_in(const fs::path& directory) {
  return entries_of(directory, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored);
  });
}

struct FoundImages {
  std::vector<fs::path> images;
  std::vector<fs::path> broken;  ///< links to files that are not there
  PassedOver others;
};

void find_images(const fs::path& directory, FoundImages& found) {
  const std::vector<fs::path> files = entries_of(directory, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (!is_image_name(entry.path())) {
      if (entry.is_regular_file(ignored)) found.others.add(entry.path());
      return false;
    }
    if (entry.is_symlink(ignored) && !entry.exists(ignored)) found.broken.push_back(entry.path());
    return entry.is_regular_file(ignored);
  });
  found.images.insert(found.images.end(), files.begin(), files.end());
  for (const fs::path& folder : folders_in(directory)) {
    std::error_code ignored;
    if (!fs::is_symlink(folder, ignored)) find_images(folder, found);
  }
}

/// The images below a directory, sorted by path; links to directories are followed only at the top. Adds the other files to
/// `others`. Throws Error (kData) at links to files that are not there.
std::vector<fs::path> images_below(const fs::path& directory, PassedOver& others) {
  FoundImages found{.images = {}, .broken = {}, .others = std::move(others)};
  find_images(directory, found);
  if (!found.broken.empty())
    throw Error(
        ErrorKind::kData,
        fmt::format(
            "{} is a link to a file that is not there{}", printable(std::ranges::min(found.broken).string()),
            found.broken.size() == 1 ? "" : fmt::format(", one of {} such links", found.broken.size())),
        "links to images, or none");
  others = std::move(found.others);
  return std::move(found.images);
}

/// Throws Error (kData) for a file with a byte that no text has, such as an image of another kind.
void check_is_text(const std::string& list) {
  std::array<char, 4096> bytes;
  InputFile file(list, "a list of images");
  const int64_t size = file.read(bytes.data(), std::ssize(bytes));
  if (std::find(bytes.begin(), bytes.begin() + size, '\0') == bytes.begin() + size) return;
  throw Error(ErrorKind::kData,
              fmt::format("{} is neither an image that can be read nor a list of images", printable(list)),
              "a .png, .jpg or .jpeg file, or a text with the path of an image in each line");
}

/// Throws Error unless the name of a class, which stands at `place`, is UTF-8.
void check_class_name(const std::string& name, const std::string& place, std::string_view hint) {
  if (const std::optional<std::string> invalid = invalid_utf8(name))
    throw Error(ErrorKind::kData, fmt::format("{}: class `{}`: {}", place, printable(name), *invalid),
                std::string(hint));
}

/// The lines of classes.txt; nothing if there is no such file.
std::vector<std::string> lines_of_classes(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  DelimitedReader reader(file.string(), Delimiter::kTab);
  std::vector<std::string> names;
  while (reader.next()) {
    check_class_name(reader.fields()[0], reader.place(), kConvertToUtf8);
    names.push_back(reader.fields()[0]);
  }
  return names;
}

/// The columns of a list that are the path and the label.
struct Columns {
  size_t path = 0, label = 1;
};

/// The columns that the first record of a list names; nothing when it is an example. Without labels that of the path
/// suffices.
std::optional<Columns> columns_in(const std::vector<std::string>& header, bool labelled) {
  constexpr std::array<std::string_view, 5> kPaths = {"path", "file", "filename", "image", "image_path"};
  constexpr std::array<std::string_view, 4> kLabels = {"label", "labels", "class", "target"};
  const auto find = [&](std::span<const std::string_view> names) {
    return std::ranges::find_if(header,
                                [&](const std::string& field) {
                                  return std::ranges::find(names, lower_case(field)) != names.end();
                                }) -
           header.begin();
  };
  const auto path = static_cast<size_t>(find(kPaths)), label = static_cast<size_t>(find(kLabels));
  if (path == header.size() || (labelled && label == header.size())) return std::nullopt;
  return Columns{path, label};
}

/// A line of a list.
struct Record {
  std::string path, label, place;
};

/// The lines of a list; without labels only the paths.
std::vector<Record> records_in(const std::string& list, bool labelled) {
  const std::string hint = labelled ? "the path of an image and its label" : "the path of an image";
  check_is_text(list);
  std::vector<Record> records;
  DelimitedReader reader(list, delimiter_of(list));
  Columns columns;
  for (bool first = true; reader.next(); first = false) {
    if (first) {
      if (const std::optional<Columns> named = columns_in(reader.fields(), labelled)) {
        columns = *named;
        continue;
      }
    }
    const std::vector<std::string>& fields = reader.fields();
    if (fields.size() <= (labelled ? std::max(columns.path, columns.label) : columns.path))
      throw Error(ErrorKind::kData,
                  fmt::format("{}: {}", reader.place(), counted(std::ssize(fields), "value")), hint);
    const Record record{fields[columns.path], labelled ? fields[columns.label] : "", reader.place()};
    if (record.path.empty() || (labelled && record.label.empty()))
      throw Error(ErrorKind::kData, fmt::format("{}: a value is missing", reader.place()), hint);
    check_class_name(record.label, record.place, kConvertToUtf8);
    records.push_back(record);
  }
  if (records.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: the list names no images", list), "a line for each image");
  return records;
}

/// The image of a record, whose path is relative to the list.
LabelledImage image_of(const Record& record, const std::string& list, int32_t label) {
  const fs::path path = fs::path(list).parent_path() / record.path;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored))
    throw Error(ErrorKind::kData,
                fmt::format("{}: there is no file {}", record.place, printable(path.string())),
                "a path relative to the list");
  return {path.string(), record.path, label};
}

}  // namespace

void PassedOver::add(const std::filesystem::path& file) {
  if (file.filename() == kClassesFile) return;
  ++files_;
  ++endings_[lower_case(file.extension().string())];
}

std::string PassedOver::to_string() const {
  std::vector<std::string> endings;
  for (const auto& [ending, count] : endings_)
    endings.push_back(fmt::format("{} {}", with_thousands(static_cast<double>(count)),
                                  ending.empty() ? "without ending" : printable(ending)));
  constexpr size_t kListed = 8;
  return fmt::format("{} passed over, since images are .png, .jpg and .jpeg: {}", counted(files_, "file"),
                     list_names(endings, kListed));
}

ImageList images_in_folder(const std::string& folder, const KnownClasses& known) {
  const std::vector<fs::path> folders = folders_in(folder);
  if (folders.empty())
    throw Error(ErrorKind::kData, fmt::format("{} has no subfolders", folder),
                "a subfolder of images for each class, or a list of images as `path`");
  for (const fs::path& each : folders)
    check_class_name(each.filename().string(), folder, "rename the subfolder to a name in UTF-8");
  const std::string classes_file = (fs::path(folder) / kClassesFile).string();
  const bool are_known = known && !known->empty();
  std::vector<std::string> names = are_known ? *known : lines_of_classes(classes_file);
  const bool are_found = !known && names.empty();
  if (are_found) {
    for (const fs::path& each : folders) names.push_back(each.filename().string());
  }
  const ClassNames classes(names, are_known ? "the training data" : classes_file);
  ImageList list{.images = {}, .class_names = names, .names_are_found = are_found, .others = {}};
  for (const fs::path& each : folders) {
    const int32_t label = classes.number(each.filename().string(), each.string());
    const std::vector<fs::path> images = images_below(each, list.others);
    if (images.empty())
      throw Error(ErrorKind::kData, fmt::format("{} has no images", printable(each.string())),
                  "files that end in .png, .jpg or .jpeg for each class");
    for (const fs::path& image : images)
      list.images.push_back({image.string(), image.lexically_relative(folder).string(), label});
  }
  return list;
}

ImageList images_in_list(const std::string& list, const KnownClasses& known) {
  const std::vector<Record> records = records_in(list, true);
  ClassLabels labels({}, known);
  for (const Record& record : records) labels.add(record.label, [&] { return record.place; });
  ImageList result{
      .images = {}, .class_names = labels.classes(), .names_are_found = labels.are_found(), .others = {}};
  const std::vector<int32_t> numbers = labels.numbers();
  for (size_t i = 0; i < records.size(); ++i) result.images.push_back(image_of(records[i], list, numbers[i]));
  return result;
}

ImageList images_without_labels(const config::Path& path) {
  ImageList result{.images = {}, .class_names = {}, .labelled = false, .others = {}};
  std::error_code ignored;
  if (fs::is_directory(path.text, ignored)) {
    for (const fs::path& image : images_below(path.text, result.others))
      result.images.push_back({image.string(), image.lexically_relative(path.text).string(), 0});
    if (result.images.empty())
      throw Error(ErrorKind::kData, fmt::format("{} has no images", printable(path.text)),
                  "files that end in .png, .jpg or .jpeg");
    return result;
  }
  if (const std::optional<Problem> problem = unreadable(path)) throw Error(std::vector<Problem>{*problem});
  if (is_image_name(path.text)) {
    result.images.push_back({path.text, path.text, 0});
    return result;
  }
  for (const Record& record : records_in(path.text, false))
    result.images.push_back(image_of(record, path.text, 0));
  return result;
}

std::vector<Feature> image_features(const ImageFormat& format, bool labelled) {
  std::vector<Feature> features{
      {std::string(kImageFeature),
       Shape{{"rows", format.rows}, {"cols", format.cols}, {"channels", format.channels}}, DType::kFloat32}};
  if (labelled) features.push_back({std::string(kLabelsFeature), Shape{}, DType::kInt32});
  return features;
}

ImageSource::ImageSource(ImageList list, const ImageFormat& format, std::optional<ImageStore> store,
                         std::unique_ptr<WorkerPool> pool)
    : list_(std::move(list)),
      format_(format),
      features_(image_features(format, list_.labelled)),
      store_(std::move(store)),
      pool_(std::move(pool)) {
  MTF_CHECK(!list_.images.empty(), "no images");
}

void ImageSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  const Feature& feature = features_[0];
  const int64_t bytes = slices[0].bytes(feature);
  const DType dtype = slices[0].dtype(feature);
  const auto convert = [&](const std::byte* pixels, std::byte* output) {
    for_each_run(feature.shape, slices[0].box, [&](int64_t first, int64_t count) {
      convert_elements({StoredType::kUint8, false, true}, pixels + first, 1, count, dtype, output);
      output += count * static_cast<int64_t>(size_of(dtype));
    });
  };
  auto* label = list_.labelled ? reinterpret_cast<int32_t*>(slices[1].output) : nullptr;
  for (const int64_t row : rows) {
    MTF_CHECK(row >= 0 && row < examples(), "row {} of {}", row, examples());
    if (label != nullptr) *label++ = list_.images[static_cast<size_t>(row)].label;
  }
  if (store_) {
    for (size_t i = 0; i < rows.size(); ++i)
      convert(store_->pixels().data() + rows[i] * format_.bytes(),
              slices[0].output + static_cast<int64_t>(i) * bytes);
    return;
  }
  pool_->run(std::ssize(rows), [&](int64_t i) {
    const LabelledImage& example = list_.images[static_cast<size_t>(rows[static_cast<size_t>(i)])];
    const Image image = load_image(example.path, format_);
    convert(reinterpret_cast<const std::byte*>(image.pixels.data()), slices[0].output + i * bytes);
  });
}

uint64_t ImageSource::example_hash(int64_t example) const {
  return hash64(list_.images[static_cast<size_t>(example)].name);
}

std::string ImageSource::fingerprint() const {
  constexpr int64_t kMostFiles = 64;
  Hash128 hash;
  for (const LabelledImage& image : list_.images) {
    const std::string line = fmt::format("{}\n{}\n", image.name, image.label);
    hash.add(std::as_bytes(std::span(line)));
  }
  const int64_t files = std::min(examples(), kMostFiles);
  for (int64_t i = 0; i < files; ++i)
    hash.add(MappedFile(list_.images[static_cast<size_t>(i * examples() / files)].path).bytes());
  return hash.hex();
}

std::string ImageSource::example_name(int64_t example) const {
  return list_.images[static_cast<size_t>(example)].name;
}

std::string ImageSource::preparation() const { return preparation_of(list_.class_names); }

void ImageSource::check_labels(const LabelRange& expected) const {
  if (expected.feature != kLabelsFeature) return;
  const int64_t classes = expected.classes;
  const auto wrong =
      std::ranges::find_if(list_.images, [&](const LabelledImage& i) { return i.label >= classes; });
  if (wrong == list_.images.end()) return;
  const int64_t most = std::ranges::max(list_.images, {}, &LabelledImage::label).label;
  const std::string name =
      list_.class_names.empty()
          ? std::string()
          : fmt::format(" (`{}`)", printable(list_.class_names[static_cast<size_t>(wrong->label)]));
  throw Error(
      ErrorKind::kData,
      fmt::format("{}: label {}{}, but there are {} classes", wrong->path, wrong->label, name, classes),
      fmt::format("labels from 0 to {}, or {} classes in the model", classes - 1, most + 1));
}

namespace {

struct ImagesOptions final : SourceOptions {
  static constexpr std::string_view type_name = "images";
  static constexpr bool type_required = true;
  config::Path path;
  std::vector<int64_t> size;
  int64_t channels = 3;
  ResizeRule resize = ResizeRule::kCrop;
  config::Auto<int64_t> workers;
  config::Bytes store_limit{20'000'000'000};
  int64_t max_pixels = ImageLimits().pixels;

  ImageFormat format() const {
    return {.rows = size.front(),
            .cols = size.back(),
            .channels = channels,
            .resize = resize,
            .limits = {.pixels = max_pixels}};
  }

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    ImageList list =
        context.labelled ? list_of(known_classes(context.preparation)) : images_without_labels(path);
    if (!context.prepares && list.names_are_found)
      throw_unprepared(context.mark, "the names of the classes",
                       "a folder with their names in the lines of classes.txt");
    if (!list.others.empty() && context.note)
      context.note(fmt::format("{}: {}", printable(path.text), list.others.to_string()));
    std::vector<std::string> paths;
    for (const LabelledImage& image : list.images) paths.push_back(image.path);
    auto pool = std::make_unique<WorkerPool>(static_cast<int>(workers.value.value_or(context.threads)));
    std::optional<ImageStore> store = open_image_store(paths, format(), store_limit.value, context, *pool);
    if (store) pool.reset();
    return std::make_unique<ImageSource>(std::move(list), format(), std::move(store), std::move(pool));
  }

  std::vector<config::Path*> paths() override { return {&path}; }
  bool read_from(const config::Path& file) override {
    path = file;
    return true;
  }
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>&,
                                                        const BySide<int64_t>&) const override {
    return image_features(format());
  }

 private:
  ImageList list_of(const KnownClasses& known) const {
    std::error_code ignored;
    if (fs::is_directory(path.text, ignored)) return images_in_folder(path.text, known);
    if (const std::optional<Problem> problem = unreadable(path)) throw Error(std::vector<Problem>{*problem});
    return images_in_list(path.text, known);
  }
};

void describe(config::Visitor& visit, ImagesOptions& options) {
  visit("path", options.path,
        "a folder with a subfolder of .png, .jpg and .jpeg files for each class, in the order of their names "
        "or of the "
        "lines of its classes.txt; or a CSV or TSV list of paths and labels. In `infer.input` any folder, a "
        "list "
        "of paths, or an image",
        config::required);
  visit("size", options.size, "rows and columns of every image: [rows, cols], or one number for both",
        config::required, config::positive);
  visit("channels", options.channels, "3: red, green and blue; 1: grey. Transparency is left out");
  visit("resize", options.resize,
        "how an image of another shape gets this size: crop cuts its middle out, pad leaves black at two "
        "sides, stretch "
        "distorts it");
  visit("workers", options.workers, "threads that decode; auto: run.threads", config::positive,
        config::free_on_resume);
  visit("store_limit", options.store_limit,
        "decoded images are kept in data.cache if they take no more than so many bytes and half of its free "
        "room; 0: "
        "they are decoded in each epoch",
        config::free_on_resume);
  visit("max_pixels", options.max_pixels, "an image of more pixels is an error", config::positive,
        config::free_on_resume);
  visit.check([&options](const config::Report& report) {
    if (options.size.empty() || options.size.size() > 2)
      report.error("size", fmt::format("`size` has {} numbers", options.size.size()),
                   "[rows, cols], or one number");
    if (options.channels != 1 && options.channels != 3)
      report.error("channels", fmt::format("`channels` is {}", options.channels),
                   "1 (grey) or 3 (red, green, blue)");
  });
}

const config::Registration<SourceOptions, ImagesOptions> images_registration;

}  // namespace
}  // namespace mtf
