// Tests the conversion of image networks in Hugging Face format: what is read is written again, models that cannot be built are
// refused by the name of what differs, and the layers of a run are recognised however it groups them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "data/class_names.h"
#include "engine/safetensors/safetensors.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/convnext_config.h"
#include "trainer/programs/convert/position_grid.h"
#include "trainer/programs/convert/resnet.h"
#include "trainer/programs/convert/resnet_config.h"
#include "trainer/programs/convert/vit.h"
#include "trainer/programs/convert/vit_config.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message;

const ImageProcessor kProcessor{{31, 31}, ResizeRule::kCrop, {27, 27}, {0.5, 0.4, 0.3}, {0.25, 0.2, 0.3}};

VitConfig small_vit() {
  VitConfig vit;
  vit.hidden = 12;
  vit.num_layers = 2;
  vit.num_heads = 3;
  vit.intermediate = 20;
  vit.channels = 1;
  vit.image = {6, 9};
  vit.patch = {2, 3};
  vit.dropout = 0.25;
  vit.attention_dropout = 0.5;
  vit.epsilon = 1e-7;
  vit.initializer_range = 0.5;
  vit.activation = Activation::kRelu;
  vit.labels = 4;
  return vit;
}

VitConfig small_dinov2() {
  VitConfig vit = small_vit();
  vit.kind = VitKind::kDinov2;
  vit.registers = 3;
  vit.intermediate = 36;
  vit.layer_scale = 0.5;
  vit.drop = 0.125;
  return vit;
}

ConvNextConfig small_convnext() {
  ConvNextConfig network;
  network.patch = 3;
  network.stages = {{5, 2}, {7, 3}};
  network.activation = Activation::kRelu;
  network.epsilon = 1e-7;
  network.layer_scale = 0.5;
  network.drop = 0.25;
  network.initializer_range = 0.5;
  network.labels = 3;
  return network;
}

ResNetConfig small_resnet() {
  ResNetConfig resnet;
  resnet.stem = 5;
  resnet.stages = {{8, 2, true}, {13, 1, true}};
  resnet.halves_in_first = true;
  resnet.activation = Activation::kGeluErf;
  resnet.labels = 3;
  return resnet;
}

std::string yaml(const VitConfig& vit) {
  const ImageProcessor processor{vit.image, ResizeRule::kStretch, vit.image, {}, {}};
  return vit_yaml(vit, processor, {.vocabulary = {}, .target = {"/models/a b"}, .source = "vit"});
}
std::string yaml(const ResNetConfig& resnet) {
  return resnet_yaml(resnet, kProcessor, {.vocabulary = {}, .target = {"/models/a b"}, .source = "resnet"});
}

std::string yaml(const ConvNextConfig& network) {
  return convnext_yaml(network, kProcessor, {.vocabulary = {}, .target = {"/models/a b"}, .source = "net"});
}

config::Node model_in(const std::string& text) { return ConfigText(text, "run").load().model; }

TEST(VitConfig, IsTheSameInBothForms) {
  VitConfig vit = small_vit();
  EXPECT_EQ(parse_vit_config(vit_json(vit), "config.json"), vit);
  vit.has_pooler = true;
  const VitConfig read = vit_of(model_in(yaml(vit))).vit;
  EXPECT_EQ(
      std::tie(read.hidden, read.num_layers, read.num_heads, read.intermediate, read.patch, read.has_pooler),
      std::tie(vit.hidden, vit.num_layers, vit.num_heads, vit.intermediate, vit.patch, vit.has_pooler));
  EXPECT_EQ(
      std::tie(read.dropout, read.attention_dropout, read.epsilon, read.initializer_range, read.activation),
      std::tie(vit.dropout, vit.attention_dropout, vit.epsilon, vit.initializer_range, vit.activation));
}

