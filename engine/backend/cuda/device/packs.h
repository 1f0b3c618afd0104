// Packs of elements that are loaded and stored at once. Like walk.h, this is text for every compiler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device/block.h"

namespace mtf::cuda {

/// The bytes that a thread loads or stores at once.
inline constexpr int kPackBytes = 16;

/// The elements of a pack if a thread processes the same elements of several operands, of which the widest is
/// loaded at once.
template <class... T>
inline constexpr int kPack = kPackBytes / static_cast<int>(std::max({sizeof(T)...}));

template <class T, int N>
struct alignas(std::min<size_t>(kPackBytes, sizeof(T) * N)) Pack {
  T values[N];

  MTF_HOST_DEVICE T& operator[](int i) { return values[i]; }
  MTF_HOST_DEVICE const T& operator[](int i) const { return values[i]; }
};

/// `data` must be aligned like the pack.
template <int N, class T>
MTF_HOST_DEVICE Pack<T, N> load(const T* data) {
  return *reinterpret_cast<const Pack<T, N>*>(data);
}
template <class T, int N>
MTF_HOST_DEVICE void store(T* data, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(data) = pack;
}

/// Keeps the compiler from holding in registers what it has computed from a pack of kPackBytes: it computes that anew.
template <class T, int N>
MTF_DEVICE void compute_anew([[maybe_unused]] Pack<T, N>& pack) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(pack) == kPackBytes);
  auto& words = reinterpret_cast<Pack<uint32_t, 4>&>(pack);
  asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
#endif
}

/// Loads or stores the first `count` elements of a pack; the others become zero, and are not written.
template <int N, class T>
MTF_HOST_DEVICE Pack<T, N> load(const T* data, int count) {
  if (count == N) return load<N>(data);
  Pack<T, N> pack{};
  MTF_UNROLL(N)
  for (int i = 0; i < N; ++i) {
    if (i < count) pack[i] = data[i];
  }
  return pack;
}
template <class T, int N>
MTF_HOST_DEVICE void store(T* data, const Pack<T, N>& pack, int count) {
  if (count == N) return store(data, pack);
  MTF_UNROLL(N)
  for (int i = 0; i < N; ++i) {
    if (i < count) data[i] = pack[i];
  }
}

/// Calls visit(first, count) for the packs of `size` elements; count is N, or less for the last pack.
template <int N, class Visit>
MTF_DEVICE void for_each_pack(const Block& block, int64_t size, const Visit& visit) {
  const int64_t packs = (size + N - 1) / N;
  for (int64_t pack = block.first(); pack < packs; pack += block.stride()) {
    visit(pack * N, static_cast<int>(std::min<int64_t>(N, size - pack * N)));
  }
}
/// Calls visit(first, pack) for parts of `size` elements: for whole packs, with pack = true (none unless
/// `packs`), and for each of the remaining elements.
///
///   for_each_part<kPack<T>>(block, n, true, [&](int64_t first, bool pack) {
///     pack ? copy<kPack<T>>(first) : copy<1>(first);
///   });
///   template <int N> void copy(int64_t first) const { store(y + first, load<N>(x + first)); }
template <int N, class Visit>
MTF_DEVICE void for_each_part(const Block& block, int64_t size, bool packs, const Visit& visit) {
  const int64_t whole = packs ? size / N : 0, parts = whole + (size - whole * N);
  for (int64_t part = block.first(); part < parts; part += block.stride())
    visit(part < whole ? part * N : whole * N + (part - whole), part < whole);
}

}  // namespace mtf::cuda
