#include "engine/runtime/variable_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "engine/runtime/slicing.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

const Shape kShape{{"a", 4}, {"b", 6}};

ProgramVariable variable(const std::string& name, const Shape& shape, const Layout& layout,
                         const Initializer& initializer = Initializer::normal(2),
                         DType dtype = DType::kFloat32) {
  return {{name, shape, dtype, initializer}, layout, kNoValue};
}

Values counting(int64_t n) {
  Values values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(VariableStore, InitialValuesDoNotDependOnTheLayout) {
  const std::shared_ptr<Backend> backend = test_backend();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const Initializer& initializer : {Initializer::normal(2), Initializer::truncated_normal(1),
                                           Initializer::uniform(3), Initializer::constant(0.1)}) {
      VariableStore whole(*backend, Mesh(),
                          {variable("w", kShape, Layout::replicated(2), initializer, dtype)});
      whole.initialize(5);
      const std::vector<std::byte> expected = whole.get("w").bytes;
      const Mesh mesh(Shape::parse("x:2;y:3"));
      for (const Layout& layout : {Layout{{{0}, {1}}, 0}, Layout{{{}, {1, 0}}, 0}, Layout{{{}, {0}}, 0}}) {
        for (const bool replicate : {false, true}) {
          VariableStore split(*backend, mesh, {variable("w", kShape, layout, initializer, dtype)},
                              {.replicate = replicate});
          split.initialize(5);
          EXPECT_EQ(split.get("w").bytes, expected);
        }
      }
    }
  }
}

TEST(VariableStore, TheVariablesOfAKindShareAnAllocation) {
  const std::shared_ptr<Backend> backend = test_backend();
  const Layout whole = Layout::replicated(2);
  ProgramVariable slot = variable("slot", kShape, whole);
  slot.variable.kind = Variable::Kind::kSlot;
  const std::vector<ProgramVariable> variables{variable("v", kShape, whole), slot,
                                               variable("w", kShape, whole)};
  std::unique_ptr<VariableStore> all = std::make_unique<VariableStore>(*backend, Mesh(), variables);
  const std::byte *v = all->slice("v", 0), *w = all->slice("w", 0);
  EXPECT_EQ(w - v, 256);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(v) % 256, 0);
  // A store that shares a variable keeps its memory.
  all->initialize(1);
  const HostTensor values = all->get("w");
  const VariableStore none(*backend, Mesh(), {variable("u", kShape, whole)});
  VariableStore part(*backend, Mesh(), {variable("u", kShape, whole), variable("w", kShape, whole)},
                     {.shared = {&none, all.get()}});
  all.reset();
  EXPECT_EQ(part.slice("w", 0), w);
  EXPECT_EQ(part.get("w").bytes, values.bytes);
  EXPECT_EQ(part.slice("u", 0), none.slice("u", 0));
}

TEST(VariableStore, VariablesInTheMemoryOfTheHostAreApart) {
  const std::shared_ptr<Backend> backend = test_backend();
  const Layout whole = Layout::replicated(2);
  ProgramVariable moved = variable("moved", kShape, whole);
  moved.variable.on_host = true;
  const int64_t before = backend->memory_bytes();
  VariableStore store(*backend, Mesh(), {moved, variable("w", kShape, whole)});
  EXPECT_EQ(backend->memory_bytes() - before, backend->is_host() ? 0 : 256);
  store.initialize(3);
  const HostTensor values = store.get("moved");
  VariableStore all(*backend, Mesh(), {variable("moved", kShape, whole)});
  all.initialize(3);
  EXPECT_EQ(values.bytes, all.get("moved").bytes);
  store.set("moved", all.get("moved"));
  EXPECT_EQ(store.get("moved").bytes, values.bytes);
}

TEST(VariableStore, InitialValuesDependOnSeedAndName) {
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore store(
      *backend, Mesh(),
      {variable("v", kShape, Layout::replicated(2)), variable("w", kShape, Layout::replicated(2))});
  store.initialize(1);
  const HostTensor v = store.get("v");
  EXPECT_NE(v.bytes, store.get("w").bytes);
  store.initialize(2);
  EXPECT_NE(v.bytes, store.get("v").bytes);
  store.initialize(1);
  EXPECT_EQ(v.bytes, store.get("v").bytes);
  for (double x : from_host(v)) EXPECT_LT(std::abs(x), 12);
}

TEST(VariableStore, SetsAndGetsWholeVariables) {
  const std::shared_ptr<Backend> backend = test_backend();
  const Mesh mesh(Shape::parse("x:2;y:3"));
  VariableStore store(*backend, mesh, {variable("w", kShape, Layout{{{0}, {1}}, 0})});
  store.set("w", to_host(kShape, DType::kFloat32, counting(24)));
  EXPECT_EQ(from_host(store.get("w")), counting(24));
  std::vector<float> slice(4);  // position 4 has x=1 y=1: rows 2 and 3, columns 2 and 3
  backend->read(reinterpret_cast<std::byte*>(slice.data()), store.slice("w", 4), 16);
  EXPECT_EQ(slice, (std::vector<float>{14, 15, 20, 21}));
}