TEST(Dinov2Config, IsTheSameInBothForms) {
  VitConfig plain = small_dinov2(), gated = small_dinov2();
  plain.registers = 0;
  gated.is_gated = true;
  gated.activation = Activation::kSwish;
  gated.intermediate = 24;  // two thirds of 3 * 12
  for (const VitConfig& vit : {small_dinov2(), plain, gated}) {
    EXPECT_EQ(parse_dinov2_config(dinov2_json(vit, {}), "config.json"), vit);
    VitConfig read = vit_of(model_in(yaml(vit)), VitKind::kDinov2).vit;
    std::tie(read.image, read.channels, read.labels) =
        std::tie(vit.image, vit.channels, vit.labels);  // which weights say
    EXPECT_EQ(read, vit);
  }
  gated.intermediate = 30;
  EXPECT_THAT(message([&] { dinov2_json(gated, {}); }), HasSubstr("no feed-forward layers of 30"));
}

TEST(ConvNextConfig, IsTheSameInBothForms) {
  ConvNextConfig plain = small_convnext();
  plain.layer_scale = plain.drop = 0;
  for (const ConvNextConfig& network : {small_convnext(), plain}) {
    EXPECT_EQ(parse_convnext_config(convnext_json(network), "config.json"), network);
    const ConvNextLayers layers = convnext_of(model_in(yaml(network)));
    ConvNextConfig read = layers.network;
    read.labels = network.labels;  // which weights say
    EXPECT_EQ(read, network);
    EXPECT_TRUE(layers.drops_in_equal_steps);
  }
}

TEST(ResNetConfig, IsTheSameInBothForms) {
  ResNetConfig basic = small_resnet();
  basic.is_bottleneck = basic.halves_in_first = false;
  basic.stages = {{5, 3, false}, {7, 2, true}};
  ResNetConfig plain = small_resnet();
  plain.stages[0].halves = plain.halves_in_first = false;
  for (const ResNetConfig& resnet : {small_resnet(), basic, plain}) {
    EXPECT_EQ(parse_resnet_config(resnet_json(resnet), "config.json"), resnet);
    ResNetConfig read = resnet_of(model_in(yaml(resnet))).resnet;
    read.labels = resnet.labels;  // which weights say
    EXPECT_EQ(read, resnet);
  }
}

