// Examples with what the model made of them: decoded texts and classified images, from the files `samples/*.jsonl`
// of a run ("Samples" in docs/file_formats.md) and from files that run.mode=infer has written.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mtf {

struct SampleLimits {
  size_t texts = 40;
  size_t images = 120;
  size_t image_bytes = 400'000;  ///< size of all images together, as they stand in the page
};

/// Returns {texts: [RECORD], images: [RECORD], left_out}. The records are the last ones of the files; the image of a
/// record is a data URI of a PNG. left_out: number of records that the limits leave out or that are damaged.
nlohmann::ordered_json read_samples(const std::vector<std::string>& files, const SampleLimits& limits);

/// Returns the files `samples/*.jsonl` of a run, by name.
std::vector<std::string> sample_files(const std::string& run);

}  // namespace mtf
