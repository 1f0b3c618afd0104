#include "trainer/decode/cache_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>

#include "engine/core/mesh.h"
#include "models/text_decoder.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

TEST(FittedRows, StayInTheirPlacesWhereTheyCan) {
  const auto to = [](const std::vector<int64_t>& rows, int64_t before, int64_t after, int64_t parts) {
    std::vector<int64_t> places;
    for (const MovedRow& row : fitted_rows(rows, before, after, parts)) places.push_back(row.to);
    return places;
  };
  using Places = std::vector<int64_t>;
  EXPECT_EQ(to({0, 2, 3, 7}, 8, 4, 1), (Places{0, 2, 3, 1}));
  EXPECT_EQ(to({0, 2, 5, 7}, 8, 8, 1), (Places{0, 2, 5, 7}));
  // Two parts of 4 rows become two of 2: rows 2 and 3 leave the full part.
  EXPECT_EQ(to({0, 1, 2, 5}, 8, 4, 2), (Places{0, 1, 2, 3}));
  EXPECT_EQ(to({3, 4, 7}, 8, 4, 2), (Places{0, 2, 3}));
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const auto parts = static_cast<int64_t>(1 + random() % 3),
               before = parts * static_cast<int64_t>(1 + random() % 8);
    const auto after = parts * static_cast<int64_t>(1 + random() % static_cast<uint32_t>(before / parts));
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < before && std::ssize(rows) < after; ++row) {
      if (random() % 3 != 0) rows.push_back(row);
    }
    const std::vector<MovedRow> moved = fitted_rows(rows, before, after, parts);
    std::set<int64_t> places;
    for (size_t k = 0; k < moved.size(); ++k) {
      EXPECT_EQ(moved[k].from, rows[k]);
      EXPECT_TRUE(moved[k].to >= 0 && moved[k].to < after && places.insert(moved[k].to).second);
    }
  }
}