TEST(ImageConfigs, RefuseWhatNoLayerComputes) {
  const auto vit = [](const std::string& entries) {
    return message(
        [&] { parse_vit_config(fmt::format(R"({{"model_type": "vit", {}}})", entries), "config.json"); });
  };
  EXPECT_THAT(message([] { parse_vit_config(R"({"model_type": "deit"})", "config.json"); }),
              HasSubstr("`model_type` is deit, which cannot be converted"));
  EXPECT_THAT(vit(R"("qkv_bias": false)"), HasSubstr("`qkv_bias` is false, and only true can be converted"));
  EXPECT_THAT(vit(R"("hidden_act": "quick_gelu")"), HasSubstr("`hidden_act` is quick_gelu"));
  EXPECT_THAT(vit(R"("image_size": 225)"),
              HasSubstr("an image of 225 x 225 cannot be cut into patches of 16 x 16"));
  EXPECT_THAT(vit(R"("patch_size": [1, 2, 3])"), HasSubstr("`patch_size` is [1,2,3], no size"));
  EXPECT_THAT(vit(R"("num_channels": 4)"), HasSubstr("`num_channels` is 4"));
  EXPECT_THAT(vit(R"("pooler_output_size": 5)"), HasSubstr("`pooler_output_size` is 5"));
  EXPECT_THAT(vit(R"("num_attention_heads": 5)"), HasSubstr("cannot be divided among 5 heads"));
  EXPECT_THAT(vit(R"("problem_type": "regression")"), HasSubstr("`problem_type` is \"regression\""));
  EXPECT_THAT(vit(R"("architectures": ["ViTForMaskedImageModeling"])"),
              HasSubstr("a ViTForMaskedImageModeling"));
  const auto dinov2 = [](const std::string& entries) {
    return message([&] { parse_dinov2_config(fmt::format("{{{}}}", entries), "config.json"); });
  };
  EXPECT_THAT(dinov2(R"("model_type": "dinov3_vit")"), HasSubstr("`model_type` is dinov3_vit"));
  EXPECT_THAT(dinov2(R"("qkv_bias": false, "image_size": 28)"), HasSubstr("`qkv_bias` is false"));
  EXPECT_THAT(dinov2(R"("mlp_ratio": 0, "image_size": 28)"), HasSubstr("`mlp_ratio` is 0"));
  const auto convnext = [](const std::string& entries) {
    return message([&] { parse_convnext_config(fmt::format("{{{}}}", entries), "config.json"); });
  };
  EXPECT_THAT(convnext(R"("model_type": "convnextv2")"), HasSubstr("`model_type` is convnextv2"));
  EXPECT_THAT(convnext(R"("depths": [1, 2])"), HasSubstr("`hidden_sizes` has 4 numbers and `depths` 2"));
  EXPECT_THAT(convnext(R"("num_stages": 3)"), HasSubstr("`num_stages` is 3, and only 4 can be converted"));
  EXPECT_THAT(convnext(R"("patch_size": [4, 2])"), HasSubstr("`patch_size` is 4 x 2"));
  EXPECT_THAT(convnext(R"("layer_scale_init_value": -1)"), HasSubstr("no number above 0"));
  const auto resnet = [](const std::string& entries) {
    return message([&] {
      parse_resnet_config(fmt::format(R"({{"model_type": "resnet", {}}})", entries), "config.json");
    });
  };
  EXPECT_THAT(resnet(R"("layer_type": "wide")"), HasSubstr("`layer_type` is wide"));
  EXPECT_THAT(resnet(R"("depths": [1, 2])"), HasSubstr("`hidden_sizes` has 4 numbers and `depths` 2"));
  EXPECT_THAT(resnet(R"("depths": [1, 2, 0, 1])"), HasSubstr("`depths` is [1,2,0,1], no list of sizes"));
  EXPECT_THAT(resnet(R"("hidden_sizes": [2], "depths": [1])"), HasSubstr("a bottleneck a quarter of it"));
}

/// `text` with `was` replaced.
std::string changed(std::string text, const std::string& was, const std::string& is) {
  const size_t at = text.find(was);
  EXPECT_NE(at, std::string::npos) << was;
  return at == std::string::npos ? text : text.replace(at, was.size(), is);
}

