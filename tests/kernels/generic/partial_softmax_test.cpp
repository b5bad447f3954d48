// Covers: kernels/generic/partial_softmax.hpp
// A vocabulary in parts and keys in parts, on the checked emulator, against the whole of each.
#include <cmath>
#include <limits>

#include "kernels/generic/partial_softmax.hpp"
#include "kernels/generic/rows/rows.hpp"
#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace partial_softmax_test {

class PartialSoftmax : public PlainTest {};

constexpr std::size_t kRows = 6;
constexpr std::size_t kVocab = 71;
constexpr std::size_t kCut = 40;
constexpr std::size_t kColumns = 43;  // of each part; what is behind its tokens is padding

// The tokens [first, first + vocab) of the whole rows; the padding is never written.
template <typename T>
Checked<T> part_of(const std::vector<T>& whole, std::size_t first, std::size_t vocab) {
  std::vector<T> part(kRows * kColumns, std::numeric_limits<T>::quiet_NaN());
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < vocab; ++i) {
      part[row * kColumns + i] = whole[row * kVocab + first + i];
    }
  }
  return Checked<T>("part", part);
}

// What ranks do: both parts' numbers are brought together between the kernels.
template <typename T>
class TwoParts {
 public:
  TwoParts(const std::vector<T>& logits, const Checked<int>& targets)
      : low_(part_of(logits, 0, kCut)), high_(part_of(logits, kCut, kVocab - kCut)) {
    parts_ = {{kRows, kColumns, kCut, 0, target(low_), targets.data()},
              {kRows, kColumns, kVocab - kCut, kCut, target(high_), targets.data()}};
    const Checked<T> highest("highest", maxima());
    const Checked<T> sums("sums", exponentials(highest));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Checked<double> loss("loss", std::vector<double>{1.0});
      Checked<double> scratch("scratch", kRows);
      partial_cross_entropy<kChecked>(parts_[i],
                                      {.highest = source(highest),
                                       .sums = source(sums),
                                       .normalizer = 2.0,
                                       .loss = loss.data(),
                                       .write = i == 0 ? Write::kOverwrite : Write::kAdd,
                                       .scratch = scratch.data()},
                                      {});
      losses.push_back(loss.download().front());
    }
  }

  [[nodiscard]] T gradient(std::size_t row, std::size_t token) const {
    return token < kCut ? low_.download()[row * kColumns + token]
                        : high_.download()[row * kColumns + token - kCut];
  }

  std::vector<double> losses;

 private:
  std::vector<T> maxima() {
    std::vector<T> all(kRows, -std::numeric_limits<T>::infinity());
    for (const PartOfLogits& part : parts_) {
      Checked<T> own("own", kRows);
      highest_of_rows<kChecked>(part, target(own), {});
      const std::vector<T> found = own.download();
      for (std::size_t row = 0; row < kRows; ++row) {
        all[row] = std::max(all[row], found[row]);
      }
    }
    return all;
  }

  std::vector<T> exponentials(const Checked<T>& highest) {
    std::vector<T> all(2 * kRows, T(0));
    for (const PartOfLogits& part : parts_) {
      Checked<T> own("own", 2 * kRows);
      exponentials_of_rows<kChecked>(part, source(highest), target(own), {});
      const std::vector<T> found = own.download();
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] += found[i];
      }
    }
    return all;
  }

  Checked<T> low_;
  Checked<T> high_;
  std::vector<PartOfLogits> parts_;
};

TEST_F(PartialSoftmax, AVocabularyInPartsHasTheLossOfTheWhole) {
  const std::vector<double> logits = eighths<double>("logits", kRows * kVocab).download();
  const Checked<int> targets("targets", std::vector<int>{0, 70, -1, 39, 40, 12});
  const TwoParts<double> parts(logits, targets);
  Checked<double> whole("whole", logits);
  Checked<double> loss("loss", 1);
  Checked<double> scratch("scratch", kRows);
  cross_entropy<kChecked>({kRows, kVocab, target(whole), targets.data(), 2.0, loss.data(),
                           Write::kOverwrite, scratch.data()},
                          {});
  const double expected = loss.download().front();
  EXPECT_NEAR(parts.losses.front(), expected, 1e-13);
  EXPECT_NEAR(parts.losses.back(), 1.0 + expected, 1e-13) << "added to what was there";
  const std::vector<double> gradients = whole.download();
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t token = 0; token < kVocab; ++token) {
      ASSERT_NEAR(parts.gradient(row, token), gradients[row * kVocab + token], 1e-15);
    }
  }
}

