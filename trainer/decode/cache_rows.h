// Moves rows of key-value caches into caches of another size, when texts enter or leave the batch or outgrow the cache.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/hosted_mesh.h"
#include "engine/core/layout.h"
#include "engine/runtime/variable_store.h"
#include "engine/spmd/program.h"

namespace mtf {

/// A row of a batch and where it goes in another one.
struct MovedRow {
  int64_t from, to;
};

/// Returns where rows of a batch of `before` rows go in one of `after` rows, which must hold them: where the rows are split
/// into `parts` (of both sizes), rows stay in their part and in their place of it if there is room.
std::vector<MovedRow> fitted_rows(std::span<const int64_t> rows, int64_t before, int64_t after,
                                  int64_t parts);

/// Returns rows of a batch of `before` rows, at most `most`, and where they go in one of `after` rows, of which `taken` are taken:
/// where the rows are split into `parts` (of both sizes), each stays in its part.
std::vector<MovedRow> added_rows(int64_t most, std::span<const int64_t> taken, int64_t before, int64_t after,
                                 int64_t parts);

/// Moves rows of the caches in `from` to those of the same names in `to`, of which `caches` are the variables; both may lie in the
/// same memory. Other rows stay, what lies behind the entries that are moved is unspecified. Caches are [batch, ..., memory_length, ...], or without
/// memory_length, with the same layouts, in which memory_length is not split; those in `to` may have another batch size and another
/// memory_length, of which the first entries are moved: of a cache of hypotheses (with the dimension beam) `filled`, of others as
/// many as both have. Each process moves its own slices. If a row is in another process the cache is gathered first, so the call is
/// collective.
void take_cache_rows(const std::vector<ProgramVariable>& caches, const HostedMesh& mesh,
                     std::span<const MovedRow> rows, int64_t filled, const VariableStore& from,
                     VariableStore& to);

}  // namespace mtf