TEST(ImageModels, OtherLayersAreNamed) {
  const auto vit = [](const std::string& was, const std::string& is) {
    return message([&] { vit_of(model_in(changed(yaml(small_vit()), was, is))); });
  };
  EXPECT_THAT(vit("bias: true, fold", "fold"), HasSubstr("SelfAttention has no biases"));
  EXPECT_THAT(vit("- class_token", "- layer_norm"), HasSubstr("here it has layer_norm"));
  EXPECT_THAT(vit("type: learned", "type: sinusoid"),
              HasSubstr("its positions have no vector for each patch"));
  EXPECT_THAT(vit("final: [layer_norm]", "final: []"), HasSubstr("`sublayers.final` is []"));
  EXPECT_THAT(vit("take: {along: length}", "take: {along: length, index: 1}"),
              HasSubstr("not those of the class token"));
  const auto dinov2 = [](const std::string& was, const std::string& is) {
    return message([&] { vit_of(model_in(changed(yaml(small_dinov2()), was, is)), VitKind::kDinov2); });
  };
  EXPECT_THAT(dinov2("layer_scale: 0.5, ", ""),
              HasSubstr("the model is no DINOv2: `sublayers.per_layer` is"));
  EXPECT_THAT(dinov2("begin: 4", "begin: 3"),
              HasSubstr("not those of the class token and the mean of the patches"));
  EXPECT_THAT(dinov2("index: 3", "index: 0"), HasSubstr("classes are not those of the class token"));
  EXPECT_THAT(message([] { vit_of(model_in(yaml(small_dinov2()))); }),
              HasSubstr("the model is no ViT: here it has register_tokens"));
  const auto convnext = [](const std::string& was, const std::string& is) {
    return message([&] { convnext_of(model_in(changed(yaml(small_convnext()), was, is))); });
  };
  EXPECT_THAT(convnext("kernel: 7", "kernel: 5"), HasSubstr("a depthwise convolution differs"));
  EXPECT_THAT(convnext("kernel: 2, stride: 2", "kernel: 3, stride: 2"), HasSubstr("a convolution differs"));
  EXPECT_THAT(convnext("wide: 20", "wide: 9"), HasSubstr("a dense layer has another width"));
  EXPECT_THAT(convnext("            - layer_norm\n", ""), HasSubstr("here it has dense"));
  EXPECT_THAT(convnext("{epsilon: 1e-6}", "{epsilon: 1e-5}"), HasSubstr("a norm has another `epsilon`"));
  EXPECT_FALSE(convnext_of(model_in(changed(yaml(small_convnext()), "drop: 0.0625", "drop: 0.2")))
                   .drops_in_equal_steps);
  const auto resnet = [](const std::string& was, const std::string& is) {
    return message([&] { resnet_of(model_in(changed(yaml(small_resnet()), was, is))); });
  };
  EXPECT_THAT(resnet("epsilon: 1e-5", "epsilon: 1e-3"), HasSubstr("a batch_norm has another `epsilon`"));
  EXPECT_THAT(resnet("bias: false", "bias: true"), HasSubstr("a convolution has a bias"));
  EXPECT_THAT(resnet("stride: 2, padding: 3", "stride: 2, padding: same"),
              HasSubstr("a convolution has another padding"));
  EXPECT_THAT(resnet("padding: 1}\n    - block", "padding: 0}\n    - block"),
              HasSubstr("its max_pool differs"));
  EXPECT_THAT(resnet("      - activation: relu", "      - activation: gelu"),
              HasSubstr("another activation is within a block"));
  EXPECT_THAT(resnet("reduced: 2", "reduced: 3"), HasSubstr("the convolutions of a block differ"));
}

TEST(ImageModels, ShippedResNetsAreRecognised) {
  for (const auto& [name, blocks] : {std::pair{"resnet18", 2}, {"resnet50", 3}}) {
    const Config config = load_model_config(fmt::format(MTF_SOURCE_DIR "/configs/models/{}.yaml", name));
    const ResNetLayers layers = resnet_of(config.model);
    EXPECT_EQ(layers.stem.convolution, "stem");
    EXPECT_EQ(layers.resnet.stages.size(), 4U);
    EXPECT_EQ(layers.resnet.stages[1].depth, name == std::string("resnet18") ? 2 : 4);
    EXPECT_EQ(std::ssize(layers.stages[3][1].branch), blocks);
  }
}

TEST(ImageModels, TheShippedConvNextIsRecognised) {
  const Config config = load_model_config(MTF_SOURCE_DIR "/configs/models/convnext_tiny.yaml");
  const ConvNextLayers layers = convnext_of(config.model);
  EXPECT_EQ(layers.network.stages, ConvNextConfig().stages);
  EXPECT_EQ(layers.network.drop, 0.1);
  EXPECT_TRUE(layers.drops_in_equal_steps);
  EXPECT_EQ(layers.stages[3][2].depthwise, "stage_4_002/residual/depthwise_conv2d");
}

