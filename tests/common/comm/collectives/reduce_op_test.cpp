#include "common/comm/collectives/reduce_op.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  return DType::kI32;
}

template <class T>
T plain(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMax) return std::max(a, b);
  if (op == ReduceOp::kMin) return std::min(a, b);
  return a + b;
}

template <class T>
class ReduceOpTest : public test::RandomTest {
 protected:
  std::vector<T> draw(std::size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(this->random.uniform(-1000, 1000));
    return values;
  }

  /// Around the size of a tile, and whatever else there is.
  std::size_t draw_count() {
    return this->random.template pick<std::size_t>(
        {0, 1, 3, 2047, 2048, 2049, 4099, this->random.between(1, 9000)});
  }

  static Combine how(ReduceOp op) { return {.dtype = dtype_of<T>(), .op = op}; }
};

using Types = ::testing::Types<float, double, std::int32_t>;
TYPED_TEST_SUITE(ReduceOpTest, Types);

TYPED_TEST(ReduceOpTest, CombineIsThePlainLoop) {
  using T = TypeParam;
  for (const ReduceOp op : kOps) {
    const std::vector<T> from = this->draw(this->draw_count());
    const std::vector<T> before = this->draw(from.size());
    std::vector<T> into = before;
    combine(this->how(op), into.data(), from.data(), from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(into[i], plain(op, before[i], from[i])) << to_string(op) << " of element " << i;
    }
  }
}

TYPED_TEST(ReduceOpTest, CombineTouchesNothingElse) {
  using T = TypeParam;
  const std::vector<T> from(8, T{1});
  std::vector<T> into(8, T{5});
  combine(this->how(ReduceOp::kSum), into.data() + 2, from.data(), 3);
  EXPECT_EQ(into, (std::vector<T>{5, 5, 6, 6, 6, 5, 5, 5}));
}

TYPED_TEST(ReduceOpTest, CombineAllGoesThroughTheSourcesInOrder) {
  using T = TypeParam;
  for (const ReduceOp op : kOps) {
    const std::size_t count = this->draw_count();
    const auto sources = static_cast<int>(this->random.between(1, 6));
    std::vector<std::vector<T>> from;
    std::vector<const void*> pointers;
    for (int s = 0; s < sources; ++s) from.push_back(this->draw(count));
    for (const auto& source : from) pointers.push_back(source.data());
    std::vector<T> one(count);
    std::vector<T> other(count);
    void* const targets[] = {one.data(), other.data()};
    combine_all(this->how(op), targets, pointers, count);
    for (std::size_t i = 0; i < count; ++i) {
      T expected = from[0][i];
      for (std::size_t s = 1; s < from.size(); ++s) expected = plain(op, expected, from[s][i]);
      if (op == ReduceOp::kAverage) expected = expected / static_cast<T>(sources);
      ASSERT_EQ(one[i], expected) << to_string(op) << ", element " << i;
      ASSERT_EQ(other[i], expected);
    }
  }
}

TYPED_TEST(ReduceOpTest, CombineAllMayWriteItsOwnSources) {
  using T = TypeParam;
  const std::size_t count = this->draw_count();
  std::vector<std::vector<T>> data;
  for (int s = 0; s < 3; ++s) data.push_back(this->draw(count));
  std::vector<T> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = (data[0][i] + data[1][i]) + data[2][i];
  const std::vector<const void*> from{data[0].data(), data[1].data(), data[2].data()};
  const std::vector<void*> into{data[2].data(), data[0].data(), data[1].data()};
  combine_all(this->how(ReduceOp::kSum), into, from, count);
  for (const auto& result : data) EXPECT_EQ(result, expected);
}

TYPED_TEST(ReduceOpTest, DivideDividesEachElement) {
  using T = TypeParam;
  std::vector<T> data = this->draw(101);
  const std::vector<T> before = data;
  divide(dtype_of<T>(), data.data(), data.size(), 3);
  for (std::size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i], before[i] / T{3});
  divide(dtype_of<T>(), nullptr, 0, 3);
}

TEST(ReduceOp, TheOrderOfASumIsTheSourcesOrder) {
  // In f32, (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1.
  const float large = 1e8F;
  const float one = 1.0F;
  const float negative = -1e8F;
  float result = -1;
  void* const target = &result;
  const void* const first[] = {&large, &one, &negative};
  combine_all({DType::kF32, ReduceOp::kSum}, std::span(&target, 1), first, 1);
  EXPECT_EQ(result, 0.0F);
  const void* const second[] = {&large, &negative, &one};
  combine_all({DType::kF32, ReduceOp::kSum}, std::span(&target, 1), second, 1);
  EXPECT_EQ(result, 1.0F);
}

TEST(ReduceOp, NeedsASource) {
  float result = 0;
  void* const target = &result;
  EXPECT_THROW(combine_all({DType::kF32, ReduceOp::kSum}, std::span(&target, 1), {}, 1),
               InternalError);
}

/// Numbers of two bytes: what is expected is worked out in f32 and rounded once.
template <class T>
class HalfReduceOpTest : public test::RandomTest {
 protected:
  std::vector<T> draw(std::size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = round_to<T>(static_cast<float>(random.normal()));
    return values;
  }
  static Combine how(ReduceOp op) { return {.dtype = ultra::dtype_of<T>(), .op = op}; }
};

using HalfTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfReduceOpTest, HalfTypes);

TYPED_TEST(HalfReduceOpTest, CombineRoundsEachResultOnce) {
  using T = TypeParam;
  for (const ReduceOp op : kOps) {
    const std::vector<T> from = this->draw(this->random.between(1, 5000));
    const std::vector<T> before = this->draw(from.size());
    std::vector<T> into = before;
    combine(this->how(op), into.data(), from.data(), from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const float exact = plain(op, static_cast<float>(before[i]), static_cast<float>(from[i]));
      ASSERT_EQ(into[i].bits, round_to<T>(exact).bits) << to_string(op) << " of element " << i;
    }
  }
}

TYPED_TEST(HalfReduceOpTest, CombineAllRoundsOnceHoweverManySourcesThereAre) {
  using T = TypeParam;
  const std::size_t count = this->random.between(1, 5000);
  std::vector<std::vector<T>> from;
  std::vector<const void*> pointers;
  for (int s = 0; s < 5; ++s) from.push_back(this->draw(count));
  for (const auto& source : from) pointers.push_back(source.data());
  for (const ReduceOp op : kOps) {
    std::vector<T> result(count);
    void* const target = result.data();
    combine_all(this->how(op), std::span(&target, 1), pointers, count);
    for (std::size_t i = 0; i < count; ++i) {
      auto exact = static_cast<float>(from[0][i]);
      for (std::size_t s = 1; s < from.size(); ++s) {
        exact = plain(op, exact, static_cast<float>(from[s][i]));
      }
      if (op == ReduceOp::kAverage) exact /= 5.0F;
      ASSERT_EQ(result[i].bits, round_to<T>(exact).bits) << to_string(op) << " of element " << i;
    }
  }
}

TYPED_TEST(HalfReduceOpTest, DivideRoundsOnce) {
  using T = TypeParam;
  std::vector<T> data = this->draw(3000);
  const std::vector<T> before = data;
  divide(ultra::dtype_of<T>(), data.data(), data.size(), 3);
  for (std::size_t i = 0; i < data.size(); ++i) {
    ASSERT_EQ(data[i].bits, round_to<T>(static_cast<float>(before[i]) / 3.0F).bits) << i;
  }
}

}  // namespace
}  // namespace ultra::comm
