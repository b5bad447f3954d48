#pragma once
/// @file
/// What nearly every test uses: GoogleTest and its matchers, the small headers of the standard
/// library, errors, comparisons, random draws, and tensors of one value.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra {

using test::all_near;
using test::count_of;
using test::message_of;
using test::rounding_bound;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

namespace test {

/// @brief A contiguous tensor of one value.
[[nodiscard]] inline Tensor filled(const Device& device, const Shape& shape, DType dtype,
                                   double value) {
  const Tensor tensor = Tensor::empty(device, shape, dtype);
  tensor.fill(value);
  return tensor;
}

}  // namespace test
}  // namespace ultra