// What PyTorch 2.15 makes of them with interpolate(mode="bicubic", align_corners=False), and with antialias=True.
TEST(PositionGrid, IsThatOfPyTorch) {
  const std::vector<float> vectors = {0.75F,   0.125F, 0.125F, -0.625F, 0.0F,
                                      -1.375F, 0.375F, 1.0F,   -1.375F, 1.0F};
  const auto expect = [&](const ImageSize& to, bool antialias, const std::vector<float>& expected) {
    const std::vector<float> made = resampled_positions(vectors, 1, {3, 3}, to, antialias);
    ASSERT_EQ(made.size(), expected.size() + 1);
    EXPECT_EQ(made[0], vectors[0]);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(made[i + 1], expected[i], 1e-6) << i;
  };
  expect({2, 5}, false,
         {0.0880547F, -0.0309064F, -0.2148438F, -0.3605488F, -0.4401447F, 0.9799336F, -0.2504396F,
          -1.4277344F, -0.1652729F, 1.1163986F});
  expect(
      {2, 4}, true,
      {0.0641695F, -0.2422701F, -0.3936008F, -0.2949514F, 0.7537344F, -0.8170674F, -0.7388665F, 0.9393118F});
  EXPECT_EQ(resampled_positions(vectors, 1, {3, 3}, {3, 3}, false), vectors);
}

class ImageImports : public testing::HuggingFaceDirectory {
 protected:
  static std::string golden(const std::string& kind) { return MTF_SOURCE_DIR "/tests/golden/hf_" + kind; }
  /// Makes the directory a copy of a recorded model.
  void copy(const std::string& kind) const {
    using std::filesystem::copy_options;
    std::filesystem::copy(golden(kind), hf(), copy_options::recursive | copy_options::overwrite_existing);
  }
  void change_processor(const nlohmann::json& changes) const {
    const std::string file = hf() + "/preprocessor_config.json";
    nlohmann::json written = nlohmann::json::parse(read_text_file(file));
    written.merge_patch(changes);
    write_text_file(file, written.dump());
  }
  std::string data_of() const {
    std::vector<std::string> notes;
    return image_data_yaml(*read_image_processor(hf(), 3, notes), 3);
  }
};

TEST_F(ImageImports, ClassesKeepTheirNames) {
  for (const char* kind : {"vit", "resnet"}) {
    copy(kind);
    const auto import = [&] {
      return kind[0] == 'v' ? import_vit(hf(), target()) : import_resnet(hf(), target());
    };
    const ModelWeights model = import().model;
    EXPECT_THAT(prepared_classes(model.preparation), Contains("a hen"));
    if (kind[0] == 'v') {
      EXPECT_THAT(export_vit(model, "run", hf()), IsEmpty());
    } else {
      EXPECT_THAT(export_resnet(model, "run", hf()), IsEmpty());
    }
    EXPECT_EQ(json()["id2label"]["2"], "a hen");
    change({{"id2label",
             {{"0", "x"}, {"1", "y"}, {"2", nullptr}, {"3", nullptr}, {"4", nullptr}, {"5", nullptr}}}});
    EXPECT_THAT(message([&] { import(); }), AllOf(HasSubstr("`id2label` has 2 names"), HasSubstr("6 rows")));
    change({{"id2label", nullptr}, {"num_channels", 1}});
    EXPECT_THAT(message([&] { import(); }), ::testing::Not("no error"));
  }
}

TEST_F(ImageImports, HalvesOfOneTensorAreVariables) {
  VitConfig vit = small_dinov2();
  vit.is_gated = true;
  vit.activation = Activation::kSwish;
  vit.intermediate = 24;
  const ModelWeights model = model_of(yaml(vit));
  export_dinov2(model, "run", hf());
  const SafetensorsFile file(hf() + "/model.safetensors");
  const auto found = std::ranges::find(
      file.tensors(), "dinov2_with_registers.encoder.layer.0.mlp.weights_in.weight", &StoredTensor::name);
  ASSERT_NE(found, file.tensors().end());
  EXPECT_THAT(found->shape, ElementsAre(48, 12));
  const HuggingFaceImport import = import_dinov2(hf(), target());
  ASSERT_EQ(import.model.weights.size(), model.weights.size());
  for (const ModelWeight& weight : import.model.weights) {
    const auto before = std::ranges::find(model.weights, weight.name, &ModelWeight::name);
    ASSERT_NE(before, model.weights.end()) << weight.name;
    EXPECT_TRUE(std::ranges::equal(weight.value.bytes, before->value.bytes)) << weight.name;
  }
}

