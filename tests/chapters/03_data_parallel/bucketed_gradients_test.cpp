// Gradients in buckets on one replica: when exchanges start and end, and what is not allowed.

#include "chapters/03_data_parallel/bucketed_gradients.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

/// Notes what it is told, and doubles the bucket in finish().
class NotingExchange : public BucketExchange {
 public:
  NotingExchange(std::vector<std::string>& notes, std::string label)
      : notes_(notes), label_(std::move(label)) {}

  void start(const Tensor& bucket) override {
    notes_.push_back("start " + label_);
    bucket_ = bucket;
  }
  void finish() override {
    notes_.push_back("finish " + label_);
    for (double& element : bucket_.span<double>()) element *= 2;
    bucket_ = Tensor();
  }

 private:
  std::vector<std::string>& notes_;
  std::string label_;
  Tensor bucket_;
};

class BucketedGradients : public RandomTest {
 protected:
  std::unique_ptr<train::GradientExchange> buckets_of(std::size_t capacity, Flush flush) {
    return sum_in_buckets(parameters(), capacity, flush,
                          [this](const BucketContents& contents, const Device&, DType) {
                            return std::make_unique<NotingExchange>(notes, contents.label());
                          });
  }

  [[nodiscard]] const std::vector<nn::Parameter*>& parameters() const {
    return replica->model.parameters();
  }
  [[nodiscard]] std::size_t last() const { return parameters().size() - 1; }

  /// The gradients of parameters [first, end) in backward order.
  void make(std::size_t first, std::size_t end) {
    for (std::size_t p = end; p-- > first;) make_gradient(*parameters()[p], 1.0);
  }
  void make_all() { make(0, parameters().size()); }

  /// A step of one pass that makes all gradients.
  void step(train::GradientExchange& exchange) {
    Followed followed(replica->model, exchange);
    followed.begin(1);
    followed.pass([&] { make_all(); });
    followed.finish();
  }

  std::vector<std::string> notes;
  std::optional<Replica> replica{std::in_place, random_config(random), DType::kF64, seed};
};

TEST_F(BucketedGradients, StartDuringTheBackwardPass) {
  const auto buckets = buckets_of(0, Flush::kWhenReady);
  Followed followed(replica->model, *buckets);
  followed.begin(1);
  followed.pass([&] {
    make(last(), last() + 1);
    EXPECT_THAT(notes, ElementsAre("start bucket 0"));
    make(last() - 1, last());
    EXPECT_THAT(notes, ElementsAre("start bucket 0", "start bucket 1"));
    make(0, last() - 1);
    EXPECT_EQ(notes.size(), parameters().size());
  });
  notes.clear();
  followed.finish();
  ASSERT_EQ(notes.size(), parameters().size());
  EXPECT_EQ(notes.front(), "finish bucket 0");
  EXPECT_EQ(notes.back(), fmt::format("finish bucket {}", last()));
  for (const nn::Parameter* parameter : parameters()) {
    EXPECT_EQ(parameter->grad().to_vector().front(), 2.0) << "what the exchange left";
  }
}

TEST_F(BucketedGradients, OrTheyAllStartWhenItIsOver) {
  const auto buckets = buckets_of(0, Flush::kAfterBackward);
  Followed followed(replica->model, *buckets);
  followed.begin(1);
  followed.pass([&] { make_all(); });
  EXPECT_THAT(notes, IsEmpty());
  followed.finish();
  ASSERT_EQ(notes.size(), 2 * parameters().size());
  EXPECT_EQ(notes[0], "start bucket 0");
  EXPECT_EQ(notes[last()], fmt::format("start bucket {}", last()));
  EXPECT_EQ(notes[last() + 1], "finish bucket 0");
}

