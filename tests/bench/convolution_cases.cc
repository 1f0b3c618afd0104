// Prints random convolutions and what the engine makes of them, for `bench.py convolutions`: one line of JSON for each.
//
//   build/bin/convolution_cases [CASES [SEED]]
//
// A line has the geometry, the numbers that go in (x, f and the cotangent dy) and those that come out (y, dx and df), all in
// float32 and in row-major order of the shapes in `shapes`. One case in ten has the form that is computed in tiles, and one
// in three is split over a random mesh, where replicas are compared too.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/support/random_convolution.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using Json = nlohmann::ordered_json;

Json json(const Shape& shape) {
  Json dimensions = Json::array();
  for (const Dimension& d : shape) dimensions.push_back({d.name, d.size});
  return dimensions;
}

Json json(const Window& w) {
  return {{"dimension", w.dimension},  {"filter", w.filter},       {"size", w.size},
          {"stride", w.stride},        {"dilation", w.dilation},   {"before", w.before},
          {"entries", w.entries.size}, {"windows", w.windows.size}};
}

/// A list with as few digits as float32 needs; what is not finite is null.
std::string list(const Values& values) {
  std::string text = "[";
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(text), "{}", static_cast<float>(value));
    } else {
      text += "null";
    }
  }
  return text + ']';
}

void print_case(std::mt19937& random, uint32_t number) {
  const bool in_tiles = random() % 10 == 0, on_mesh = random() % 3 == 0;
  const EvenMesh mesh = on_mesh ? random_mesh(random) : EvenMesh{"", 1};
  const RandomConvolution g =
      in_tiles ? random_convolution_in_tiles(random, mesh.parts) : random_convolution(random, mesh.parts);
  const std::string rules = on_mesh ? random_split(random, g, mesh).rules : "";
  const auto built = build_convolution(g, number);
  const MeshRun run =
      run_on_mesh(built->graph, rules.empty() ? Layouts::single() : layouts(mesh.text, rules), built->feeds);

  Json line{{"case", number}, {"in_tiles", in_tiles}, {"transposed", g.transposed}};
  line["mesh"] = rules.empty() ? "" : mesh.text;
  line["layout"] = rules;
  line["groups"] = json(g.groups);
  for (const Window& w : g.windows) line["windows"].push_back(json(w));
  Json& shapes = line["shapes"];
  shapes["x"] = json(g.entries);
  shapes["f"] = json(g.filter);
  for (const auto& [name, tensor] : built->graph.outputs()) {
    if (name == "y") shapes["y"] = json(tensor.shape());
  }
  std::string text = line.dump();
  text.pop_back();
  for (const auto& tensors : {built->feeds, run.outputs}) {
    for (const auto& [name, values] : tensors) text += fmt::format(",\"{}\":{}", name, list(values));
  }
  fmt::print("{}}}\n", text);
}

}  // namespace
}  // namespace mtf::testing

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 2000;
  std::mt19937 random(argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 1);
  for (int i = 0; i < cases; ++i) mtf::testing::print_case(random, static_cast<uint32_t>(i));
  return 0;
}
