// The entry for IDX files of images or labels: the input as it is (it may be compressed), and compressed
// here.
#include <zlib.h>

#include "data/sources/idx.h"
#include "engine/base/check.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

void read_images(const std::string& path, const std::string& labels) {
  succeeds([&] {
    const auto source = open_idx({path}, {labels});
    std::vector<std::vector<std::byte>> values;
    std::vector<FeatureSlice> slices;
    for (const Feature& feature : source->features())
      slices.push_back({values.emplace_back(static_cast<size_t>(feature.bytes())).data()});
    const std::vector<int64_t> last = {source->examples() - 1};
    source->read(last, slices);
    source->check_labels({1});
  });
}

void read_labels(const std::string& path) {
  succeeds([&] { MTF_CHECK(!read_idx(path, IdxContent::kLabels).bytes.empty(), "no labels and no Error"); });
}

}  // namespace

void run_idx(std::string_view input) {
  const std::string labels = write_input("two-labels", std::string_view("\0\0\x08\x01\0\0\0\2\0\1", 10));
  const std::string path = write_input("input", input);
  const std::string compressed = input_path("input.gz");
  const gzFile file = ::gzopen(compressed.c_str(), "wb1");
  MTF_CHECK(file && ::gzwrite(file, input.data(), static_cast<unsigned>(input.size())) ==
                        static_cast<int>(input.size()),
            "cannot write {}", compressed);
  ::gzclose(file);
  for (const std::string& each : {path, compressed}) {
    read_images(each, labels);
    read_labels(each);
  }
}

}  // namespace mtf::fuzz
