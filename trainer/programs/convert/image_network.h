// What the conversions of image classifiers share beside their tensors and images: their labels, and a head that is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Throws Error (kCheckpoint) unless each image has one class, of so many channels as files of images have.
void check_image_classifier(const HuggingFaceJson& json, int64_t channels);
/// The number of labels that `id2label` names; `otherwise` where it is absent.
int64_t label_count(const HuggingFaceJson& json, int64_t otherwise);
/// The number of rows of a classifier's kernel. Throws Error (kCheckpoint) for one row, which is no class.
int64_t label_rows(const StoredTensor& kernel, const std::string& from);

/// Reads a list of sizes; nothing where the key is absent.
std::optional<std::vector<int64_t>> sizes_of(const HuggingFaceJson& json, const char* key);

/// The value of `checkpoint.init` for a model at `path`; without a head that of the new run begins anew.
std::string image_init(const std::string& path, bool without_head);
/// Adds a line on the variables that an encoder alone has not.
void note_new_head(const std::vector<std::string>& missing, const std::string& from,
                   std::vector<std::string>& notes);

}  // namespace mtf
