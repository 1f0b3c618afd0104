// Rotary positions: queries and keys are turned by angles that grow with their positions, so that their products know the
// distance. Su et al., RoFormer, 2021, eq. 34.
//
//   q = rotate(q, position, options);   // q: [.., d_kv]
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/config/choice.h"
#include "engine/graph/tensor.h"

namespace mtf {

/// Slower angles, for rows that are longer than those a model was trained on first. A way is one struct with its registration.
struct RotaryScaling {
  virtual ~RotaryScaling() = default;
  /// frequency: float32 [d_kv], radians a position, one for each pair of entries: base^(-i / pairs).
  virtual Tensor scaled(const Tensor& frequency, double base) const = 0;
  /// The factor of what is turned, of queries and of keys.
  virtual double magnitude() const { return 1; }
  /// The longest row for which the angles are meant; nothing: any.
  virtual std::optional<int64_t> longest_row() const { return std::nullopt; }
  /// The pairs of entries of a head for which it has numbers; nothing: any.
  virtual std::optional<int64_t> pairs() const { return std::nullopt; }
};
using RotaryScalingChoice = config::Choice<RotaryScaling>;

/// All angles are smaller by `factor`. Chen et al., Position Interpolation, 2023, eq. 4.
struct LinearRotaryScaling final : RotaryScaling {
  static constexpr std::string_view type_name = "linear";
  double factor = 0;

  Tensor scaled(const Tensor& frequency, double base) const override;
};
void describe(config::Visitor& visit, LinearRotaryScaling& options);

/// Angles that turn less than `low_frequency` times in `original_length` positions are smaller by `factor`, those that turn
/// more than `high_frequency` times stay, and those between are means of both. Grattafiori et al., Llama 3, 2024; Llama 3.1's
/// code.
struct Llama3RotaryScaling final : RotaryScaling {
  static constexpr std::string_view type_name = "llama3";
  double factor = 8;
  double low_frequency = 1;
  double high_frequency = 4;
  int64_t original_length = 8192;

  Tensor scaled(const Tensor& frequency, double base) const override;
};
void describe(config::Visitor& visit, Llama3RotaryScaling& options);

/// Pairs that turn up to `beta_slow` times in `original_length` positions have angles that are smaller by `factor`, those that
/// turn `beta_fast` times or more keep theirs, and those between are means of both, by their number. Peng et al., YaRN, 2023,
/// section 3.2 and 3.4; details as in transformers.
struct YarnRotaryScaling final : RotaryScaling {
  static constexpr std::string_view type_name = "yarn";
  double factor = 0;
  int64_t original_length = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  std::optional<double> attention_factor = {};
  bool truncate = true;

  Tensor scaled(const Tensor& frequency, double base) const override;
  double magnitude() const override;
};
void describe(config::Visitor& visit, YarnRotaryScaling& options);

/// The angle of each pair is smaller by a factor of its own: one of `short_factor` up to `original_length` positions, one of
/// `long_factor` beyond. Ding et al., LongRoPE, 2024; the lists and the magnitude as in Phi-3 (Abdin et al., 2024). All rows
/// of a model have the factors that `long` says: keys that a cache holds cannot be turned again when a text becomes longer.
struct LongRotaryScaling final : RotaryScaling {
  static constexpr std::string_view type_name = "longrope";
  double factor = 0;
  int64_t original_length = 0;
  std::vector<double> short_factor = {}, long_factor = {};
  std::optional<double> attention_factor = {};
  bool is_long = false;

  Tensor scaled(const Tensor& frequency, double base) const override;
  double magnitude() const override;
  std::optional<int64_t> longest_row() const override;
  std::optional<int64_t> pairs() const override { return static_cast<int64_t>(short_factor.size()); }
};
void describe(config::Visitor& visit, LongRotaryScaling& options);

struct RotaryOptions {
  bool rotary = false;
  double rotary_base = 10000;
  std::optional<int64_t> rotary_size = {};
  std::optional<RotaryScalingChoice> rotary_scaling = {};
};
void describe_rotary(config::Visitor& visit, RotaryOptions& options);
/// Throws Error (kConfig) for a row of so many positions, if the angles of `layer` are not meant for it.
void check_rotary_row(const RotaryOptions& options, int64_t positions, std::string_view layer);

/// Rotates pairs of entries (i, i + half) of d_kv by position / base^(i / half), or the scaled angle, where half is that of
/// d_kv, or of `rotary_size`, behind which entries stay as they are. x: [.., d_kv], position: int32, some of the other
/// dimensions.
Tensor rotate(const Tensor& x, const Tensor& position, const RotaryOptions& options);

}  // namespace mtf
