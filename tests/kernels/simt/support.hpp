#pragma once
// What the emulator's tests share.

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/simt/buffer.hpp"
#include "kernels/simt/error.hpp"
#include "kernels/simt/report.hpp"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::simt::test {

// Small whole numbers, of which sums and products are exact: 0 to 6 in an order without symmetry.
template <typename T>
std::vector<T> whole_numbers(int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<T>((i * 5 + i / 7) % 7));
  }
  return values;
}

template <typename T>
const T& at(const std::vector<T>& values, int index) {
  return values.at(static_cast<std::size_t>(index));
}

// Runs `multiply(a, b, c, n)` and compares every element with a loop's.
template <Executor executor, typename Multiply>
void expect_matmul(int n, const Multiply& multiply) {
  const std::vector<float> left = whole_numbers<float>(n * n);
  const std::vector<float> right(left.rbegin(), left.rend());
  const Buffer<float, executor> a("a", left);
  const Buffer<float, executor> b("b", right);
  Buffer<float, executor> c("c", left.size());
  multiply(a.data(), b.data(), c.data(), n);
  const std::vector<float> result = c.download();
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) {
      float expected = 0.0F;
      for (int k = 0; k < n; ++k) {
        expected += at(left, row * n + k) * at(right, k * n + column);
      }
      ASSERT_EQ(at(result, row * n + column), expected) << row << ", " << column;
    }
  }
}

// What launch() counts.
template <typename... Parameters, typename... Arguments>
Report recorded(void (*kernel)(Parameters...), Config config, Arguments&&... arguments) {
  Report report;
  config.queue.report = &report;
  launch(kernel, config, std::forward<Arguments>(arguments)...);
  return report;
}

// One block of `threads` threads.
inline Config one_block(unsigned threads, std::size_t shared_bytes = 0) {
  return {.name = "kernel", .block = {.x = threads}, .shared_bytes = shared_bytes};
}

// A line as messages name it.
inline std::string line_text(int line) { return "_test.cpp:" + std::to_string(line) + ":"; }

// Runs `action`, which must throw a SimtError of this kind whose message has all these parts.
template <typename Action>
void expect_fault(Fault fault, const std::vector<std::string>& parts, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "no fault was found";
  } catch (const SimtError& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

}  // namespace ultra::simt::test
