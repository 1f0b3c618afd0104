// Measures matrix products and attention.
#pragma once

#include <optional>

#include "trainer/calibrate/measurement.h"
#include "trainer/calibrate/timed_products.h"
#include "trainer/config/hardware.h"

namespace mtf {

/// Which factors are stored with the summed dimension at the other place than in [rows, summed] and [summed, columns].
struct Transposed {
  bool a = false, b = false;
};

/// `bytes_between`: between two uses of the same operand; nothing: as `measurement` says.
TimedProduct timed_product(const Measurement& measurement, const ProductSizes& sizes, DType dtype,
                           Transposed transposed = {}, MatmulPrecision precision = MatmulPrecision::kFull,
                           std::optional<double> bytes_between = {});

/// Sets the rates of products, and FLOPs in a second by the type of the factors.
void measure_products(const Measurement& measurement, DeviceOptions& device);

/// The share of the time of their bytes that large products with operands in memory take longer than those in the cache.
/// `bandwidth`: bytes in a second of the memory.
double measure_exposure(const Measurement& measurement, double bandwidth);

/// `peak`: FLOPs in a second of products of the same type.
AttentionRates measure_attention(const Measurement& measurement, double peak);

}  // namespace mtf
