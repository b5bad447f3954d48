// Covers: common/ops/sums/exact_sum.hpp
// Covers: common/ops/sums/tree_sum.hpp

#include "common/ops/sums/sum_tree.hpp"

#include <bit>
#include <cstring>

#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/sums/tree_sum.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// The sum by the tree's definition from above: the left half is the largest power of two of leaves.
template <class T>
T by_definition(std::span<const T> x, std::size_t leaf) {
  if (x.size() <= leaf) {
    T sum = 0;
    for (const T each : x) sum += each;
    return sum;
  }
  const std::size_t leaves = (x.size() + leaf - 1) / leaf;
  std::size_t left = 1;
  while (2 * left < leaves) left *= 2;
  return by_definition(x.first(left * leaf), leaf) + by_definition(x.subspan(left * leaf), leaf);
}

class SumTreeTest : public test::RandomTest {
 protected:
  /// Numbers of very different sizes, whose sums are not exact.
  template <class T>
  std::vector<T> numbers(std::size_t count) {
    std::vector<T> drawn(count);
    for (T& x : drawn) {
      x = static_cast<T>(std::ldexp(random.normal(), static_cast<int>(random.between(0, 20)) - 10));
    }
    return drawn;
  }

  /// Sums parts of `size` elements, each alone, and joins them by place.
  template <class T>
  T joined(const SumTree& tree, std::span<const T> x, std::size_t size) {
    NodeCounter<T, std::plus<T>> counter{std::plus<T>()};
    for (; !x.empty(); x = x.subspan(std::min(size, x.size()))) {
      counter.add(tree.sum(x.first(std::min(size, x.size()))));
    }
    return counter.take();
  }

  template <class T>
  void expect_same_bits_for_all_nodes() {
    const SumTree tree = SumTree::of_axis(random.between(1, 400));
    const auto x = numbers<T>(tree.leaf() * random.between(1, 300) + random.between(0, 3));
    const std::span<const T> axis = x;
    const T whole = tree.sum(axis);
    EXPECT_TRUE(same_bits(whole, by_definition(axis, tree.leaf())));
    for (std::size_t node = tree.leaf(); node < 2 * x.size(); node *= 2) {
      EXPECT_TRUE(same_bits(joined(tree, axis, node), whole))
          << x.size() << " elements in nodes of " << node << ", leaves of " << tree.leaf();
    }
  }
};

TEST_F(SumTreeTest, HalvesAnAxisDownToItsLeaf) {
  const std::pair<std::size_t, std::size_t> leaves[] = {{1, 1},    {16, 16},   {17, 17},  {32, 16},
                                                        {34, 17},  {96, 12},   {352, 11}, {128, 16},
                                                        {768, 12}, {11008, 43}};
  for (const auto& [axis, leaf] : leaves) EXPECT_EQ(SumTree::of_axis(axis).leaf(), leaf) << axis;
  EXPECT_EQ(SumTree::of_axis(352).leaves(352), 32);
  test::expect_message<ShapeError>([] { static_cast<void>(SumTree::of_axis(0)); }, {"0 elements"});
}

TEST_F(SumTreeTest, GivesTheSameBitsForAllSplitsIntoNodes) {
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    expect_same_bits_for_all_nodes<float>();
    expect_same_bits_for_all_nodes<double>();
  }
}

// The tests above can tell: parts that are no nodes, of the same numbers, give other bits.
TEST_F(SumTreeTest, GivesOtherBitsForPartsThatAreNoNodes) {
  const SumTree tree = SumTree::of_axis(16);
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const auto x = numbers<float>(std::size_t{16} * 12);
    const std::span<const float> axis = x;
    if (!same_bits(joined(tree, axis, 16 * 3), tree.sum(axis))) ++different;
  }
  EXPECT_GT(different, 0);
  EXPECT_THAT(tree.why_not(16 * 12, 4), testing::HasSubstr("found 4 parts of 48 elements"));
}

