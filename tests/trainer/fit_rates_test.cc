// Tests how run.mode=calibrate fits the rates of the cost model, on times that were made from known rates.
#include "trainer/calibrate/fit_rates.h"

#include <gtest/gtest.h>

#include <vector>

namespace mtf {
namespace {

TEST(FitProducts, FindsTheRatesThatMadeTheTimes) {
  std::vector<MeasuredProduct> products;
  for (const double m : {32, 256, 2048}) {
    for (const double n : {64, 1024}) {
      for (const double k : {64, 1024})
        products.push_back({m, n, k, 2 * (m + 3) * (n + 20) * (k + 12) / 50e9});
    }
  }
  const FittedProducts fitted = fit_products(products);
  EXPECT_NEAR(fitted.rates.rows, 3, 0.3);
  EXPECT_NEAR(fitted.rates.columns, 20, 0.5);
  EXPECT_NEAR(fitted.rates.summed, 12, 0.5);
  EXPECT_NEAR(fitted.flops * fitted.rates.share, 50e9, 1e9);
}

TEST(FitProducts, NothingIsFasterThanAKnownPeak) {
  std::vector<MeasuredProduct> products;
  for (const double m : {32, 256, 2048}) {
    for (const double n : {64, 1024}) products.push_back({m, n, 256, 2 * (m + 8) * n * 256 / 50e9});
  }
  const FittedProducts known = fit_products(products, 100e9);
  EXPECT_EQ(known.flops, 100e9);
  EXPECT_NEAR(known.rates.share, 0.5, 0.02);
  EXPECT_NEAR(known.rates.rows, 8, 1);
  const FittedProducts slow = fit_products(products, 40e9);
  EXPECT_EQ(slow.flops, 40e9);
  EXPECT_DOUBLE_EQ(slow.rates.share, 1);
}

TEST(FitProducts, FindsWhatFillsALargeDevice) {
  std::vector<MeasuredProduct> products;
  for (const double m : {256, 2048, 16384}) {
    for (const double n : {256, 4096}) {
      for (const double k : {256, 4096})
        products.push_back({m, n, k, 2 * (m + 500) * (n + 150) * (k + 300) / 600e12});
    }
  }
  const FittedProducts fitted = fit_products(products, 700e12, 1024);
  EXPECT_NEAR(fitted.rates.rows, 500, 10);
  EXPECT_NEAR(fitted.rates.columns, 150, 10);
  EXPECT_NEAR(fitted.rates.summed, 300, 10);
  EXPECT_NEAR(fitted.rates.share, 6.0 / 7, 0.01);
}

TEST(FitProducts, OneDisturbedMeasurementChangesLittle) {
  std::vector<MeasuredProduct> products;
  for (const double m : {32, 256, 2048}) {
    for (const double n : {64, 1024}) products.push_back({m, n, 256, 2 * m * n * 256 / 50e9});
  }
  products[2].seconds *= 3;
  const FittedProducts fitted = fit_products(products);
  EXPECT_NEAR(fitted.flops * fitted.rates.share, 50e9, 2e9);
}

TEST(FitAttention, FindsSharesSoftmaxAndQueries) {
  std::vector<MeasuredAttention> attentions;
  for (const double width : {32, 64, 128}) {
    for (const double length : {64, 256, 1024}) {
      const double others = 96 * length + 8000;
      attentions.push_back(
          {4 * width * length, length, 1, (4 * width * length + others) / (0.5 * 1e9), false});
      attentions.push_back(
          {10 * width * length, length, 1, (10 * width * length + others) / (0.8 * 1e9), true});
    }
  }
  const AttentionRates rates = fit_attention(attentions, 1e9);
  EXPECT_NEAR(rates.softmax, 96, 8);
  EXPECT_NEAR(rates.query, 8000, 500);
  EXPECT_NEAR(rates.forward, 0.5, 0.01);
  EXPECT_NEAR(rates.backward, 0.8, 0.01);
}

}  // namespace
}  // namespace mtf
