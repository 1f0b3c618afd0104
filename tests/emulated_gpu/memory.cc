#include "tests/emulated_gpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <map>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/integer_division.h"
#include "tests/emulated_gpu/sanitizers.h"

namespace mtf::cuda::emulator {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kPage = 4096;

/// All memory, by begin.
std::map<const std::byte*, const Memory*>& all_memory() {
  static std::map<const std::byte*, const Memory*> memory;
  return memory;
}

int accesses = 0;  ///< number of live MemoryAccess objects

/// Whether device memory is closed behind this access. Without protection keys that costs a call of the system for each
/// memory and each of its pages; behind the first accesses of a process, and then behind some, it is.
bool closes_behind_access() {
  constexpr int64_t kFirst = 64, kOneOf = 256;
  static int64_t ended = 0;
  return ++ended <= kFirst || ended % kOneOf == 0;
}

/// The protection key of device memory, with which a thread opens and closes all of it without a call of the system; -1
/// where the processor has none.
int protection_key() {
  static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
}

/// Sets the rights of the calling thread to all device memory. False if there are no protection keys.
bool set_rights(unsigned rights) {
  if (protection_key() < 0) return false;
  pkey_set(protection_key(), rights);
  return true;
}

}  // namespace

std::recursive_mutex& emulator_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

Memory::Memory(Kind kind, int64_t bytes) : kind_(kind), bytes_(bytes) {
  const int64_t used = round_up(bytes, kAlignment), pages = round_up(used, kPage);
  pages_bytes_ = static_cast<size_t>(pages);
  void* mapped =
      mmap(nullptr, pages_bytes_ + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw Error(ErrorKind::kMemory, fmt::format("cannot get {} bytes of memory", bytes));
  pages_ = static_cast<std::byte*>(mapped);
  data_ = pages_ + pages - used;
#if defined(MTF_ADDRESS_SANITIZER)
  __asan_poison_memory_region(pages_, static_cast<size_t>(pages - used));
  __asan_poison_memory_region(data_ + bytes, static_cast<size_t>(used - bytes));
#endif
  const std::lock_guard lock(emulator_mutex());
  if (kind == Kind::kPinned) {
    open();
  } else if (protection_key() >= 0) {
    MTF_CHECK(pkey_mprotect(pages_, pages_bytes_, PROT_READ | PROT_WRITE, protection_key()) == 0,
              "pkey_mprotect");
  }
  all_memory()[data_] = this;
}

Memory::~Memory() {
  const std::lock_guard lock(emulator_mutex());
  all_memory().erase(data_);
#if defined(MTF_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(pages_, pages_bytes_);  // the pages may be reused
#endif
  munmap(pages_, pages_bytes_ + kPage);
}

void Memory::open() const {
  if (is_open_ || (kind_ == Kind::kDevice && set_rights(0))) return;
  MTF_CHECK(mprotect(pages_, pages_bytes_, PROT_READ | PROT_WRITE) == 0, "mprotect");
  is_open_ = true;
}

void Memory::close() const {
  if (!is_open_ || kind_ == Kind::kPinned) return;
  MTF_CHECK(mprotect(pages_, pages_bytes_, PROT_NONE) == 0, "mprotect");
  is_open_ = false;
}

const Memory* Memory::find(const std::byte* begin, int64_t bytes) {
  auto found = all_memory().upper_bound(begin);
  if (found == all_memory().begin()) return nullptr;
  const Memory* memory = (--found)->second;
  return begin + bytes <= memory->data_ + memory->bytes_ ? memory : nullptr;
}

MemoryAccess::MemoryAccess() { ++accesses; }

MemoryAccess::~MemoryAccess() {
  if (--accesses > 0 || set_rights(PKEY_DISABLE_ACCESS) || !closes_behind_access()) return;
  for (const auto& [begin, memory] : all_memory()) memory->close();
}

void MemoryAccess::open(const std::byte* address) {
  const Memory* memory = Memory::find(address, 1);
  MTF_CHECK(memory != nullptr, "the memory at {} was freed", static_cast<const void*>(address));
  memory->open();
}

void MemoryAccess::open_all() {
  if (set_rights(0)) return;
  for (const auto& [begin, memory] : all_memory()) memory->open();
}

}  // namespace mtf::cuda::emulator