TEST_F(SumTreeTest, SaysWhichPartsAreNodes) {
  const SumTree tree = SumTree::of_axis(352);  // leaves of 11
  for (const std::size_t parts : {1U, 2U, 4U, 8U, 16U, 32U})
    EXPECT_EQ(tree.why_not(352, parts), "");
  for (const std::size_t parts : {1U, 3U, 6U, 12U, 24U}) EXPECT_EQ(tree.why_not(3 * 88, parts), "");
  EXPECT_EQ(tree.why_not(352, 64),
            "its sum is a tree over blocks of 11 elements, and each part must be 1, 2, 4, 8, ... "
            "whole blocks; found 64 parts of 352 / 64 elements");
  EXPECT_NE(tree.why_not(3 * 88, 2), "") << "12 blocks each";
  EXPECT_NE(tree.why_not(352, 0), "");
}

TEST_F(SumTreeTest, JoinsOnceLessThanItHasNodesAndKeepsOneForEachBit) {
  std::size_t joins = 0;
  const auto deeper = [&](std::size_t left, std::size_t right) {
    ++joins;
    return std::max(left, right) + 1;
  };
  for (std::size_t nodes = 1; nodes <= 70; ++nodes) {
    joins = 0;
    NodeCounter<std::size_t, decltype(deeper)> counter(deeper);
    for (std::size_t i = 1; i <= nodes; ++i) {
      counter.add(0);
      EXPECT_EQ(counter.kept(), static_cast<std::size_t>(std::popcount(i)));
    }
    EXPECT_EQ(counter.count(), nodes);
    EXPECT_EQ(static_cast<double>(counter.take()), std::ceil(std::log2(nodes))) << nodes;
    EXPECT_EQ(static_cast<double>(SumTree::of_axis(16).depth(16 * nodes)),
              std::ceil(std::log2(nodes)));
    EXPECT_EQ(joins, nodes - 1);
    EXPECT_EQ(counter.count(), 0);
  }
  NodeCounter<int, std::plus<>> none{std::plus<>()};
  EXPECT_THROW(static_cast<void>(none.take()), InternalError);
}

// A rank that has none of a token's terms adds 0: that must not turn a -0 of others into +0.
TEST_F(SumTreeTest, HasNoNegativeZero) {
  const SumTree tree = SumTree::of_axis(16);
  const std::vector<float> zeros(100, -0.0F);
  EXPECT_FALSE(std::signbit(tree.sum(std::span(zeros))));
  EXPECT_EQ(tree.sum(std::span(zeros).first(0)), 0.0F);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double exact(std::initializer_list<double> terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

class ExactSumTest : public test::RandomTest {
 protected:
  /// Whole numbers of up to 53 bits times a power of two: with their sum, which i64 has.
  std::vector<double> whole_numbers(int exponent, std::int64_t& total) {
    std::vector<double> terms(random.between(1, 300));
    for (double& term : terms) {
      const int bits = static_cast<int>(random.between(1, 53));
      const auto number =
          static_cast<std::int64_t>(random.uniform(-1.0, 1.0) * std::ldexp(1.0, bits));
      total += number;
      term = std::ldexp(static_cast<double>(number), exponent);
    }
    return terms;
  }
};

TEST_F(ExactSumTest, IsTheSumOfWholeNumbersWhereverTheirPointIs) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const int exponent = static_cast<int>(random.between(0, 490)) - 280;
    std::int64_t total = 0;
    ExactSum sum;
    for (const double term : whole_numbers(exponent, total)) sum.add(term);
    const double expected = std::ldexp(static_cast<double>(total), exponent);
    EXPECT_NEAR(sum.value(), expected, std::abs(expected) * 0x1p-52) << "times 2^" << exponent;
  }
}

