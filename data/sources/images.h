// Images of classes: PNG and JPEG files in a folder with one subfolder for each class, or named by a list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/class_names.h"
#include "data/images/decode.h"
#include "data/sources/array_source.h"
#include "data/sources/image_store.h"
#include "data/worker_pool.h"
#include "engine/config/types.h"

namespace mtf {

/// One example. `name` is the path within the folder, or as the list has it: the example's identity for `data.split`.
struct LabelledImage {
  std::string path;
  std::string name;
  int32_t label = 0;
};

/// The files of a folder of images that are no images by their endings.
class PassedOver {
 public:
  /// classes.txt does not count.
  void add(const std::filesystem::path& file);
  bool empty() const { return files_ == 0; }
  /// Returns "3 files passed over, since images are .png, .jpg and .jpeg: 1 .bmp, 2 .gif".
  std::string to_string() const;

 private:
  int64_t files_ = 0;
  std::map<std::string, int64_t> endings_;
};

struct ImageList {
  std::vector<LabelledImage> images;
  std::vector<std::string> class_names;  ///< empty: a list with numbers
  bool labelled = true;                  ///< false: the labels have no meaning
  bool names_are_found = false;  ///< the names are those of these examples, neither known nor in classes.txt
  PassedOver others = {};
};

/// Finds the images of a folder, sorted by name. The classes are its subfolders, sorted by name, or what the lines of its
/// file classes.txt say; the names of `known`, the classes of the training data, come first. Where these are numbers, so are
/// the names of the subfolders, unless there is a classes.txt. Throws Error (kData): no subfolder, a class without images, a
/// subfolder that is no class.
ImageList images_in_folder(const std::string& folder, const KnownClasses& known);

/// Reads a list: a CSV or TSV file whose records begin with the path of an image, relative to the list, and its label, a
/// number or the name of a class. A first line of the words `path` and `label` tells which columns these are. Classes are
/// sorted by name, unless `known` names them. Throws Error (kData) with file and line.
ImageList images_in_list(const std::string& list, const KnownClasses& known);

/// Finds images whose classes are to be predicted: the images of a folder and of the folders below it, sorted by path, those
/// of a list as above, which needs no labels, or a single image. Throws Error (kData).
ImageList images_without_labels(const config::Path& path);

/// Features `image` float32 [rows, cols, channels], from 0 to 1, and where there are labels
/// `labels` int32 [].
std::vector<Feature> image_features(const ImageFormat& format, bool labelled = true);

class ImageSource final : public Source {
 public:
  /// Without a store, read() decodes with the threads of `pool`.
  ImageSource(ImageList list, const ImageFormat& format, std::optional<ImageStore> store,
              std::unique_ptr<WorkerPool> pool);

  int64_t examples() const override { return std::ssize(list_.images); }
  const std::vector<Feature>& features() const override { return features_; }
  bool has_bytes(size_t f) const override { return f == 0; }
  /// Throws Error (kData) when a file cannot be decoded.
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  std::vector<std::string> class_names() const override { return list_.class_names; }
  uint64_t example_hash(int64_t example) const override;
  /// A hash of the names and labels of all images, and of the files of up to 64 of them, which are evenly spaced.
  std::string fingerprint() const override;
  std::string example_name(int64_t example) const override;
  std::string preparation() const override;
  void check_labels(const LabelRange& classes) const override;
  bool has_store() const { return store_.has_value(); }

 private:
  ImageList list_;
  ImageFormat format_;
  std::vector<Feature> features_;
  std::optional<ImageStore> store_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace mtf