TEST_F(BucketedGradients, NothingStartsWhileGradientsAddUp) {
  const auto buckets = buckets_of(kEverything, Flush::kWhenReady);
  Followed followed(replica->model, *buckets);
  for (int step = 0; step < 3; ++step) {
    followed.begin(4);
    for (int pass = 0; pass < 3; ++pass) followed.pass([&] { make_all(); });
    EXPECT_THAT(notes, IsEmpty());
    followed.pass([&] {
      make(1, parameters().size());
      EXPECT_THAT(notes, IsEmpty());
      make(0, 1);
      EXPECT_THAT(notes, ElementsAre("start bucket 0"));
    });
    followed.finish();
    replica->model.drop_grads();
    notes.clear();
  }
}

TEST_F(BucketedGradients, AParameterWithoutGradientIsNamed) {
  const std::size_t missing = random.between(0, last());
  const auto expect_named = [&](train::GradientExchange& exchange) {
    Followed followed(replica->model, exchange);
    followed.begin(2);
    followed.pass([&] { make_all(); });  // does not count for the second
    EXPECT_THAT(message_of<ConfigError>([&] {
                  followed.pass([&] {
                    make(missing + 1, parameters().size());
                    make(0, missing);
                  });
                }),
                HasSubstr(parameters()[missing]->name() + " got no gradient in BW1"));
    replica->model.drop_grads();
  };
  for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
    expect_named(*buckets_of(random.between(0, 2000), flush));
  }
  run_ranks(1, [&](Communicator& dp) {
    expect_named(*collectives::sum_after_backward(parameters(), dp));
    EXPECT_EQ(dp.stats()[OpKind::kAllReduce].operations, 0U) << "before any message";
  });
}

TEST_F(BucketedGradients, AStepThatEndsTooEarlyIsABug) {
  for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
    const auto buckets = buckets_of(random.between(0, 2000), flush);
    EXPECT_THROW(buckets->finish(), InternalError) << "before the first step";
    buckets->step_begins();
    make_all();
    for (std::size_t p = 1; p < parameters().size(); ++p) buckets->completed(p);
    EXPECT_THROW(buckets->finish(), InternalError) << "before the first parameter is complete";
    buckets->completed(0);
    EXPECT_THROW(buckets->completed(0), InternalError) << "twice";
    EXPECT_NO_THROW(buckets->finish());
    replica->model.drop_grads();
  }
}

TEST_F(BucketedGradients, OfTheStepBeforeMustBeDropped) {
  const auto buckets = buckets_of(0, Flush::kWhenReady);
  step(*buckets);
  EXPECT_THAT(message_of<ConfigError>([&] { step(*buckets); }),
              AllOf(HasSubstr(parameters()[last()]->name()), HasSubstr("drop_grads")));
}

// Gradients in buckets: where they stand, and who holds the memory when.

using enum MemoryCategory;

class GradientBucketsTest : public BucketedGradients {
 protected:
  GradientBucketsTest() {
    for (const nn::Parameter* parameter : parameters()) counts.push_back(parameter->count());
    std::size_t largest = 0;
    for (const std::size_t count : counts) largest = std::max(largest, count);
    assigned = assign_buckets(counts, random.between(1, 2 * largest));
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

TEST_F(GradientBucketsTest, ContentsSayWhatStandsInABucket) {
  const GradientBuckets buckets(parameters(), assigned);
  for (std::size_t b = 0; b < assigned.size(); ++b) {
    std::vector<Shape> shapes;
    for (const std::size_t p : assigned[b].parameters) shapes.push_back(parameters()[p]->shape());
    EXPECT_EQ(buckets.contents(b).shapes, shapes);
    EXPECT_EQ(buckets.contents(b).count, assigned[b].count);
  }
}

TEST_F(GradientBucketsTest, AGradientThatStandsElsewhereIsNamed) {
  const std::size_t last = counts.size() - 1;
  make_gradient(*parameters()[last], 1.0);
  const GradientBuckets buckets(parameters(), assigned);
  make_all();
  EXPECT_THAT(
      message_of<ConfigError>([&] { static_cast<void>(buckets.flat(0)); }),
      AllOf(HasSubstr(parameters()[last]->name()), HasSubstr("bucket 0"), HasSubstr("drop_grads")));
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

}  // namespace
}  // namespace ultra::data_parallel
