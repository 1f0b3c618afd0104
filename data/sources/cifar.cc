// The source `cifar`: the binary files of CIFAR-10 and CIFAR-100 (www.cs.toronto.edu/~kriz/cifar.html). A record is one
// label (CIFAR-100: the coarse one, then the fine one) and 3072 pixels: the red, the green, the blue plane of 32 rows.
#include "data/sources/cifar.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "data/input_file.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/text/line_reader.h"
#include "data/text/text_settings.h"
#include "engine/base/error.h"

namespace mtf {

config::EnumNames enum_names(CifarLabels) {
  return {{"fine", CifarLabels::kFine}, {"coarse", CifarLabels::kCoarse}};
}

namespace {

constexpr int64_t kSide = 32, kPixels = 3 * kSide * kSide;
constexpr int64_t kMostBytes = int64_t{1} << 32;

/// One of the two kinds of files.
struct Kind {
  std::string_view name;
  std::vector<int64_t> classes;  ///< numbers of classes, for each label of a record
  int64_t record() const { return std::ssize(classes) + kPixels; }
};
const Kind kCifar10{"CIFAR-10", {10}}, kCifar100{"CIFAR-100", {20, 100}};

bool is_of(const Kind& kind, const std::string& bytes) {
  if (bytes.empty() || std::ssize(bytes) % kind.record() != 0) return false;
  for (int64_t at = 0; at < std::ssize(bytes); at += kind.record()) {
    for (size_t i = 0; i < kind.classes.size(); ++i) {
      if (static_cast<uint8_t>(bytes[static_cast<size_t>(at) + i]) >= kind.classes[i]) return false;
    }
  }
  return true;
}

const Kind& kind_of(const std::string& path, const std::string& bytes) {
  if (is_of(kCifar10, bytes)) return kCifar10;
  if (is_of(kCifar100, bytes)) return kCifar100;
  for (const Kind* kind : {&kCifar10, &kCifar100}) {
    if (!bytes.empty() && std::ssize(bytes) % kind->record() == 0)
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: the file has records of {}, but labels above its classes", path, kind->name),
          "a binary file of CIFAR-10 or CIFAR-100; download it again");
  }
  throw Error(
      ErrorKind::kData,
      fmt::format("{}: {} bytes are no whole number of records of CIFAR-10 ({} bytes) or CIFAR-100 ({})",
                  path, bytes.size(), kCifar10.record(), kCifar100.record()),
      "a binary file of CIFAR-10 or CIFAR-100, plain or .gz; download it again");
}

/// The names of the classes, which lie beside the files; empty without such a file.
std::vector<std::string> names_beside(const std::string& path, const std::string& name, size_t classes) {
  const std::filesystem::path file = std::filesystem::path(path).parent_path() / name;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  std::istringstream text(read_file(file.string(), "names of classes", 1 << 16));
  std::vector<std::string> names;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (const std::optional<std::string> invalid = invalid_utf8(line))
      throw Error(ErrorKind::kData, fmt::format("{}: {}", file.string(), *invalid),
                  std::string(kConvertToUtf8));
    names.push_back(line);
  }
  if (names.size() != classes) names.clear();
  return names;
}

struct CifarOptions final : SourceOptions {
  static constexpr std::string_view type_name = "cifar";
  static constexpr bool type_required = true;
  std::vector<config::Path> path;
  CifarLabels labels = CifarLabels::kFine;

  std::unique_ptr<Source> open(const SourceContext&) const override {
    std::vector<Problem> missing;
    const std::vector<std::string> files = find_regular_files(path, missing);
    if (!missing.empty()) throw Error(std::move(missing));
    return open_cifar(files, labels);
  }
  std::vector<config::Path*> paths() override { return pointers_to({&path}); }
  bool read_from(const config::Path& file) override {
    path = {file};
    return true;
  }
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>&,
                                                        const BySide<int64_t>&) const override {
    return cifar_features();
  }
};

void describe(config::Visitor& visit, CifarOptions& options) {
  visit("path", options.path, "binary files of CIFAR-10 or CIFAR-100, plain or .gz: a path, a list or a glob",
        config::required);
  visit("labels", options.labels, "labels of CIFAR-100: its 100 fine classes or its 20 coarse ones");
}

const config::Registration<SourceOptions, CifarOptions> cifar_registration;

}  // namespace

std::vector<Feature> cifar_features() {
  return {
      {std::string(kImageFeature), Shape{{"rows", kSide}, {"cols", kSide}, {"channels", 3}}, DType::kFloat32},
      {std::string(kLabelsFeature), Shape{}, DType::kInt32}};
}

std::unique_ptr<ArraySource> open_cifar(const std::vector<std::string>& paths, CifarLabels labels) {
  const std::vector<Feature> features = cifar_features();
  ArrayFeature image{features[0], {}}, label{features[1], {}};
  const Kind* kind = nullptr;
  for (const std::string& path : paths) {
    const auto bytes = std::make_shared<const std::string>(
        read_file(path, "a binary file of CIFAR-10 or CIFAR-100", kMostBytes));
    const Kind& found = kind_of(path, *bytes);
    if (kind != nullptr && kind != &found)
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: a file of {}, but {} is one of {}", path, found.name, paths[0], kind->name),
          "files of one kind");
    kind = &found;
    const bool coarse = labels == CifarLabels::kCoarse;
    if (coarse && kind->classes.size() == 1)
      throw Error(ErrorKind::kData, fmt::format("{}: CIFAR-10 has no coarse labels", path), "`labels: fine`");
    const auto* const data = reinterpret_cast<const std::byte*>(bytes->data());
    const int64_t of_labels = std::ssize(kind->classes);
    ExampleArray array{.path = path,
                       .owner = bytes,
                       .data = data + of_labels,
                       .examples = std::ssize(*bytes) / kind->record(),
                       .stride = kind->record(),
                       .strides = {kSide, 1, kSide * kSide},
                       .elements = {StoredType::kUint8, false, true},
                       .bytes_in_memory = std::ssize(*bytes)};
    image.arrays.push_back(array);
    array.data = data + (coarse ? 0 : of_labels - 1);
    array.strides.clear();
    array.elements.scaled = false;
    array.bytes_in_memory = 0;  // counted with the images
    label.arrays.push_back(array);
  }
  const bool is_10 = kind == &kCifar10;
  const std::string file =
      is_10 ? "batches.meta.txt"
            : fmt::format("{}_label_names.txt", labels == CifarLabels::kCoarse ? "coarse" : "fine");
  const size_t classes = is_10 ? 10 : labels == CifarLabels::kCoarse ? 20 : 100;
  return std::make_unique<ArraySource>(std::vector<ArrayFeature>{std::move(image), std::move(label)},
                                       names_beside(paths[0], file, classes));
}

}  // namespace mtf
