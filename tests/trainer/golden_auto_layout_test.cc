// Compares the search for layouts with Mesh TensorFlow's auto_mtf at its own objective, the peak memory of a position, for the
// graphs and meshes that were recorded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/ops/broadcast.h"
#include "engine/ops/einsum.h"
#include "trainer/plan/mesh_shapes.h"
#include "trainer/plan/search.h"

namespace mtf::testing {
namespace {

constexpr const char* kFolder = MTF_SOURCE_DIR "/tests/golden/13_auto_layout/";

/// A graph of the original, in the order in which it runs, and the memory that it takes on one of several positions: each
/// result lives until its last reader has run, outputs to the end.
class RecordedGraph {
 public:
  explicit RecordedGraph(const YAML::Node& recorded) {
    std::map<std::string, size_t> readers;
    for (const auto& operation : recorded["operations"]) {
      for (const auto& operand : operation["operands"]) ++readers[operand.as<std::string>()];
    }
    for (const auto& output : recorded["outputs"]) ++readers[output.as<std::string>()];
    std::set<std::string> alive;
    for (const auto& operation : recorded["operations"]) {
      const auto name = operation["name"].as<std::string>();
      const Shape shape = Shape::parse(operation["shape"].as<std::string>());
      Tensors operands;
      Shape of_operands;
      std::vector<std::string> read;
      for (const auto& operand : operation["operands"]) {
        read.push_back(operand.as<std::string>());
        operands.push_back(tensors_.at(read.back()));
        of_operands = union_of(of_operands, operands.back().shape());
      }
      tensors_.emplace(name, result_of(name, operands, of_operands, shape));
      element_bytes_[name] = operation["element"].as<double>();
      alive.insert(name);
      alive_.push_back(alive);
      if (readers[name] == 0) alive.erase(name);
      for (const std::string& operand : read) {
        if (--readers[operand] == 0) alive.erase(operand);
      }
    }
    for (const auto& [name, tensor] : tensors_) graph_.set_output(name, tensor);
  }

  const Graph& graph() const { return graph_; }

  /// Bytes of a position at the peak, if `split` says over which of the mesh dimensions each set is split.
  double peak(const SplittableDimensions& dimensions, const std::vector<int64_t>& mesh,
              const SplitChoice& split) const {
    double most = 0;
    for (const std::set<std::string>& names : alive_) {
      double bytes = 0;
      for (const std::string& name : names) {
        double of_tensor = element_bytes_.at(name);
        for (const Dimension& d : tensors_.at(name).shape()) {
          const std::optional<size_t> i = dimensions.find(d.name);
          double size = static_cast<double>(d.size);
          for (size_t axis = 0; i && axis < mesh.size(); ++axis) {
            if (split[axis][*i]) size /= static_cast<double>(mesh[axis]);
          }
          of_tensor *= size;
        }
        bytes += of_tensor;
      }
      most = std::max(most, bytes);
    }
    return most;
  }

  /// Bytes that every completion of an unfinished layout takes at least.
  double bound(const SplittableDimensions& dimensions, const std::vector<SearchAxis>& axes) const {
    double most = 0;
    for (const std::set<std::string>& names : alive_) {
      double bytes = 0;
      for (const std::string& name : names) {
        const Shape& shape = tensors_.at(name).shape();
        double parts = 1;
        for (const SearchAxis& axis : axes) {
          if ((axis.possible & dimensions.of(shape)).any()) parts *= static_cast<double>(axis.size);
        }
        bytes += element_bytes_.at(name) * static_cast<double>(shape.size()) / parts;
      }
      most = std::max(most, bytes);
    }
    return most;
  }

 private:
  static Shape union_of(const Shape& a, const Shape& b) {
    std::vector<Dimension> all(a.begin(), a.end());
    for (const Dimension& d : b) {
      if (!a.find(d.name)) all.push_back(d);
    }
    return Shape(std::move(all));
  }

  /// An operation of these operands with this result; for layouts only the shapes count.
  Tensor result_of(const std::string& name, const Tensors& operands, const Shape& of_operands,
                   const Shape& shape) {
    if (operands.empty()) return graph_.input(name, shape);
    for (const Dimension& d : shape) {
      if (!of_operands.find(d.name)) return broadcast(operands[0], shape);
    }
    return einsum(operands, shape);
  }

  Graph graph_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, double> element_bytes_;
  std::vector<std::set<std::string>> alive_;  ///< at each operation
};

/// Sizes of "m1:4;m2:2", and the rules of "batch:m1;heads:m2" over them.
struct RecordedLayout {
  RecordedLayout(const SplittableDimensions& dimensions, const std::string& mesh_shape,
                 const std::string& layout) {
    const Shape shape = Shape::parse(mesh_shape);
    mesh = shape.sizes();
    chosen.resize(mesh.size());
    const LayoutRules rules = LayoutRules::parse(layout);
    for (const LayoutRule& rule : rules.rules())
      chosen[static_cast<size_t>(shape.find(rule.mesh_dimensions.at(0)).value())].set(
          dimensions.find(rule.dimension).value());
  }
  std::vector<int64_t> mesh;
  SplitChoice chosen;
};

TEST(GoldenAutoLayout, TheSearchFindsLayoutsWithAtMostTheMemoryOfTheOriginals) {
  const YAML::Node graphs = YAML::LoadFile(std::string(kFolder) + "graphs.yaml");
  const YAML::Node results = YAML::LoadFile(std::string(kFolder) + "case.yaml")["results"];
  ASSERT_EQ(results.size(), 12u);
  for (const auto& result : results) {
    const auto name = result["graph"].as<std::string>();
    const RecordedGraph recorded(graphs[name]);
    const SplittableDimensions dimensions({&recorded.graph()});
    const bool finds_mesh = result["chosen_mesh_shape"].IsDefined();
    const RecordedLayout original(dimensions,
                                  result[finds_mesh ? "chosen_mesh_shape" : "mesh_shape"].as<std::string>(),
                                  result["layout"].as<std::string>());
    const double peak = recorded.peak(dimensions, original.mesh, original.chosen);
    SCOPED_TRACE(fmt::format("{} on {}", name, fmt::join(original.mesh, "x")));
    if (!finds_mesh) {
      EXPECT_EQ(peak, result["peak_memory_of_layout"].as<double>()) << "the objective is the original's";
      EXPECT_EQ(recorded.peak(dimensions, original.mesh, SplitChoice(original.mesh.size())),
                result["peak_memory_unsplit"].as<double>());
    }
    std::vector<std::vector<int64_t>> meshes{original.mesh};
    if (finds_mesh) meshes = mesh_shapes(result["num_machines"].as<int64_t>(), 2);
    std::vector<SearchMesh> searched;
    for (const std::vector<int64_t>& sizes : meshes) searched.push_back({sizes});
    const LayoutSearch search{
        .dimensions = dimensions,
        .meshes = searched,
        .bound = [&](const std::vector<SearchAxis>& axes) { return recorded.bound(dimensions, axes); },
        .evaluate =
            [&](const LayoutCandidate& layout, double /*enough*/) {
              const double bytes = recorded.peak(dimensions, meshes[layout.mesh], layout.chosen);
              return LayoutCost{.is_legal = true, .seconds = bytes};
            }};
    const LayoutSearchResult found = search.run({});
    EXPECT_TRUE(found.is_proven());
    EXPECT_LE(found.best().cost.seconds, peak);
    fmt::print("{} on {}: {} bytes, the original's {}\n", name,
               fmt::join(meshes[found.best().layout.mesh], "x"), found.best().cost.seconds, peak);
  }
}

}  // namespace
}  // namespace mtf::testing
