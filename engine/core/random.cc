#include "engine/core/random.h"

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/core/quantiles.h"

namespace mtf {
namespace {

constexpr double phi_of_minus_2 = 0.022750131948179207200;

double uniform_double(PhiloxKey key, RandomStream stream, int64_t step, int64_t element) {
  return uniform_from_bits(random_bits(key, stream, step, element));
}

}  // namespace

PhiloxKey random_key(std::string_view name, uint64_t seed) {
  const uint64_t hash = hash64(name, seed);
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

float uniform(PhiloxKey key, RandomStream stream, int64_t step, int64_t element) {
  return static_cast<float>(uniform_double(key, stream, step, element));
}

float uniform(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double low, double high) {
  return static_cast<float>(low + (high - low) * uniform_double(key, stream, step, element));
}

float normal(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double mean, double stddev) {
  const double z = inverse_normal_cdf(uniform_double(key, stream, step, element));
  return static_cast<float>(mean + stddev * z);
}

float truncated_normal(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double mean,
                       double stddev) {
  const double u = uniform_double(key, stream, step, element);
  const double z = inverse_normal_cdf(phi_of_minus_2 + (1 - 2 * phi_of_minus_2) * u);
  return static_cast<float>(mean + stddev * z);
}

double inverse_normal_cdf(double p) {
  MTF_CHECK(p > 0 && p < 1, "p = {} is no probability between 0 and 1", p);
  return normal_quantile(p);
}

double inverse_gumbel_cdf(double p) {
  MTF_CHECK(p > 0 && p < 1, "p = {} is no probability between 0 and 1", p);
  return gumbel_quantile(p);
}

}  // namespace mtf