TEST(VariableStore, RejectsOtherShapesTypesAndNames) {
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore store(*backend, Mesh(), {variable("w", kShape, Layout::replicated(2))});
  EXPECT_THROW(store.set("w", HostTensor({{"b", 6}, {"a", 4}}, DType::kFloat32)), Error);
  EXPECT_THROW(store.set("w", HostTensor({{"ab", 24}}, DType::kFloat32)), Error);
  EXPECT_THROW(store.set("w", HostTensor(kShape, DType::kFloat64)), Error);
  EXPECT_THROW(store.get("u"), Error);
  EXPECT_NO_THROW(store.set("w", HostTensor({{"d0", 4}, {"d1", 6}}, DType::kFloat32)));
}

TEST(VariableStore, KeepsOneCopyOfEachSlice) {
  const std::shared_ptr<Backend> backend = test_backend();
  const Mesh mesh(Shape::parse("x:2;y:4"));
  const Shape shape{{"a", 64}, {"b", 16}};
  const auto copies = [&](const Layout& layout, bool replicate) {
    return VariableStore(*backend, mesh, {variable("w", shape, layout)}, {.replicate = replicate})
        .slices("w")
        .size();
  };
  EXPECT_EQ(copies(Layout::replicated(2), false), 1u);
  EXPECT_EQ(copies(Layout{{{0}, {}}, 0}, false), 2u);
  EXPECT_EQ(copies(Layout{{{0}, {}}, 0}, true), 8u);
}

TEST(VariableStore, SessionVariablesLieInSharedMemoryOrWithinThoseOfAnotherStore) {
  const std::shared_ptr<Backend> backend = test_backend();
  const Mesh mesh(Shape::parse("x:2"));
  const auto cache = [](const std::string& name, int64_t rows, DType dtype) {
    ProgramVariable v =
        variable(name, {{"batch", rows}, {"b", 32}}, Layout{{{0}, {}}, 0}, Initializer::zeros(), dtype);
    v.variable.kind = Variable::Kind::kSession;
    return v;
  };
  std::map<DType, std::shared_ptr<DeviceMemory>> memory;
  const VariableStoreOptions shared{
      .session_memory = [&](DType dtype, int64_t bytes) { return memory[dtype] = backend->allocate(bytes); }};
  const VariableStore large(*backend, mesh,
                            {cache("k", 8, DType::kFloat32), cache("v", 8, DType::kFloat32),
                             cache("ids", 8, DType::kInt32), variable("w", kShape, Layout::replicated(2))},
                            shared);
  EXPECT_EQ(memory.size(), 2u);
  EXPECT_EQ(large.slice("k", 0), memory[DType::kFloat32]->data());
  EXPECT_EQ(large.slice("ids", 0), memory[DType::kInt32]->data());
  VariableStore small(*backend, mesh, {cache("v", 4, DType::kFloat32), cache("ids", 4, DType::kInt32)},
                      {.within = &large});
  for (const char* name : {"v", "ids"}) {
    for (const int64_t position : {0, 1}) EXPECT_EQ(small.slice(name, position), large.slice(name, position));
  }
  small.set("v", to_host({{"batch", 4}, {"b", 32}}, DType::kFloat32, counting(128)));
  EXPECT_EQ(from_host(small.get("v")), counting(128));
}

TEST(Slicing, CutsAndPutsTogetherEverySlice) {
  const Shape whole{{"a", 4}, {"b", 6}, {"c", 2}, {"d", 5}};
  for (const Shape& slice :
       {whole, Shape{{"a", 2}, {"b", 6}, {"c", 2}, {"d", 5}}, Shape{{"a", 4}, {"b", 3}, {"c", 1}, {"d", 5}},
        Shape{{"a", 1}, {"b", 2}, {"c", 2}, {"d", 1}}}) {
    const HostTensor from = to_host(whole, DType::kInt32, counting(240));
    HostTensor back(whole, DType::kInt32), part(slice, DType::kInt32);
    std::vector<int64_t> begin(4);
    for (begin[0] = 0; begin[0] < 4; begin[0] += slice[0].size) {
      for (begin[1] = 0; begin[1] < 6; begin[1] += slice[1].size) {
        for (begin[2] = 0; begin[2] < 2; begin[2] += slice[2].size) {
          for (begin[3] = 0; begin[3] < 5; begin[3] += slice[3].size) {
            copy_to_slice(whole, slice, begin, 4, from.bytes.data(), part.bytes.data());
            EXPECT_EQ(part.data<int32_t>()[0], ((begin[0] * 6 + begin[1]) * 2 + begin[2]) * 5 + begin[3]);
            copy_from_slice(whole, slice, begin, 4, part.bytes.data(), back.bytes.data());
          }
        }
      }
    }
    EXPECT_EQ(back.bytes, from.bytes);
  }
}

}  // namespace
}  // namespace mtf::testing