TEST(AddedRows, GoToFreePlacesOfTheirPartIfTheyCan) {
  const auto moved = [](int64_t count, const std::vector<int64_t>& taken, int64_t before, int64_t after,
                        int64_t parts) {
    std::vector<std::pair<int64_t, int64_t>> rows;
    for (const MovedRow& row : added_rows(count, taken, before, after, parts))
      rows.emplace_back(row.from, row.to);
    return rows;
  };
  using Rows = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(moved(2, {0, 2}, 4, 4, 1), (Rows{{0, 1}, {1, 3}}));
  EXPECT_EQ(moved(2, {0, 2}, 2, 4, 2), (Rows{{0, 1}, {1, 3}}));
  // The first part is full, or has fewer places than rows.
  EXPECT_EQ(moved(4, {0, 1}, 4, 4, 2), (Rows{{2, 2}, {3, 3}}));
  EXPECT_EQ(moved(4, {0, 1}, 4, 6, 2), (Rows{{0, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(moved(2, {0, 1}, 4, 6, 2), (Rows{{0, 2}, {2, 3}}));
}

struct CacheSizes {
  int64_t texts, memory;
};

/// Keys [batch, heads, memory_length, d], hypotheses' values [batch, beam, memory_length, d] and states [batch, d], with the texts
/// or the heads split along x.
std::vector<ProgramVariable> caches(const CacheSizes& sizes, const std::string& split) {
  const Dimension batch{"batch", sizes.texts}, memory{std::string(kMemoryLength), sizes.memory};
  const std::vector<std::pair<std::string, Shape>> shapes{
      {"keys", {batch, {"heads", 2}, memory, {"d", 4}}},
      {"values", {batch, {std::string(kBeam), 3}, memory, {"d", 2}}},
      {"states", {batch, {"d", 6}}}};
  std::vector<ProgramVariable> variables;
  for (const auto& [name, shape] : shapes) {
    std::vector<std::vector<int>> axes(static_cast<size_t>(shape.rank()));
    if (const auto axis = shape.find(split)) axes[static_cast<size_t>(*axis)] = {0};
    const DType dtype = name == "states" ? DType::kFloat32 : DType::kBFloat16;
    variables.push_back({{name, shape, dtype, Initializer::zeros(), Variable::Kind::kSession},
                         Layout{std::move(axes), 0, {}},
                         kNoValue});
  }
  return variables;
}

/// Values of bfloat16, which begin anywhere.
Values some_values(int64_t count, int first) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((first + i) % 251));
  return values;
}

/// Expects that entries of the rows were moved, and if `others_stay` that the other rows are still `before`.
void expect_moved(const Shape& from_shape, const Values& from, const Shape& to_shape, const Values& to,
                  std::span<const MovedRow> rows, int64_t filled, bool others_stay, const Values& before) {
  const auto axis = to_shape.find(kMemoryLength);
  const int64_t memory = axis ? std::min(from_shape[*axis].size, to_shape[*axis].size) : 1,
                entries = to_shape.contains(kBeam) ? std::min(memory, filled) : memory;
  const int64_t from_row = from_shape.size() / from_shape[0].size,
                to_row = to_shape.size() / to_shape[0].size;
  const int64_t inner = to_shape[to_shape.rank() - 1].size,
                from_block = axis ? from_shape[*axis].size * inner : from_row,
                to_block = axis ? to_shape[*axis].size * inner : to_row;
  std::set<int64_t> written;
  for (const MovedRow& row : rows) {
    written.insert(row.to);
    for (int64_t block = 0; block < to_row / to_block; ++block) {
      for (int64_t i = 0; i < entries * inner; ++i) {
        ASSERT_EQ(to[static_cast<size_t>(row.to * to_row + block * to_block + i)],
                  from[static_cast<size_t>(row.from * from_row + block * from_block + i)])
            << "row " << row.from << " to " << row.to;
      }
    }
  }
  for (int64_t i = 0; others_stay && i < std::ssize(to); ++i) {
    if (!written.contains(i / to_row)) {
      ASSERT_EQ(to[static_cast<size_t>(i)], before[static_cast<size_t>(i)]) << "element " << i;
    }
  }
}

enum class Places { kApart, kShared, kWithin };

void expect_rows_move(const CacheSizes& before, const CacheSizes& after, const std::string& split,
                      Places places, std::mt19937& random) {
  const std::shared_ptr<Backend> backend = test_backend();
  const Mesh mesh(Shape::parse("x:2"));
  std::map<DType, std::shared_ptr<DeviceMemory>> memory;
  VariableStoreOptions options;
  if (places != Places::kApart) {
    options.session_memory = [&](DType dtype, int64_t) {
      auto& shared = memory[dtype];
      if (!shared) shared = backend->allocate(1 << 16);
      return shared;
    };
  }
  VariableStore from(*backend, mesh, caches(before, split), options);
  if (places == Places::kWithin) options.within = &from;
  VariableStore to(*backend, mesh, caches(after, split), options);
  const int64_t parts = split == "batch" ? 2 : 1;
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < before.texts && std::ssize(rows) < after.texts; ++row) {
    if (random() % 3 != 0) rows.push_back(row);
  }
  const std::vector<MovedRow> moved = fitted_rows(rows, before.texts, after.texts, parts);
  const auto filled = static_cast<int64_t>(random() % 9);
  std::map<std::string, Values> old, target;
  for (const std::string& name : from.names()) {
    const Variable &a = from.variable(name), &b = to.variable(name);
    target[name] = some_values(b.shape.size(), 100);
    to.set(name, to_host(b.shape, b.dtype, target[name]));
    old[name] = some_values(a.shape.size(), static_cast<int>(random() % 100));
  }
  for (const auto& [name, values] : old) {
    const Variable& a = from.variable(name);
    from.set(name, to_host(a.shape, a.dtype, values));
  }
  take_cache_rows(caches(after, split), HostedMesh(mesh), moved, filled, from, to);
  for (const std::string& name : from.names()) {
    SCOPED_TRACE(name);
    expect_moved(from.variable(name).shape, old[name], to.variable(name).shape, from_host(to.get(name)),
                 moved, filled, places == Places::kApart, target[name]);
  }
}

TEST(TakeCacheRows, MovesWhatIsFilledBetweenCachesThatMayShareMemory) {
  std::mt19937 random(5);
  const std::vector<CacheSizes> sizes{{2, 5}, {4, 8}, {6, 8}, {8, 11}};
  for (const std::string split : {"batch", "heads", "none"}) {
    for (const CacheSizes& before : sizes) {
      for (const CacheSizes& after : sizes) {
        SCOPED_TRACE(split + " " + std::to_string(before.texts) + " " + std::to_string(after.texts));
        expect_rows_move(before, after, split, Places::kApart, random);
        expect_rows_move(before, after, split, Places::kShared, random);
        if (after.texts <= before.texts && after.memory == before.memory)
          expect_rows_move(before, after, split, Places::kWithin, random);
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