TEST_F(ImageImports, PositionsFitImagesOfAnotherSize) {
  copy("vit");
  change_processor({{"size", {{"height", 8}, {"width", 6}}}});
  const HuggingFaceImport import = import_vit(hf(), target());
  EXPECT_THAT(import.notes,
              ElementsAre("positions of 3 x 3 patches are interpolated for the 4 x 2 patches of "
                          "images of 8 x 6"));
  EXPECT_THAT(export_vit(import.model, "run", hf()), IsEmpty());
  EXPECT_EQ(json()["image_size"], nlohmann::json::array({8, 6}));
  copy("vit");
  change_processor({{"size", {{"height", 7}, {"width", 6}}}});
  EXPECT_THAT(message([&] { import_vit(hf(), target()); }),
              HasSubstr("images become 7 x 6, which cannot be cut into patches of 2 x 3"));
}

/// The name that torchvision has for a tensor of the recorded ResNet.
std::string torchvision_name(const std::string& name) {
  static const std::vector<std::pair<std::regex, const char*>> rules = {
      {std::regex(R"(.*embedder\.convolution\.)"), "conv1."},
      {std::regex(R"(.*embedder\.normalization\.)"), "bn1."},
      {std::regex(R"(.*stages\.0\.layers\.(\d)\.)"), "layer1.$1."},
      {std::regex(R"(.*stages\.1\.layers\.(\d)\.)"), "layer2.$1."},
      {std::regex(R"(layer\.0\.c\w+)"), "conv1"},
      {std::regex(R"(layer\.1\.c\w+)"), "conv2"},
      {std::regex(R"(layer\.2\.c\w+)"), "conv3"},
      {std::regex(R"(layer\.0\.n\w+)"), "bn1"},
      {std::regex(R"(layer\.1\.n\w+)"), "bn2"},
      {std::regex(R"(layer\.2\.n\w+)"), "bn3"},
      {std::regex(R"(shortcut\.c\w+)"), "downsample.0"},
      {std::regex(R"(shortcut\.n\w+)"), "downsample.1"},
      {std::regex(R"(classifier\.1)"), "fc"}};
  std::string made = name;
  for (const auto& [from, to] : rules) made = std::regex_replace(made, from, to);
  return made;
}

TEST_F(ImageImports, NamesMayBeThoseOfTorchvision) {
  copy("resnet");
  const HuggingFaceImport expected = import_resnet(hf(), target());
  const SafetensorsFile file(golden("resnet") + "/model.safetensors");
  std::vector<StoredTensor> tensors = file.tensors();
  for (StoredTensor& tensor : tensors) tensor.name = torchvision_name(tensor.name);
  write_safetensors(hf() + "/model.safetensors", tensors, {});
  const HuggingFaceImport import = import_resnet(hf(), target());
  ASSERT_EQ(import.model.weights.size(), expected.model.weights.size());
  for (size_t i = 0; i < import.model.weights.size(); ++i) {
    EXPECT_EQ(import.model.weights[i].name, expected.model.weights[i].name);
    EXPECT_TRUE(
        std::ranges::equal(import.model.weights[i].value.bytes, expected.model.weights[i].value.bytes));
  }
}

TEST_F(ImageImports, AnEncoderAloneStaysOne) {
  VitConfig vit = small_vit();
  vit.has_pooler = true;
  ModelWeights model = model_of(yaml(vit));
  EXPECT_THAT(message([&] { export_vit(model, "run", hf()); }),
              HasSubstr("has no pooler before its classifier"));
  std::erase_if(model.weights, [](const ModelWeight& weight) { return weight.name.starts_with("logits/"); });
  export_vit(model, "run", hf());
  EXPECT_EQ(json()["architectures"], nlohmann::json::array({"ViTModel"}));
  const HuggingFaceImport import = import_vit(hf(), target());
  EXPECT_EQ(import.model.weights.size(), model.weights.size());
  EXPECT_THAT(import.notes, Contains(HasSubstr("trains anew: logits/kernel, logits/bias")));
  EXPECT_THAT(import.model.config, HasSubstr("exclude: [^logits/]"));
}

