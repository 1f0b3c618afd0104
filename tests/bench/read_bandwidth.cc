// Bytes per second that THREADS threads read from memory: each adds up the 64-bit words of 256 MB in huge pages, four streams at a
// time. Prints the best of nine rounds.
//   read_bandwidth [THREADS]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

namespace {

constexpr int kStreams = 4;
constexpr int64_t kBytes = 256 << 20;
constexpr int64_t kWords = kBytes / sizeof(uint64_t) / kStreams;  // in a stream
constexpr int64_t kBlock = 32;                                    // words of a stream at a time
constexpr size_t kHugePage = 2 << 20;
constexpr int kRounds = 9;

/// Words that are all 1, kStreams times kWords of them.
uint64_t* make_words() {
  void* memory = std::aligned_alloc(kHugePage, kBytes);
  if (memory == nullptr) std::abort();
  madvise(memory, kBytes, MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(memory);
  std::fill(words, words + kStreams * kWords, 1);
  return words;
}

uint64_t sum(const uint64_t* words) {
  uint64_t result[kStreams] = {};
  for (int64_t i = 0; i < kWords; i += kBlock) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const uint64_t* block = words + stream * kWords + i;
      result[stream] = std::accumulate(block, block + kBlock, result[stream]);
    }
  }
  return std::accumulate(result, result + kStreams, uint64_t{0});
}

/// Seconds in which all threads have read their words once.
double read_all(const std::vector<uint64_t*>& words) {
  std::vector<uint64_t> sums(words.size());
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < words.size(); ++i) threads.emplace_back([&, i] { sums[i] = sum(words[i]); });
  for (auto& thread : threads) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (std::ranges::any_of(sums, [](uint64_t value) { return value != kStreams * kWords; })) std::abort();
  return seconds.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  std::vector<uint64_t*> words(threads);
  std::ranges::generate(words, make_words);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    best = std::max(best, static_cast<double>(threads * kBytes) / read_all(words));
  }
  std::printf("%.4g\n", best);
  std::ranges::for_each(words, std::free);
  return 0;
}
