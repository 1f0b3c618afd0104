// Builds operands of attention for tests.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/ops/attention.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

inline Dimension batch(int64_t n) { return {"batch", n}; }
inline Dimension heads(int64_t n) { return {"heads", n}; }
inline Dimension length(int64_t n) { return {"length", n}; }
inline Dimension memory(int64_t n) { return {"memory_length", n}; }
inline Dimension d_kv(int64_t n) { return {"d_kv", n}; }
inline Dimension buckets(int64_t n) { return {"buckets", n}; }

/// Operands with q: [batch, length, heads, d_kv], and k and v accordingly. Logits have about the same size
/// for every d.
inline AttentionInputs multi_head(CaseBuilder& c, int64_t b, int64_t h, int64_t l, int64_t m, int64_t d) {
  const double scale = 2 / std::sqrt(static_cast<double>(d));
  return {.q = c.input("q", {batch(b), length(l), heads(h), d_kv(d)}, -scale, scale),
          .k = c.input("k", {batch(b), memory(m), heads(h), d_kv(d)}, -2, 2),
          .v = c.input("v", {batch(b), memory(m), heads(h), d_kv(d)})};
}

/// Ids of packed sequences: segments of `each` entries, then `padding` entries of segment 0.
inline Values packed_segments(int64_t rows, int64_t size, int64_t each, int64_t padding) {
  Values ids;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < size; ++i)
      ids.push_back(i < size - padding ? static_cast<double>(1 + (i + row) / each) : 0.0);
  }
  return ids;
}

}  // namespace mtf::testing
