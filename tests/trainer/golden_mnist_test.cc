// Compares the convolutional network of examples/mnist.py with recorded results of Mesh TensorFlow.
#include "tests/trainer/golden_trace.h"

namespace mtf::testing {
namespace {

/// The recorded tensors with the image as the data has it: [batch, rows, cols] instead of blocks, the same elements in
/// the same order.
std::string with_whole_images(const std::string& file) {
  const SafetensorsFile recorded(file);
  std::vector<StoredTensor> tensors = recorded.tensors();
  for (StoredTensor& tensor : tensors) {
    if (tensor.name == "input/image") tensor.shape = {4, 28, 28};
  }
  const std::string path = path_of_test(".in.safetensors");
  write_safetensors(path, tensors);
  return path;
}

TEST(GoldenMnist, AdafactorOnEveryLayout) {
  const std::string folder = MTF_SOURCE_DIR "/tests/golden/03_mnist";
  const std::string input = with_whole_images(folder + "/tensors.safetensors");
  for (std::vector<std::string> arguments : std::vector<std::vector<std::string>>{
           {},
           {"mesh=b1:2;b2:2", "layout=row_blocks:b1;col_blocks:b2"},
           {"mesh=b1:2;b2:2", "layout=batch:b1;hidden1:b2"},
           {"mesh=b1:4;b2:2", "layout=row_blocks:b1;filters1:b2"},
           {"mesh=b1:2;b2:2", "layout=col_blocks:b1", "parameter_layout=row_blocks:b2;hidden2:b2"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(arguments, " ")));
    arguments.insert(arguments.begin(), {"vars.hidden=16", "vars.filters=4", "train.batch_size=4",
                                         "optimizer=adafactor", "learning_rate=null"});
    // loss, logits, 8 gradients, trajectory/loss, 8 final weights
    expect_traced(MTF_SOURCE_DIR "/configs/models/mnist_conv_blocks.yaml", folder, input, 10, arguments, 19);
  }
  std::filesystem::remove(input);
}

}  // namespace
}  // namespace mtf::testing
