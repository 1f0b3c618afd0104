// Tests that each process reads only the part of a batch that its positions hold.
#include "trainer/session/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "trainer/session/session.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

/// An IDX file of `count` images of 4 x 6 pixels, or of labels 0, 1, 0, 1, ...
std::string idx_file(const std::string& name, int count, bool images) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / name).string();
  std::string bytes = images ? std::string("\0\0\x08\x03\0\0\0", 7) : std::string("\0\0\x08\x01\0\0\0", 7);
  bytes += static_cast<char>(count);
  if (images) bytes += std::string("\0\0\0\4\0\0\0\6", 8);
  for (int i = 0; i < count * (images ? 24 : 1); ++i) bytes += static_cast<char>(images ? i : i % 2);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

Program step_of(const std::string& layout) {
  Diagnostics diagnostics;
  const std::string data = "data.train={type: idx, images: " + idx_file("feed_images", 12, true) +
                           ", labels: " + idx_file("feed_labels", 12, false) + "}";
  const Session session =
      open_session({},
                   {data,
                    "model={type: classifier, input: image, layers: [{dense: {name: a, "
                    "output: {hidden: 8}, activation: relu}}, {dense: {output: "
                    "{classes: 2}}}]}",
                    "optimizer=adafactor", "train={steps: 1, batch_size: 4}", "mesh={a: 2, b: 2}",
                    "layout=" + layout, "run.model_dir=never_written"},
                   diagnostics);
  diagnostics.throw_if_errors();
  const auto step = build_step(session, train_step_options(session.config, session.layouts, 1), diagnostics);
  diagnostics.throw_if_errors();
  return compile(session, *step->graph);
}

TEST(PartOf, ProcessesOfASplitBatchReadTheirRows) {
  const Program program = step_of("{batch: a}");
  const BatchPart second = part_of(program, {2, 1});
  EXPECT_EQ(second.begin, 2);
  EXPECT_EQ(second.count, 2);
  EXPECT_EQ(second.boxes.at("image"), Box::whole({{"rows", 4}, {"cols", 6}}));
}

TEST(PartOf, ProcessesOfAnImageSplitInSpaceReadTheirBoxes) {
  const Program program = step_of("{rows: a, cols: b}");
  EXPECT_EQ(part_of(program, {1, 0}).boxes.at("image"), Box::whole({{"rows", 4}, {"cols", 6}}));
  for (int process = 0; process < 2; ++process) {  // hosts a = process, b = 0 and 1
    const BatchPart part = part_of(program, {2, process});
    EXPECT_EQ(part.begin, 0);
    EXPECT_EQ(part.count, 4);
    EXPECT_EQ(part.boxes.at("image"), (Box{{2 * process, 0}, {{"rows", 2}, {"cols", 6}}}));
    EXPECT_EQ(part.boxes.at("labels"), Box{});
  }
  EXPECT_EQ(part_of(program, {4, 3}).boxes.at("image"), (Box{{2, 3}, {{"rows", 2}, {"cols", 3}}}));
}

}  // namespace
}  // namespace mtf::testing
