#include "tests/support/random_convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/base/integer_division.h"
#include "engine/graph/gradients.h"

namespace mtf::testing {
namespace {

/// Adds `dimension` at a random place, so that every order of dimensions occurs.
void insert(std::mt19937& random, std::vector<Dimension>& dimensions, const Dimension& dimension) {
  dimensions.insert(dimensions.begin() + static_cast<std::ptrdiff_t>(random() % (dimensions.size() + 1)),
                    dimension);
}

}  // namespace

std::string RandomConvolution::to_string() const {
  std::string text = fmt::format("{}{} by {} groups {}", transposed ? "transposed " : "", entries.to_string(),
                                 filter.to_string(), groups.to_string());
  for (const Window& w : windows)
    text += fmt::format(", {} ({} of {})", w.to_string(), w.windows.size, w.entries.size);
  return text;
}

RandomConvolution random_convolution(std::mt19937& random, int64_t parts) {
  RandomConvolution g;
  g.transposed = random() % 4 == 0;
  std::vector<Dimension> entries, filter, groups;
  const char* names[] = {"rows", "cols", "depth"};
  const int64_t rank = random() % 4 ? up_to(random, 2) : 3;
  for (int64_t i = 0; i < rank; ++i) {
    const Window w = random_window(random, names[i], fmt::format("k{}", i), g.transposed, parts);
    entries.push_back({w.dimension, g.transposed ? w.windows.size : w.entries.size});
    filter.push_back({w.filter, w.size});
    g.windows.push_back(w);
  }
  const bool last = random() % 2;
  const auto place = [&](std::vector<Dimension>& to, const Dimension& d) {
    last ? to.push_back(d) : insert(random, to, d);
  };
  if (random() % 4) insert(random, entries, {"batch", parts * up_to(random, 2)});
  if (random() % 8 == 0) insert(random, entries, {"images", up_to(random, 3)});
  if (random() % 3 == 0) {
    groups.push_back({"group", parts * up_to(random, 2)});
    place(entries, groups[0]);
    place(filter, groups[0]);
  }
  if (random() % 4) {
    const Dimension in{"in", parts * up_to(random, 3)};
    place(entries, in);
    place(filter, in);
  }
  if (random() % 4) place(filter, {"out", random() % 4 ? parts * up_to(random, 3) : parts * 20});
  g.entries = Shape(entries);
  g.filter = Shape(filter);
  g.groups = Shape(groups);
  return g;
}

RandomConvolution random_convolution_in_tiles(std::mt19937& random, int64_t parts) {
  RandomConvolution g;
  g.transposed = random() % 3 == 0;
  std::vector<Dimension> entries, filter;
  const char* names[] = {"rows", "cols"};
  const bool turned = random() % 4 == 0;  // the windows along columns first
  for (int i = 0; i < 2; ++i) {
    const int which = turned ? 1 - i : i;
    WindowOptions options{.filter = fmt::format("k{}", which), .size = 3};
    const uint32_t padding = random() % 4;
    if (padding == 0 && parts == 1) options.padding = Padding::valid();
    if (padding == 1) {
      const int64_t before = static_cast<int64_t>(random() % 4);
      options.padding = Padding::of(before, 2 - before);  // as many windows as entries
    }
    const Dimension d{names[which],
                      parts * (ceil_divide(int64_t{4}, parts) + static_cast<int64_t>(random() % 6))};
    const Window w = g.transposed ? window_onto(d, options) : window_over(d, options);
    entries.push_back(d);
    filter.push_back({w.filter, w.size});
    g.windows.push_back(w);
  }
  if (random() % 4) insert(random, entries, {"batch", parts * up_to(random, 2)});
  if (random() % 8 == 0) insert(random, entries, {"images", up_to(random, 3)});
  if (random() % 3 == 0) std::swap(filter[0], filter[1]);
  const Dimension in{"in", parts * ceil_divide(32 + static_cast<int64_t>(random() % 20), parts)};
  const Dimension out{
      "out", parts * ceil_divide(32 + static_cast<int64_t>(random() % 200) / (random() % 4 ? 10 : 1), parts)};
  entries.push_back(g.transposed ? out : in);
  filter.push_back(in);
  filter.push_back(out);
  g.entries = Shape(entries);
  g.filter = Shape(filter);
  return g;
}

RandomConvolution convolution_of_few_channels(int64_t channels, int64_t window) {
  const Dimension rows{"rows", 11}, cols{"cols", 45}, in{"in", channels};
  RandomConvolution g;
  g.entries = {{"batch", 2}, rows, cols, in};
  g.filter = {{"k0", window}, {"k1", window}, in, {"out", 20}};
  g.windows = {window_over(rows, {.filter = "k0", .size = window}),
               window_over(cols, {.filter = "k1", .size = window})};
  return g;
}

EvenMesh random_mesh(std::mt19937& random) {
  const EvenMesh meshes[] = {{"a:2", 2}, {"a:4", 4}, {"a:2;b:2", 2}, {"a:3", 3}, {"a:2;b:2;c:2", 2}};
  return meshes[random() % std::size(meshes)];
}

RandomSplit random_split(std::mt19937& random, const RandomConvolution& g, const EvenMesh& mesh) {
  RandomSplit split;
  std::vector<std::string>& names = split.dimensions;
  for (const Shape* shape : {&g.entries, &g.filter}) {
    for (const Dimension& d : *shape) {
      const bool of_filter = d.name[0] == 'k';
      if (!of_filter && d.size % mesh.parts == 0 && std::ranges::find(names, d.name) == names.end())
        names.push_back(d.name);
    }
  }
  std::ranges::shuffle(names, random);
  const Shape m = Shape::parse(mesh.text);
  if (names.size() > static_cast<size_t>(m.rank())) names.resize(static_cast<size_t>(m.rank()));
  for (size_t k = 0; k < names.size(); ++k)
    split.rules += fmt::format("{}{}:{}", k ? ";" : "", names[k], m[static_cast<int>(k)].name);
  return split;
}

std::unique_ptr<BuiltConvolution> build_convolution(const RandomConvolution& g, uint32_t seed, DType dtype) {
  auto built = std::make_unique<BuiltConvolution>();
  std::mt19937 random(seed);
  const auto input = [&](const std::string& name, const Shape& shape) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    Values& values = built->feeds[name];
    for (int64_t i = 0; i < shape.size(); ++i) values.push_back(uniform(random));
    return built->graph.input(name, shape, dtype);
  };
  const Tensor x = input("x", g.entries), f = input("f", g.filter);
  const Tensor y = g.transposed ? transposed_convolution(x, f, g.windows, g.groups)
                                : convolution(x, f, g.windows, g.groups);
  const Tensor dy = input("dy", y.shape());
  const Tensors dx = gradients({y}, {x, f}, {dy});
  built->graph.set_output("y", y);
  built->graph.set_output("dx", dx[0]);
  built->graph.set_output("df", dx[1]);
  return built;
}

}  // namespace mtf::testing
