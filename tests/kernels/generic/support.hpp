#pragma once
// What the generic kernels' tests share: buffers of the checked emulator, which reports every access
// outside of a buffer, every read of what nobody has written, and every race.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/generic/numbers.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/simt/report.hpp"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::generic::test {

// The emulator with every check.
inline constexpr simt::Executor kChecked = simt::Executor::kChecked;

template <typename T>
using Checked = simt::Buffer<T, kChecked>;

// The name of a C++ type.
template <typename T>
constexpr Number number_of() {
  if constexpr (std::is_same_v<T, double>) {
    return Number::kF64;
  } else if constexpr (std::is_same_v<T, simt::bf16>) {
    return Number::kBf16;
  } else if constexpr (std::is_same_v<T, simt::half>) {
    return Number::kF16;
  } else if constexpr (std::is_same_v<T, int>) {
    return Number::kI32;
  } else {
    static_assert(std::is_same_v<T, float>);
    return Number::kF32;
  }
}

template <typename T>
Source source(const Checked<T>& buffer) {
  return {number_of<T>(), buffer.data()};
}

template <typename T>
Target target(Checked<T>& buffer) {
  return {number_of<T>(), buffer.data()};
}

template <typename T>
double widened(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

// As doubles.
template <typename T>
std::vector<double> values_of(const Checked<T>& buffer) {
  std::vector<double> values;
  for (const T value : buffer.download()) {
    values.push_back(widened(value));
  }
  return values;
}

// Random draws from a seed that a failure prints; ULTRA_TEST_SEED repeats a run.
class PlainTest : public ::testing::Test {
 protected:
  PlainTest() : trace_(__FILE__, __LINE__, "ULTRA_TEST_SEED=" + std::to_string(seed_)) {}

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

  // Multiples of 1/8 up to 4: every format holds them.
  template <typename T>
  Checked<T> eighths(const std::string& name, std::size_t count) {
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<T>(static_cast<float>(between(-32, 32)) / 8.0F));
    }
    return Checked<T>(name, values);
  }

 private:
  static unsigned draw_seed() {
    const char* text = std::getenv("ULTRA_TEST_SEED");
    return text == nullptr ? std::random_device()() : static_cast<unsigned>(std::stoul(text));
  }

  unsigned seed_ = draw_seed();
  std::mt19937 engine_{seed_};
  ::testing::ScopedTrace trace_;
};

}  // namespace ultra::kernels::generic::test
