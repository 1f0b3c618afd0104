// Tests that every rule in configs/layouts fits every shipped model that has the dimension.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>

#include "engine/config/load.h"
#include "engine/graph/sharding_rule.h"
#include "models/model.h"

namespace mtf {

struct LayoutSections {
  std::optional<config::MeshSizes> mesh;
  LayoutRules layout, parameter_layout, optimizer_layout;
};
static void describe(config::Visitor& visit, LayoutSections& sections) {
  visit("mesh", sections.mesh, "dimensions of the mesh");
  visit("layout", sections.layout, "rules for all tensors");
  visit("parameter_layout", sections.parameter_layout, "rules for variables at rest");
  visit("optimizer_layout", sections.optimizer_layout, "rules for optimizer slots");
}

namespace testing {
namespace {

const std::string kConfigs = MTF_SOURCE_DIR "/configs/";

LayoutSections load_layout(const std::string& file) {
  Diagnostics diagnostics;
  const config::Node root = config::load({file}, {}, diagnostics).without("shared_layout");
  const auto sections = config::parse<LayoutSections>(root, diagnostics);
  diagnostics.throw_if_errors();
  return sections;
}

/// True for 2x2_dp.yaml and others: the layouts of Mesh TensorFlow, named after TPUs.
bool is_named_after_tpus(const std::filesystem::path& file) { return isdigit(file.stem().string()[0]) != 0; }

std::vector<std::string> layout_files(bool named_after_tpus) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs + "layouts")) {
    if (is_named_after_tpus(entry.path()) == named_after_tpus) files.push_back(entry.path());
  }
  return files;
}

int64_t positions(const LayoutSections& sections) {
  return sections.mesh ? sections.mesh->resolve(0).size() : 1;
}

struct ModelShapes {
  std::vector<Shape> variables;
  std::vector<Shape> activations;
};

/// Adds the shapes of a shipped model.
void add_shapes(const std::string& file, Graph& graph, const Features& features, const Dimension& batch,
                ModelShapes& shapes) {
  Diagnostics diagnostics;
  const config::Node root = config::load({kConfigs + "models/" + file}, {}, diagnostics);
  const auto model = make_model(*root.find("model"), diagnostics);
  diagnostics.throw_if_errors();
  Context context(graph, Mode::kTrain, {}, batch);
  model->build(context, features);
  for (const auto& variable : graph.variables()) shapes.variables.push_back(variable->shape);
  for (const auto& operation : graph.root()) {
    for (const OutputInfo& output : operation->outputs()) {
      if (output.shape.contains(batch)) shapes.activations.push_back(output.shape);
    }
  }
}

ModelShapes shipped_shapes() {
  ModelShapes shapes;
  Graph mnist, toy;
  const Dimension images{"batch", 200}, numbers{"batch", 64}, io{"io", 16};
  add_shapes("mnist.yaml", mnist,
             {{"image", mnist.input("image", {images, {"rows", 28}, {"cols", 28}})},
              {"labels", mnist.input("labels", {images}, DType::kInt32)}},
             images, shapes);
  add_shapes("toy.yaml", toy, {{"x", toy.input("x", {numbers, io})}, {"y", toy.input("y", {numbers, io})}},
             numbers, shapes);
  return shapes;
}

/// Returns whether the rules split `shape`, and expects that every split is even and uses its own mesh
/// dimension.
bool splits_evenly(const Shape& shape, const Mesh& mesh, const LayoutRules& rules) {
  const Layout layout = LayoutMap(mesh, rules).of(shape);
  AxisMask used = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    EXPECT_EQ(shape[i].size % parts(layout, i, mesh), 0) << shape.to_string();
    for (const int axis : layout.split[i]) {
      EXPECT_FALSE(has_axis(used, axis)) << shape.to_string();
      used |= axis_bit(axis);
    }
  }
  return used != 0;
}

TEST(ShippedLayouts, HaveEightPositionsOrAsManyAsTheirNameSays) {
  for (const std::string& file : layout_files(false)) {
    const bool single = file.find("single") != std::string::npos;
    EXPECT_EQ(positions(load_layout(file)), single                                      ? 1
                                            : file.find("_4.yaml") != std::string::npos ? 4
                                                                                        : 8)
        << file;
  }
  EXPECT_GE(layout_files(false).size(), 6u);
}

TEST(ShippedLayouts, NamedAfterTpusHaveTwoPositionsForEachChip) {
  for (const std::string& file : layout_files(true)) {
    const std::string name = std::filesystem::path(file).stem();
    const int64_t rows = std::stoi(name), columns = std::stoi(name.substr(name.find('x') + 1));
    EXPECT_EQ(positions(load_layout(file)), 2 * rows * columns) << file;
  }
  EXPECT_GE(layout_files(true).size(), 11u);
}

TEST(ShippedLayouts, SplitTheShippedModelsEvenly) {
  const ModelShapes shapes = shipped_shapes();
  for (const std::string& file : layout_files(false)) {
    SCOPED_TRACE(file);
    const LayoutSections sections = load_layout(file);
    if (!sections.mesh) continue;
    const Mesh mesh = sections.mesh->resolve(0);
    const LayoutRules parameters = sections.layout.plus(sections.parameter_layout);
    const LayoutRules slots = parameters.plus(sections.optimizer_layout);
    int split_activations = 0, split_slots = 0;
    for (const Shape& shape : shapes.activations)
      split_activations += splits_evenly(shape, mesh, sections.layout);
    for (const Shape& shape : shapes.variables) {
      splits_evenly(shape, mesh, parameters);
      split_slots += splits_evenly(shape, mesh, slots);
    }
    EXPECT_GT(split_activations, 0);
    const bool replicated = file.find("/data_parallel") != std::string::npos;
    EXPECT_EQ(split_slots, replicated ? 0 : 5) << "all but mnist's layer_2/bias";
  }
}

TEST(ShippedLayouts, NameOnlyDimensionsOfTheirMesh) {
  std::vector<std::string> files = layout_files(false);
  for (const std::string& file : layout_files(true)) files.push_back(file);
  for (const std::string& file : files) {
    const LayoutSections sections = load_layout(file);
    for (const LayoutRules& rules : {sections.layout, sections.parameter_layout, sections.optimizer_layout}) {
      for (const LayoutRule& rule : rules.rules()) {
        for (const std::string& axis : rule.mesh_dimensions) {
          EXPECT_TRUE(sections.mesh && sections.mesh->resolve(0).shape().contains(axis))
              << file << " " << axis;
        }
      }
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace mtf
