// The entry for IDX files of images or labels: the input as it is (it may be compressed), and compressed
// here.
#include <zlib.h>

#include <array>

#include "data/sources/idx.h"
#include "engine/base/check.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

void read_images(const std::string& path, const std::string& labels) {
  IdxImages images;
  if (!succeeds([&] { images = read_idx_images(path); })) return;
  MTF_CHECK(static_cast<int64_t>(images.pixels.size()) == images.count * images.rows * images.cols,
            "{} pixels for {} images of {} x {}", images.pixels.size(), images.count, images.rows,
            images.cols);
  succeeds([&] {
    const IdxSource source({path}, {labels});
    std::vector<float> image(static_cast<size_t>(images.rows * images.cols));
    int32_t label = 0;
    const std::vector<int64_t> last = {source.examples() - 1};
    source.read(last,
                std::array{FeatureSlice{reinterpret_cast<std::byte*>(image.data())},
                           FeatureSlice{reinterpret_cast<std::byte*>(&label)}});
    source.check_labels(1);
  });
}

void read_labels(const std::string& path) {
  succeeds([&] { MTF_CHECK(!read_idx_labels(path).empty(), "no labels and no Error"); });
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
