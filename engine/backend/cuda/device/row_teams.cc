#include "engine/backend/cuda/device/row_teams.h"

namespace mtf::cuda {
namespace {

constexpr int kTeamsThreads = 128;        // of a block with several teams
constexpr int kInterleavedThreads = 512;  // at most
constexpr int kTimesInPart = 16;          // that a thread handles elements before a row is divided

RowTeams teams_of(int64_t rows, int64_t length) {
  RowTeams teams;
  teams.rows = rows;
  teams.length = teams.part_length = length;
  return teams;
}

int64_t ceiling(int64_t n, int64_t divisor) { return (n + divisor - 1) / divisor; }
/// The least power of two that is not below n.
int power_of_two_from(int64_t n) { return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(n))); }
int log2_of(int power_of_two) { return std::countr_zero(static_cast<unsigned>(power_of_two)); }

/// What follows from the other members.
RowTeams completed(RowTeams teams) {
  const int64_t blocks = ceiling(teams.rows, teams.slots);
  teams.blocks = Divisor(blocks, blocks * teams.parts);
  return teams;
}

}  // namespace

RowTeams contiguous_teams(int64_t rows, int64_t length, int pack, int times, int most_threads) {
  RowTeams teams = teams_of(rows, length);
  const int64_t packs = ceiling(length, pack);
  if (packs <= kWarp * times) {
    teams.size = power_of_two_from(ceiling(packs, times));
    while (teams.size < std::min<int64_t>(kWarp, packs) && rows * teams.size < kBusyThreads) teams.size *= 2;
    teams.slots = kTeamsThreads / teams.size;
    teams.shift = log2_of(teams.size);
  } else {
    teams.size = static_cast<int>(std::min<int64_t>(most_threads, ceiling(packs, kWarp * times) * kWarp));
    teams.shift = 30;
  }
  return completed(teams);
}

RowTeams interleaved_teams(int64_t rows, int64_t length, int64_t stride) {
  RowTeams teams = teams_of(rows, length);
  teams.stride = Divisor(stride, rows);
  teams.interleaved = true;
  const int neighbours = power_of_two_from(std::min<int64_t>(kWarp, stride));
  const int most = power_of_two_from(std::min<int64_t>(kInterleavedThreads / neighbours, length));
  teams.size = power_of_two_from(std::clamp<int64_t>(ceiling(kBusyThreads, rows), 1, most));
  teams.slots = std::max(neighbours, kTeamsThreads / teams.size);
  teams.shift = log2_of(teams.slots);
  return completed(teams);
}

RowTeams divided(RowTeams teams, int pack) {
  const int64_t at_once = int64_t{teams.size} * pack;
  const int64_t possible = teams.length / (at_once * kTimesInPart);
  const int64_t parts = std::min(ceiling(kBusyThreads, teams.rows * teams.size), possible);
  if (parts > 1) {
    teams.part_length = ceiling(ceiling(teams.length, parts), at_once) * at_once;
    teams.parts = static_cast<int>(ceiling(teams.length, teams.part_length));
  }
  MTF_CHECK(teams.part_length < int64_t{1} << 30, "a row of {} elements", teams.length);
  return completed(teams);
}

}  // namespace mtf::cuda