TEST_F(ImageImports, WeightsMustBeThoseOfTheModel) {
  copy("vit");
  change({{"num_hidden_layers", 1}});
  EXPECT_THAT(message([&] { import_vit(hf(), target()); }),
              HasSubstr("16 tensors that a ViT of its config.json lacks"));
  change({{"num_hidden_layers", 3}});
  EXPECT_THAT(message([&] { import_vit(hf(), target()); }), HasSubstr("has no tensor `vit.encoder.layer.2."));
  change({{"num_hidden_layers", 2}, {"intermediate_size", 21}});
  EXPECT_THAT(message([&] { import_vit(hf(), target()); }), HasSubstr("config.json says float32 [21, 12]"));
  change({{"image_size", {4, 9}}});
  EXPECT_THAT(message([&] { import_vit(hf(), target()); }), HasSubstr("config.json says float32 [1, 7, 12]"));
}

TEST_F(ImageImports, ImagesArePreparedAsThereOrRefused) {
  copy("resnet");
  EXPECT_EQ(data_of(), image_data_yaml(kProcessor, 3));
  EXPECT_THAT(data_of(), AllOf(HasSubstr("size: 31, resize: crop"), HasSubstr("- center_crop: 27"),
                               HasSubstr("normalize: {mean: [0.5, 0.4, 0.3], deviation: [0.25, 0.2, 0.3]}")));
  change_processor({{"rescale_factor", 1 / 127.5}, {"image_mean", 1}, {"image_std", 2}});
  EXPECT_THAT(data_of(), HasSubstr("normalize: {mean: [0.5], deviation: [1]}"));
  change_processor({{"do_normalize", false}, {"do_rescale", true}, {"rescale_factor", nullptr}});
  EXPECT_THAT(data_of(), ::testing::Not(HasSubstr("normalize")));
  change_processor({{"image_processor_type", "ConvNextImageProcessor"},
                    {"do_center_crop", nullptr},
                    {"crop_pct", 0.875},
                    {"size", {{"shortest_edge", 224}}}});
  EXPECT_THAT(data_of(), AllOf(HasSubstr("size: 256, resize: crop"), HasSubstr("- center_crop: 224")));
  for (const double share : {1e-300, 1.5}) {
    change_processor({{"crop_pct", share}});
    EXPECT_THAT(message([&] { data_of(); }), HasSubstr("no part of an image"));
  }
  change_processor({{"crop_pct", 0.875}, {"size", {{"shortest_edge", 384}}}});
  EXPECT_THAT(data_of(),
              AllOf(HasSubstr("size: 384, resize: stretch"), ::testing::Not(HasSubstr("center_crop"))));
  const auto refused = [&](const nlohmann::json& changes) {
    copy("resnet");
    change_processor(changes);
    return message([&] { data_of(); });
  };
  EXPECT_THAT(refused({{"image_processor_type", "CLIPImageProcessor"}}),
              HasSubstr("`image_processor_type` is CLIPImageProcessor"));
  EXPECT_THAT(refused({{"do_center_crop", false}}), HasSubstr("images have many sizes"));
  EXPECT_THAT(refused({{"do_resize", false}}), HasSubstr("`do_resize` is false"));
  EXPECT_THAT(refused({{"crop_size", 32}}), HasSubstr("`crop_size` is larger than `size`"));
  EXPECT_THAT(refused({{"image_std", {1, 0, 1}}}), HasSubstr("`image_std` has 0"));
  EXPECT_THAT(refused({{"image_mean", {1, 2}}}),
              HasSubstr("`image_mean` has 2 numbers, and images have 3 channels"));
  std::vector<std::string> notes;
  copy("resnet");
  change_processor({{"resample", 3}});
  read_image_processor(hf(), 3, notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("`resample` is 3; images are scaled bilinearly here")));
}

}  // namespace
}  // namespace mtf