TEST_F(ExactSumTest, LosesNothingBesideLargerTerms) {
  EXPECT_EQ(exact({1e70, 1.0, -1e70}), 1.0);
  EXPECT_EQ(exact({0x1p-200, 1.0, 0x1p200, -1.0, -0x1p200}), 0x1p-200);
  EXPECT_EQ(exact({-3.0, 1.0}), -2.0);
  EXPECT_EQ(exact({}), 0.0);
  EXPECT_EQ(exact({0x1p-288, 0x1p-288}), 0x1p-287) << "its last bit";
  EXPECT_EQ(exact({0x1.8p-288}), 0x1p-288) << "what is behind that is cut off";
}

TEST_F(ExactSumTest, OfWhatHasNoPlaceIsNoNumber) {
  EXPECT_EQ(exact({0x1.fffffffffffffp287}), 0x1.fffffffffffffp287);
  for (const double term : {0x1p288, -0x1p288, kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_TRUE(std::isnan(exact({1.0, term, 2.0}))) << term;
  }
}

/// The same bits in any order, in any parts, added up as arrays of digits: as an all-reduce does.
TEST_F(ExactSumTest, HasTheSameBitsInAnyOrderAndInAnyParts) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    std::vector<double> terms(random.between(1, 200));
    for (double& term : terms) {
      term = std::ldexp(random.normal(), static_cast<int>(random.between(0, 200)) - 100);
    }
    ExactSum in_order;
    for (const double term : terms) in_order.add(term);
    std::vector<double> digits(ExactSum::kDigits, 0.0);
    std::ranges::sort(terms);
    while (!terms.empty()) {
      ExactSum part;
      for (std::size_t count = random.between(1, terms.size()); count > 0; --count) {
        part.add(terms.back());
        terms.pop_back();
      }
      part.put(digits, Write::kAccumulate);
    }
    const std::vector<double> rounded = rounded_sums(digits, ExactSum::kDigits);
    ASSERT_EQ(rounded.size(), 1U);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(rounded[0]),
              std::bit_cast<std::uint64_t>(in_order.value()));
  }
}

TEST_F(ExactSumTest, TakesOneNumberWhereSumsFollowNoTrees) {
  EXPECT_EQ(digits_of_sums(Device::cpu()), 1U);
  EXPECT_FALSE(sums_by_trees(Device::create(DeviceKind::kEmulated, 0, MatmulLibrary::kOurs)));
  EXPECT_TRUE(sums_by_trees(Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kTrees)));
  EXPECT_TRUE(sums_by_trees(Device::create(DeviceKind::kEmulated, 0, MatmulLibrary::kTrees)));
  EXPECT_EQ(rounded_sums(std::vector{1.5, 2.5}, 1), (std::vector{1.5, 2.5}));
}

class TreeSumTest : public test::RandomTest {};

/// Neighbours first, by halves: what has no neighbour is alone on the right.
float by_halves(const std::function<float(std::size_t)>& at, std::size_t begin, std::size_t count) {
  if (count == 1) return at(begin);
  const std::size_t left = std::bit_ceil(count) / 2;
  return by_halves(at, begin, left) + by_halves(at, begin + left, count - left);
}

TEST_F(TreeSumTest, JoinsNeighboursAlongAnyDimension) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::size_t rows = random.between(1, 4);
    const std::size_t places = random.between(1, 20);
    const std::size_t columns = random.between(1, 5);
    const Tensor x = random.tensor(device, {rows, places, columns}, dtype);
    const std::vector<double> before = x.to_vector();
    const Tensor sum = tree_sum(x, 1);
    EXPECT_EQ(sum.shape(), (Shape{rows, 1, columns}));
    EXPECT_EQ(sum.dtype(), DType::kF32) << "not rounded to the type of the terms";
    EXPECT_EQ(x.to_vector(), before) << "the terms stay as they are";
    const std::vector<double> sums = sum.to_vector();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::size_t first = i / columns * places * columns + i % columns;
      const auto at = [&](std::size_t place) {
        return static_cast<float>(before[first + place * columns]);
      };
      EXPECT_EQ(static_cast<float>(sums[i]), by_halves(at, 0, places)) << places << " places";
    }
  }
}

}  // namespace
}  // namespace ultra::ops
