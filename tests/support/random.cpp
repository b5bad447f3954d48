#include "tests/support/random.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace ultra::test {
namespace {

std::uint64_t draw_seed() {
  if (const char* text = std::getenv("ULTRA_TEST_SEED"); text != nullptr && *text != '\0') {
    return std::stoull(text);
  }
  return std::random_device()();
}

}  // namespace

std::uint64_t seed_of_this_run() {
  static const std::uint64_t seed = draw_seed();
  return seed;
}

std::size_t Random::between(std::size_t low, std::size_t high) {
  return std::uniform_int_distribution<std::size_t>(low, high)(engine_);
}

double Random::uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(engine_);
}

double Random::normal() { return std::normal_distribution<double>()(engine_); }

Tensor Random::tensor(const Device& device, const Shape& shape, DType dtype, double scale) {
  const Tensor result = Tensor::empty(device, shape, dtype);
  fill(result, scale);
  return result;
}

Tensor Random::tokens(const Device& device, const Shape& shape, std::size_t bound) {
  const Tensor result = Tensor::empty(device, shape, DType::kI32);
  for (std::int32_t& token : result.span<std::int32_t>()) {
    token = static_cast<std::int32_t>(between(0, bound - 1));
  }
  return result;
}

void Random::fill(const Tensor& tensor, double scale) {
  dispatch_stored(tensor.dtype(), [&]<class T>() {
    for (T& value : tensor.span<T>()) value = number_as<T>(scale * normal());
  });
}

RandomTest::RandomTest()
    : trace_(__FILE__, __LINE__,
             fmt::format("seed {0}; ULTRA_TEST_SEED={0} repeats this run", seed)) {}

}  // namespace ultra::test
