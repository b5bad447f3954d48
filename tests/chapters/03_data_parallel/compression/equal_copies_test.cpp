#include "chapters/03_data_parallel/compression/equal_copies.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

class EqualCopies : public ultra::test::RandomTest {
 protected:
  /// A parameter of the model, with a copy on two ranks of tensor parallelism or without.
  void add(std::size_t count, bool copied) {
    kept_.push_back(std::make_unique<nn::Parameter>(
        nn::ParameterSpec{.name = "weight " + std::to_string(kept_.size()),
                          .global_shape = {count},
                          .shard = {},
                          .initializer = {}},
        device, DType::kF32, seed));
    if (copied) kept_.back()->replicate({.group = "tensor", .size = 2, .index = 0});
    parameters.push_back(kept_.back().get());
  }

  std::vector<nn::Parameter*> parameters;

 private:
  std::vector<std::unique_ptr<nn::Parameter>> kept_;
};

TEST_F(EqualCopies, StandInBucketsOfTheirOwn) {
  for (const bool copied : {true, false, true, false}) add(10, copied);
  const std::vector<Bucket> buckets = buckets_of_equal_copies(parameters, 100);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_THAT(buckets[0].parameters, ElementsAre(3, 1));
  EXPECT_THAT(buckets[1].parameters, ElementsAre(2, 0));
}

TEST_F(EqualCopies, WithoutCopiesTheBucketsAreThoseOfTheAssignment) {
  std::vector<std::size_t> counts;
  const std::size_t size = random.between(1, 12);
  for (std::size_t i = 0; i < size; ++i) {
    counts.push_back(random.between(1, 30));
    add(counts.back(), false);
  }
  const std::size_t capacity = random.between(0, 60);
  EXPECT_EQ(buckets_of_equal_copies(parameters, capacity), assign_buckets(counts, capacity));
}

TEST_F(EqualCopies, EveryParameterIsInOneBucketAndEarlierBucketsAreFullEarlier) {
  const std::size_t size = random.between(2, 20);
  for (std::size_t i = 0; i < size; ++i) add(random.between(1, 30), random.between(0, 1) == 1);
  std::vector<int> found(size);
  std::size_t full = size;
  for (const Bucket& bucket : buckets_of_equal_copies(parameters, random.between(0, 60))) {
    for (const std::size_t p : bucket.parameters) ++found[p];
    const std::size_t last = std::ranges::min(bucket.parameters);
    EXPECT_LT(last, full);
    full = last;
  }
  EXPECT_THAT(found, ::testing::Each(1));
}

}  // namespace
}  // namespace ultra::data_parallel
