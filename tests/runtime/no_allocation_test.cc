// Checks that nothing is allocated after the first step; operator new is replaced by one that counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/budget.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_on_mesh.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void* counted(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto align = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}

/// Must not be inlined: the compiler would warn that free() is called in operator delete.
[[gnu::noinline]] void release(void* memory) { std::free(memory); }

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return counted(size, alignment); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return counted(size, alignment); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size > 0 ? size : 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size > 0 ? size : 1);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace mtf::testing {
namespace {

TEST(Executor, AllocatesNothingAfterTheFirstStep) {
  int checked = 0;
  for (uint32_t seed = 0; checked < tries(60); ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const char* mesh : {"x:1", "x:2", "x:2;y:2"}) {
      const std::unique_ptr<Layouts> layouts = random_layouts(seed, *random.graph, mesh);
      if (!layouts) continue;
      const std::unique_ptr<Backend> backend = make_cpu_backend();
      const Program program = partition(*random.graph, *layouts);
      VariableStore variables(*backend, layouts->mesh, program.variables);
      Executor executor(program, *backend, variables, {.threads = 1 + static_cast<int>(seed % 3)});
      std::map<std::string, HostTensor> feeds;
      for (const auto& [name, id] : program.inputs) {
        feeds.emplace(name,
                      to_host(program.values[id].shape, program.values[id].dtype, random.feeds.at(name)));
      }
      int64_t before = 0;
      for (uint64_t step = 0; step < 4; ++step) {
        if (step == 1) before = allocations;
        for (const auto& [name, tensor] : feeds) executor.feed(name, tensor.bytes.data());
        executor.run(step);
        executor.scalar("loss");
      }
      EXPECT_EQ(allocations, before) << "seed " << seed << " on " << mesh << "\n" << program.to_string();
      if (HasFailure()) return;
      ++checked;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
