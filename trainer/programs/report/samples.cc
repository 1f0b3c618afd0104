#include "trainer/programs/report/samples.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "engine/base/base64.h"
#include "trainer/programs/report/json_lines.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kLongestRecord = 1 << 20;
constexpr size_t kLongestText = 2000;
constexpr size_t kLargestImage = 1 << 17;
constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

/// Returns the image as a data URI; nothing if it is no PNG of a moderate size. A path is relative to the
/// directory of `file` and may not lead out of it.
std::optional<std::string> image_uri(const std::string& image, const std::string& file) {
  if (image.starts_with(kPngUri)) {
    const std::string_view data = std::string_view(image).substr(kPngUri.size());
    const bool plain = std::ranges::all_of(data, [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
             c == '/' || c == '=';
    });
    return plain && image.size() <= kLargestImage ? std::optional(image) : std::nullopt;
  }
  const fs::path path(image);
  if (path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end()) return std::nullopt;
  std::ifstream stream(fs::path(file).parent_path() / path, std::ios::binary);
  std::string bytes(kLargestImage + 1, '\0');
  stream.read(bytes.data(), std::ssize(bytes));
  bytes.resize(static_cast<size_t>(stream.gcount()));
  if (bytes.size() > kLargestImage || !bytes.starts_with(kPngSignature)) return std::nullopt;
  return std::string(kPngUri) + base64(bytes);
}

std::string cut(const std::string& text) {
  if (text.size() <= kLongestText) return text;
  size_t end = kLongestText;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

/// The last records of each kind.
class Samples {
 public:
  explicit Samples(const SampleLimits& limits) : limits_(limits) {}

  void read(const std::string& file) {
    FlatObject object;
    for_each_line(file, kLongestRecord, [&](std::string_view line) {
      if (file.ends_with(".jsonl")) {
        add(parse_flat(line, object) ? record(object, file) : Json());
      } else {
        add({{"file", fs::path(file).filename().string()}, {"prediction", cut(std::string(line))}});
      }
    });
  }

  Json take() {
    // The newest images are kept, then those before them while there is room.
    size_t bytes = 0;
    while (!images_.empty()) {
      Json& image = images_.back();
      const auto uri = image_uri(image["image"].get<std::string>(), image["from"].get<std::string>());
      if (uri && bytes + uri->size() > limits_.image_bytes) break;
      if (uri) {
        bytes += uri->size();
        image["image"] = *uri;
        image.erase("from");
        kept_.push_front(std::move(image));
      } else {
        ++left_out_;
      }
      images_.pop_back();
    }
    left_out_ += std::ssize(images_);
    return {{"texts", Json(std::vector<Json>(texts_.begin(), texts_.end()))},
            {"images", Json(std::vector<Json>(kept_.begin(), kept_.end()))},
            {"left_out", left_out_}};
  }

 private:
  /// Returns the record of a line; null if it has neither an image nor a text that the model has made.
  static Json record(const FlatObject& object, const std::string& file) {
    Json record{{"file", fs::path(file).filename().string()}};
    for (const char* key : {"dataset", "input", "target", "prediction", "label", "text"}) {
      if (const std::string& text = object.text(key); !text.empty())
        record[key == std::string_view("text") ? "prediction" : key] = cut(text);
    }
    for (const char* key : {"step", "example", "line", "probability", "score"}) {
      if (const double number = object.number(key, NAN); std::isfinite(number))
        record[key == std::string_view("line") ? "example" : key] = number;
    }
    // Classes without names are numbers.
    for (const char* key : {"label", "prediction"}) {
      if (const double number = object.number(key, NAN); std::isfinite(number)) record[key] = number;
    }
    if (const std::string& image = object.text("image"); !image.empty()) {
      record["image"] = image;
      record["from"] = file;
    }
    return record.contains("image") || record.contains("prediction") ? record : Json();
  }

  void add(Json record) {
    if (record.is_null()) {
      ++left_out_;
      return;
    }
    const bool image = record.contains("image");
    std::deque<Json>& records = image ? images_ : texts_;
    records.push_back(std::move(record));
    if (records.size() <= (image ? limits_.images : limits_.texts)) return;
    records.pop_front();
    ++left_out_;
  }

  const SampleLimits limits_;
  std::deque<Json> texts_, images_, kept_;
  int64_t left_out_ = 0;
};

}  // namespace

Json read_samples(const std::vector<std::string>& files, const SampleLimits& limits) {
  Samples samples(limits);
  for (const std::string& file : files) samples.read(file);
  return samples.take();
}

std::vector<std::string> sample_files(const std::string& run) {
  std::vector<std::string> files;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(run) / "samples", missing)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace mtf
