#pragma once
/// @file
/// Random shapes and values for tests, from one seed that a failure prints.
///
/// Each run draws a new seed; ULTRA_TEST_SEED=n repeats the run of seed n.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::test {

/// @brief ULTRA_TEST_SEED when it is set, else a number that differs from run to run.
[[nodiscard]] std::uint64_t seed_of_this_run();

/// @brief The kind of device that ULTRA_TEST_DEVICE names, else the CPU: the same tests run on each
/// (cmake/UltraTests.cmake, ultra_test_on_devices).
[[nodiscard]] DeviceKind device_kind_of_tests();

/// @brief A new device of that kind. Where there is none, it says why and ends the program: the run is
/// skipped.
[[nodiscard]] Device device_of_tests();

/// @brief Draws in order from one seed.
class Random {
 public:
  /// @brief The same seed gives the same draws.
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// @brief An integer in [low, high], both ends included.
  [[nodiscard]] std::size_t between(std::size_t low, std::size_t high);

  /// @brief A real number in [low, high).
  [[nodiscard]] double uniform(double low, double high);

  /// @brief A standard normal number.
  [[nodiscard]] double normal();

  /// @brief One of the values.
  template <class T>
  [[nodiscard]] T pick(std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(between(0, values.size() - 1)));
  }

  /// @brief Puts values into a random order.
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[between(0, i - 1)]);
    }
  }

  /// @brief A contiguous tensor of normal numbers times `scale`.
  [[nodiscard]] Tensor tensor(const Device& device, const Shape& shape, DType dtype,
                              double scale = 1.0);

  /// @brief An i32 tensor of numbers in [0, bound).
  [[nodiscard]] Tensor tokens(const Device& device, const Shape& shape, std::size_t bound);

  /// @brief Sets every element of a contiguous tensor to a normal number times `scale`.
  void fill(const Tensor& tensor, double scale);

 private:
  std::mt19937_64 engine_;
};

/// @brief A fixture with a device and random draws; a failure prints the seed that repeats it.
class RandomTest : public ::testing::Test {
 protected:
  RandomTest();

  std::uint64_t seed = seed_of_this_run();  ///< what the failure prints
  Random random{seed};                      ///< the test's draws
  Device device = device_of_tests();        ///< with its own pool and tracker

 private:
  ::testing::ScopedTrace trace_;
};

/// Both dtypes that operations compute in, for tests that hold for each.
inline constexpr DType kFloatDTypes[] = {DType::kF32, DType::kF64};

/// The floating dtypes of two bytes, which operations read as f32 and round once.
inline constexpr DType kHalfDTypes[] = {DType::kBF16, DType::kF16};

}  // namespace ultra::test
