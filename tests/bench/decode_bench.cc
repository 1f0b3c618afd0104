// Measures how many images a core decodes and scales in a second of its time, as the source `images` does it:
//
//   decode_bench FOLDER SIZE SECONDS [THREADS]
//
// prints "images/s" over all .png, .jpg and .jpeg files below FOLDER (each class is a subfolder) and a hash of the pixels that
// one pass gives. `bench.py images` runs it beside Pillow.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "data/sources/images.h"
#include "engine/base/hash.h"

int main(int arguments, char** argument) {
  if (arguments < 4) {
    fmt::print(stderr, "decode_bench FOLDER SIZE SECONDS [THREADS]\n");
    return 2;
  }
  const int64_t size = std::atoll(argument[2]);
  const double wanted = std::atof(argument[3]);
  const int threads = arguments > 4 ? std::atoi(argument[4]) : 1;
  const mtf::ImageList list = mtf::images_in_folder(argument[1], {});
  const mtf::ImageFormat format{.rows = size, .cols = size, .resize = mtf::ResizeRule::kStretch};
  mtf::Hash128 hash;
  for (const mtf::LabelledImage& each : list.images) {
    const mtf::Image image = mtf::load_image(each.path, format);
    hash.add(std::as_bytes(std::span(image.pixels)));
  }
  mtf::WorkerPool pool(threads);
  const std::clock_t start = std::clock();  // of all threads: what others do on the core does not count
  const auto seconds = [&] { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; };
  int64_t images = 0;
  do {
    pool.run(std::ssize(list.images), [&](int64_t i) {
      const mtf::Image image = mtf::load_image(list.images[static_cast<size_t>(i)].path, format);
      if (image.pixels.empty()) std::abort();
    });
    images += std::ssize(list.images);
  } while (seconds() < wanted);
  fmt::print("{:.1f} images/s {}\n", static_cast<double>(images) / seconds(), hash.hex());
}
