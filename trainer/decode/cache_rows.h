// Copies rows of key-value caches into caches of another size, when texts leave the batch or outgrow the
// cache.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/core/hosted_mesh.h"
#include "engine/core/layout.h"
#include "engine/runtime/variable_store.h"

namespace mtf {

/// Copies rows `rows` of the cache `name` in `from` to the first rows of `name` in `to`. The other elements, which no text
/// reads, are unspecified. Both caches are [batch, ..., memory_length, ...], or without memory_length, with the same `layout`, in which
/// memory_length is not split; `to` may have another batch size and a longer memory_length. Of a cache of
/// hypotheses (with the dimension beam) the first `filled` entries along memory_length are copied. Each process
/// copies its own slices. If a row is in another process the cache is gathered first, so the call is
/// collective.
void take_cache_rows(const Layout& layout, const HostedMesh& mesh, const std::string& name,
                     std::span<const int64_t> rows, int64_t filled, const VariableStore& from,
                     VariableStore& to);

}  // namespace mtf