TEST_F(PartialSoftmax, APartWithoutTokensHasNothing) {
  Checked<float> logits("logits", std::vector<float>(kRows * 3, 1.0F));
  const Checked<int> targets("targets", std::vector<int>(kRows, 2));
  const PartOfLogits none{kRows, 3, 0, 71, target(logits), targets.data()};
  Checked<float> highest("highest", kRows);
  Checked<float> sums("sums", 2 * kRows);
  highest_of_rows<kChecked>(none, target(highest), {});
  EXPECT_EQ(highest.download(), std::vector<float>(kRows, -std::numeric_limits<float>::infinity()));
  const Checked<float> of_all("of_all", std::vector<float>(kRows, 1.0F));
  exponentials_of_rows<kChecked>(none, source(of_all), target(sums), {});
  EXPECT_EQ(sums.download(), std::vector<float>(2 * kRows, 0.0F));
}

TEST_F(PartialSoftmax, LogitsOfAnySizeDoNotOverflow) {
  std::vector<float> logits(kRows * kVocab, -3e4F);
  for (std::size_t row = 0; row < kRows; ++row) {
    logits[row * kVocab + 60] = 3e4F;
  }
  const Checked<int> targets("targets", std::vector<int>(kRows, 60));
  const TwoParts<float> parts(logits, targets);
  EXPECT_EQ(parts.losses.front(), 0.0);
  EXPECT_EQ(parts.gradient(0, 3), 0.0F);
}

// Two keys with values 1 and 0 and the same score: half of each; nothing seen changes nothing.
TEST_F(PartialSoftmax, PartsOfAttentionAreMerged) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  constexpr std::size_t kDim = 35;
  // batch 1, seq 2, heads 2: the output is [seq, heads, dim], log_sum_exp [heads, seq].
  Checked<double> output("output", std::vector<double>(4 * kDim, 1.0));
  Checked<double> log_sum("log_sum", std::vector<double>{0.0, 700.0, 0.0, kNothing});
  std::vector<double> others(4 * kDim, 0.0);
  std::fill(others.end() - static_cast<std::ptrdiff_t>(kDim), others.end(), 0.25);
  const Checked<double> part("part", others);
  const Checked<double> part_sum("part_sum", std::vector<double>{0.0, kNothing, 800.0, 3.0});
  merge_attention<kChecked>(
      {1, 2, 2, kDim, target(output), target(log_sum), source(part), source(part_sum)}, {});
  const std::vector<double> merged = output.download();
  const std::vector<double> sums = log_sum.download();
  EXPECT_NEAR(merged[0], 0.5, 1e-15);  // head 0, query 0
  EXPECT_NEAR(sums[0], std::log(2.0), 1e-15);
  EXPECT_EQ(merged[2 * kDim + kDim - 1], 1.0);  // head 0, query 1: the part saw nothing
  EXPECT_EQ(sums[1], 700.0);
  EXPECT_EQ(merged[kDim], 0.0);  // head 1, query 0: e^-800 is nothing beside it
  EXPECT_EQ(sums[2], 800.0);
  EXPECT_EQ(merged[3 * kDim], 0.25);  // head 1, query 1: only the part saw something
  EXPECT_EQ(sums[3], 3.0);
}

TEST_F(PartialSoftmax, WhoHasSeenNothingYetStaysSo) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  Checked<float> output("output", std::vector<float>(3, 0.0F));
  Checked<float> log_sum("log_sum", std::vector<float>{kNothing});
  const Checked<float> part("part", std::vector<float>(3, 0.0F));
  const Checked<float> part_sum("part_sum", std::vector<float>{kNothing});
  merge_attention<kChecked>(
      {1, 1, 1, 3, target(output), target(log_sum), source(part), source(part_sum)}, {});
  EXPECT_EQ(output.download(), std::vector<float>(3, 0.0F));
  EXPECT_EQ(log_sum.download().front(), kNothing);
}

}  // namespace partial_softmax_test
}  // namespace ultra::kernels::generic::test
