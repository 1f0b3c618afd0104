#include <utility>

#include "engine/backend/cuda/device/words.h"
#include "engine/backend/cuda/movement/copy_blocks.h"

namespace mtf::cuda {
namespace {

/// A copy with its own blocks of the grid.
struct Part {
  const std::byte* from;
  std::byte* to;
  int64_t from_row, to_row, from_run, to_run;
  int64_t word;
  Divisor words, runs;  ///< words of a run, runs of a row
  int64_t count;        ///< number of words
  int64_t first_block, blocks;
};

struct CopyParts {
  static constexpr int kMostParts = 24;
  Part parts[kMostParts];
  int size = 0;

  MTF_DEVICE void operator()(const Block& block) const {
    int p = 0;
    while (p + 1 < size && block.index() >= parts[p + 1].first_block) ++p;
    const Part& part = parts[p];
    with_word(part.word, [&]<class Word>(Word) { copy<Word>(block, part); });
  }

 private:
  template <class Word>
  MTF_DEVICE static void copy(const Block& block, const Part& part) {
    constexpr int64_t kBytes = sizeof(Word);
    struct Moved {
      Word value;
      Word* to;
    };
    const bool one_run = part.words.value() == part.count;
    const auto load = [&](int64_t i) {
      int64_t from = i * kBytes, to = from;
      if (!one_run) {
        const Division word = part.words(i);
        const Division run = part.runs(word.quotient);
        from = run.quotient * part.from_row + run.remainder * part.from_run + word.remainder * kBytes;
        to = run.quotient * part.to_row + run.remainder * part.to_run + word.remainder * kBytes;
      }
      return Moved{part.from == nullptr ? Word{} : *reinterpret_cast<const Word*>(part.from + from),
                   reinterpret_cast<Word*>(part.to + to)};
    };
    const int64_t threads = block.threads();
    move_entries((block.index() - part.first_block) * threads + block.thread(), part.blocks * threads,
                 part.count, load, [](int64_t, const Moved& moved) { *moved.to = moved.value; });
  }
};

/// The same copy, with contiguous runs and rows joined.
BlockCopy joined(BlockCopy copy) {
  const auto follow = [&](int64_t from, int64_t to) {
    return to == copy.length && (copy.from == nullptr || from == copy.length);
  };
  if (copy.runs == 1 || follow(copy.from_run, copy.to_run)) {
    copy.length *= std::exchange(copy.runs, 1);
    if (copy.rows == 1 || follow(copy.from_row, copy.to_row)) copy.length *= std::exchange(copy.rows, 1);
  }
  return copy;
}

int64_t word_of(const BlockCopy& copy) {
  const auto address = [](const std::byte* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p));
  };
  return common_word({copy.length, address(copy.from), address(copy.to), copy.rows > 1 ? copy.from_row : 0,
                      copy.rows > 1 ? copy.to_row : 0, copy.runs > 1 ? copy.from_run : 0,
                      copy.runs > 1 ? copy.to_run : 0});
}

class Parts {
 public:
  explicit Parts(const Launcher& launch) : launch_(launch) {}

  void add(const BlockCopy& copy) {
    if (copy.length * copy.runs * copy.rows == 0) return;
    if (kernel_.size == CopyParts::kMostParts) run();
    const int64_t word = word_of(copy), words = copy.length / word, count = words * copy.runs * copy.rows;
    const int64_t blocks = over(count).blocks;
    kernel_.parts[kernel_.size++] = {copy.from,
                                     copy.to,
                                     copy.from_row,
                                     copy.to_row,
                                     copy.from_run,
                                     copy.to_run,
                                     word,
                                     Divisor(words, count),
                                     Divisor(copy.runs, count),
                                     count,
                                     blocks_,
                                     blocks};
    blocks_ += blocks;
  }

  void run() {
    launch_(LaunchShape{blocks_}, kernel_);
    kernel_.size = 0;
    blocks_ = 0;
  }

 private:
  const Launcher& launch_;
  CopyParts kernel_;
  int64_t blocks_ = 0;
};

}  // namespace

void copy_blocks(const Launcher& launch, std::span<const BlockCopy> copies) {
  Parts parts(launch);
  for (const BlockCopy& given : copies) {
    BlockCopy copy = joined(given);
    // Splits off the end of one long run, so that the rest is copied in wide words.
    if (copy.rows * copy.runs == 1 && copy.length % kPackBytes != 0 && copy.length > kPackBytes) {
      const int64_t rest = copy.length % kPackBytes;
      copy.length -= rest;
      parts.add({.from = copy.from == nullptr ? nullptr : copy.from + copy.length,
                 .to = copy.to + copy.length,
                 .length = rest});
    }
    parts.add(copy);
  }
  parts.run();
}

}  // namespace mtf::cuda
