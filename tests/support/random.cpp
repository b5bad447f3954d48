#include "tests/support/random.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "common/tensor/host_view.hpp"

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

DeviceKind device_kind_of_tests() {
  const char* text = std::getenv("ULTRA_TEST_DEVICE");
  return text == nullptr || *text == '\0' ? DeviceKind::kCpu : parse_device_kind(text);
}

Device device_of_tests() {
  constexpr int kSkipped = 77;  // what ctest takes for "skipped", see ultra_test_on_devices
  try {
    return Device::create(device_kind_of_tests());
  } catch (const ConfigError& error) {
    fmt::print("skipped: {}\n", error.what());
    std::exit(kSkipped);
  }
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
  for (std::int32_t& token : HostView<std::int32_t>(result, HostAccess::kWrite)) {
    token = static_cast<std::int32_t>(between(0, bound - 1));
  }
  return result;
}

void Random::fill(const Tensor& tensor, double scale) {
  dispatch_stored(tensor.dtype(), [&]<class T>() {
    for (T& value : HostView<T>(tensor, HostAccess::kWrite)) value = number_as<T>(scale * normal());
  });
}

RandomTest::RandomTest()
    : trace_(__FILE__, __LINE__,
             fmt::format("seed {0}; ULTRA_TEST_SEED={0} repeats this run", seed)) {}

}  // namespace ultra::test
