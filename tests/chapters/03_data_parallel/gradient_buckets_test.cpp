// Gradients in buckets: where they stand, and who holds the memory when.

#include "chapters/03_data_parallel/bucketed_gradients.hpp"

#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using enum MemoryCategory;
using test::make_gradient;
using test::Replica;

class GradientBucketsTest : public ultra::test::RandomTest {
 protected:
  GradientBucketsTest() {
    for (const nn::Parameter* parameter : parameters()) counts.push_back(parameter->count());
    std::size_t largest = 0;
    for (const std::size_t count : counts) largest = std::max(largest, count);
    assigned = assign_buckets(counts, random.between(1, 2 * largest));
  }

  [[nodiscard]] const std::vector<nn::Parameter*>& parameters() const {
    return replica->model.parameters();
  }
  [[nodiscard]] std::size_t gradient_bytes() const {
    return replica->device.memory().current()[kGradients];
  }
  [[nodiscard]] static std::size_t bytes_of(const Bucket& bucket) { return 8 * bucket.count; }

  /// Gradient p is p + 1 everywhere.
  void make_all() {
    for (std::size_t p = counts.size(); p-- > 0;) make_gradient(*parameters()[p], number(p));
  }
  static double number(std::size_t p) { return static_cast<double>(p + 1); }

  std::optional<Replica> replica{std::in_place, test::random_config(random), DType::kF64, seed};
  std::vector<std::size_t> counts;
  std::vector<Bucket> assigned;
};

TEST_F(GradientBucketsTest, GradientsStandOneAfterTheOtherInTheOrderOfTheBucket) {
  const GradientBuckets buckets(parameters(), assigned);
  make_all();
  for (std::size_t b = 0; b < assigned.size(); ++b) {
    std::vector<double> expected;
    for (const std::size_t p : assigned[b].parameters) {
      expected.insert(expected.end(), counts[p], number(p));
      EXPECT_TRUE(parameters()[p]->grad().shares_storage(buckets.flat(b)));
      EXPECT_EQ(parameters()[p]->grad().shape(), parameters()[p]->shape());
    }
    EXPECT_EQ(buckets.flat(b).to_vector(), expected) << "bucket " << b;
  }
}

TEST_F(GradientBucketsTest, MemoryIsTakenWithTheFirstGradientOfABucket) {
  const GradientBuckets buckets(parameters(), assigned);
  std::size_t expected = 0;
  EXPECT_EQ(gradient_bytes(), expected);
  for (const Bucket& bucket : assigned) {
    expected += bytes_of(bucket);
    for (const std::size_t p : bucket.parameters) {
      make_gradient(*parameters()[p], 1.0);
      EXPECT_EQ(gradient_bytes(), expected);
    }
  }
  EXPECT_EQ(expected, 8 * replica->model.parameter_count()) << "no second copy";
}

TEST_F(GradientBucketsTest, AfterReleaseTheGradientsAloneHoldTheMemory) {
  GradientBuckets buckets(parameters(), assigned);
  for (int step = 0; step < 3; ++step) {
    make_all();
    EXPECT_EQ(gradient_bytes(), 8 * replica->model.parameter_count());
    buckets.release();
    EXPECT_EQ(gradient_bytes(), 8 * replica->model.parameter_count());
    EXPECT_TRUE(
        ultra::test::all_equal(parameters()[0]->grad(), std::vector<double>(counts[0], number(0))));
    replica->model.drop_grads();
    EXPECT_EQ(gradient_bytes(), 0U);
  }
  EXPECT_EQ(replica->device.memory().peak(kGradients).bytes, 8 * replica->model.parameter_count());
}

TEST_F(GradientBucketsTest, AnAdditionStaysWhereTheGradientIs) {
  const GradientBuckets buckets(parameters(), assigned);
  make_all();
  const double* const place = parameters()[0]->grad().data<double>();
  parameters()[0]->add_grad([](const Tensor& grad, ops::Write write) {
    EXPECT_EQ(write, ops::Write::kAccumulate);
    grad.fill(7.0);
  });
  EXPECT_EQ(parameters()[0]->grad().data<double>(), place);
  EXPECT_EQ(buckets.flat(assigned.size() - 1).to_vector().back(), 7.0);
}

TEST_F(GradientBucketsTest, AGradientThatStandsElsewhereIsNamed) {
  const std::size_t last = counts.size() - 1;
  make_gradient(*parameters()[last], 1.0);
  const GradientBuckets buckets(parameters(), assigned);
  make_all();
  EXPECT_THAT(
      ultra::test::message_of<ConfigError>([&] { static_cast<void>(buckets.flat(0)); }),
      AllOf(HasSubstr(parameters()[last]->name()), HasSubstr("bucket 0"), HasSubstr("drop_grads")));
}

TEST_F(GradientBucketsTest, ABucketOfTheStepBeforeIsNotTakenForThisOne) {
  GradientBuckets buckets(parameters(), assigned);
  make_all();
  buckets.release();
  make_all();  // without drop_grads(): adds to the gradients of the step before
  EXPECT_THROW(static_cast<void>(buckets.flat(0)), ConfigError);
}

TEST_F(GradientBucketsTest, ContentsSayWhatStandsInABucket) {
  const GradientBuckets buckets(parameters(), assigned);
  for (std::size_t b = 0; b < assigned.size(); ++b) {
    const BucketContents contents = buckets.contents(b);
    EXPECT_EQ(contents.number, b);
    EXPECT_EQ(contents.label(), "bucket " + std::to_string(b));
    EXPECT_EQ(contents.count, assigned[b].count);
    ASSERT_EQ(contents.shapes.size(), assigned[b].parameters.size());
    for (std::size_t i = 0; i < contents.shapes.size(); ++i) {
      EXPECT_EQ(contents.shapes[i], parameters()[assigned[b].parameters[i]]->value().shape());
    }
  }
}

TEST_F(GradientBucketsTest, WhenItIsGoneParametersTakeMemoryOfTheirOwn) {
  {
    const GradientBuckets buckets(parameters(), assigned);
    make_all();
  }
  EXPECT_EQ(gradient_bytes(), 8 * replica->model.parameter_count()) << "the gradients stay";
  replica->model.drop_grads();
  make_gradient(*parameters()[0], 1.0);
  EXPECT_EQ(gradient_bytes(), 8 * counts[0]);
  EXPECT_EQ(parameters()[0]->grad().category(), kGradients);
}

TEST_F(GradientBucketsTest, TheModelMayBeGoneFirst) {
  GradientBuckets buckets(parameters(), assigned);
  make_all();
  replica.reset();
  buckets.release();
}

TEST_F(GradientBucketsTest, CountsMustFit) {
  assigned.back().count += 1;
  EXPECT_THROW(GradientBuckets(parameters(), assigned), InternalError);
}

}  // namespace
}  // namespace ultra::data_parallel
