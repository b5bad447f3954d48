#pragma once
/// @file
/// Whether a kernel's outputs are right: compared with f64, each within a tolerance that its
/// rounding errors cannot exceed.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ultra::ladders {

/// @brief Half the distance from 1 to the next float: the largest relative error of one operation.
inline constexpr double kFloatRounding = 0x1p-24;

/// @brief The largest relative error of rounding to bf16: half the distance from 1 to 1 + 2^-7.
inline constexpr double kBf16Rounding = 0x1p-8;

/// @brief The largest relative error of `count` operations in fp32, one after the other: gamma_n =
/// n u / (1 - n u). Source: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section
/// 3.1.
[[nodiscard]] constexpr double rounding_of(double count) {
  return count * kFloatRounding / (1.0 - count * kFloatRounding);
}

/// @brief A sum in f64 of what a kernel adds up in fp32.
struct ExactSum {
  /// @brief The sum.
  double value = 0.0;
  /// @brief The sum of its terms' magnitudes, which a kernel's error is proportional to.
  double magnitude = 0.0;

  /// @brief Adds a term.
  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};

/// @brief The worst of the outputs that were compared.
class Verdict {
 public:
  /// @brief Compares one output. NaN, which is what outputs hold before, is infinitely wrong unless
  /// expected.
  /// @param tolerance  the most that a right kernel can be off.
  void compare(const char* output, std::size_t index, double found, double expected,
               double tolerance);

  /// @brief Adds the outputs that another one compared; their indices are that one's.
  void add(const Verdict& other);

  /// @brief Whether every output is within its tolerance, and there was one.
  [[nodiscard]] bool is_right() const { return compared_ > 0 && worst_ <= 1.0; }
  /// @brief The largest error in units of its tolerance.
  [[nodiscard]] double worst() const { return worst_; }
  /// @brief How many outputs were compared.
  [[nodiscard]] std::size_t compared() const { return compared_; }
  /// @brief The worst output in words: "c[17] is 3.5, expected 3.25 within 1e-05".
  [[nodiscard]] std::string to_text() const;

 private:
  std::size_t compared_ = 0;
  double worst_ = 0.0;
  const char* output_ = "";
  std::size_t index_ = 0;
  double found_ = 0.0;
  double expected_ = 0.0;
  double tolerance_ = 0.0;
};

/// @brief Which of `count` outputs to compare: all when they are at most `most`, else `most` drawn
/// at random, the first and the last always among them.
[[nodiscard]] std::vector<std::size_t> sample(std::size_t count, std::size_t most,
                                              std::uint64_t seed);

}  // namespace ultra::ladders
