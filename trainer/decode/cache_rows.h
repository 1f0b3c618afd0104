// The rows of caches that go on in other caches, when texts leave a batch or grow.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/core/hosted_mesh.h"
#include "engine/core/layout.h"
#include "engine/runtime/variable_store.h"

namespace mtf {

/// Rows `rows` of `name` in `from` become the first ones of `name` in `to`: [batch, ..., memory_length, ...]
/// in both, where `to` may have another batch and a longer memory_length; all else becomes zero. `layout`: of
/// both; memory_length is not split. Each process copies its own slices; where a row is in another process
/// the cache is gathered first, so all processes make the same calls.
void take_cache_rows(const Layout& layout, const HostedMesh& mesh, const std::string& name,
                     std::span<const int64_t> rows, const VariableStore& from, VariableStore& to);

}  // namespace mtf
