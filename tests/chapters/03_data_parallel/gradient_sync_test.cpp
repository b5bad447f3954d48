// Synchronisation on one replica: when exchanges start and end, and what is not allowed.

#include "chapters/03_data_parallel/gradient_sync.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"

namespace ultra::data_parallel {
namespace {

using test::make_gradient;
using test::Replica;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ultra::test::message_of;

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

class GradientSyncTest : public ultra::test::RandomTest {
 protected:
  std::unique_ptr<GradientSync> sync(Flush flush, std::size_t capacity = 0) {
    return sync_in_buckets(replica->model, capacity, flush,
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

  std::vector<std::string> notes;
  std::optional<Replica> replica{std::in_place, test::random_config(random), DType::kF64, seed};
};

TEST_F(GradientSyncTest, BucketsStartDuringTheBackwardPass) {
  const auto buckets = sync(Flush::kWhenReady);
  buckets->begin(Pass::kSynchronize);
  make(last(), last() + 1);
  EXPECT_THAT(notes, ElementsAre("start bucket 0"));
  make(last() - 1, last());
  EXPECT_THAT(notes, ElementsAre("start bucket 0", "start bucket 1"));
  make(0, last() - 1);
  EXPECT_EQ(notes.size(), parameters().size());
  notes.clear();
  buckets->finish();
  ASSERT_EQ(notes.size(), parameters().size());
  EXPECT_EQ(notes.front(), "finish bucket 0");
  EXPECT_EQ(notes.back(), fmt::format("finish bucket {}", last()));
  for (const nn::Parameter* parameter : parameters()) {
    EXPECT_EQ(parameter->grad().to_vector().front(), 2.0) << "what the exchange left";
  }
}

TEST_F(GradientSyncTest, OrTheyAllStartWhenItIsOver) {
  const auto buckets = sync(Flush::kAfterBackward);
  buckets->begin(Pass::kSynchronize);
  make_all();
  EXPECT_THAT(notes, IsEmpty());
  buckets->finish();
  ASSERT_EQ(notes.size(), 2 * parameters().size());
  EXPECT_EQ(notes[0], "start bucket 0");
  EXPECT_EQ(notes[last()], fmt::format("start bucket {}", last()));
  EXPECT_EQ(notes[last() + 1], "finish bucket 0");
}

TEST_F(GradientSyncTest, NothingStartsWhileGradientsAddUp) {
  const auto buckets = sync(Flush::kWhenReady, test::kEverything);
  for (int step = 0; step < 3; ++step) {
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      buckets->begin(Pass::kAccumulate);
      make_all();
    }
    EXPECT_THAT(notes, IsEmpty());
    buckets->begin(Pass::kSynchronize);
    make(1, parameters().size());
    EXPECT_THAT(notes, IsEmpty());
    make(0, 1);
    EXPECT_THAT(notes, ElementsAre("start bucket 0"));
    buckets->finish();
    replica->model.drop_grads();
    notes.clear();
  }
}

TEST_F(GradientSyncTest, PassesOutsideOfStepsAreNotSent) {
  const auto buckets = sync(Flush::kWhenReady);
  make_all();
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(GradientSyncTest, AParameterWithoutGradientIsNamed) {
  const std::size_t missing = random.between(0, last());
  const auto expect_named = [&](GradientSync& sync) {
    sync.begin(Pass::kSynchronize);
    make(missing + 1, parameters().size());
    make(0, missing);
    EXPECT_THAT(message_of<ConfigError>([&] { sync.finish(); }),
                AllOf(HasSubstr(parameters()[missing]->name()), HasSubstr("no gradient")));
    replica->model.drop_grads();
  };
  for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
    expect_named(*sync(flush, random.between(0, 2000)));
  }
  run_ranks(1, [&](Communicator& dp) {
    expect_named(*sync_after_backward(replica->model, dp));
    EXPECT_EQ(dp.stats()[OpKind::kAllReduce].operations, 0U) << "before any message";
  });
}

TEST_F(GradientSyncTest, AGradientOfAnEarlierMicroBatchDoesNotCountForTheLast) {
  const auto buckets = sync(Flush::kWhenReady);
  buckets->begin(Pass::kAccumulate);
  make_all();
  buckets->begin(Pass::kSynchronize);
  make(1, parameters().size());
  EXPECT_THAT(message_of<ConfigError>([&] { buckets->finish(); }),
              HasSubstr(parameters()[0]->name()));
}

TEST_F(GradientSyncTest, AParameterThatIsUsedTwiceIsNamed) {
  const auto buckets = sync(Flush::kWhenReady, random.between(0, 2000));
  buckets->begin(Pass::kSynchronize);
  make(last(), last() + 1);
  EXPECT_THAT(message_of<ConfigError>([&] { make(last(), last() + 1); }),
              AllOf(HasSubstr(parameters()[last()]->name()), HasSubstr("two gradients")));
}

TEST_F(GradientSyncTest, GradientsOfTheStepBeforeMustBeDropped) {
  const auto buckets = sync(Flush::kWhenReady);
  buckets->begin(Pass::kSynchronize);
  make_all();
  buckets->finish();
  buckets->begin(Pass::kSynchronize);
  EXPECT_THAT(message_of<ConfigError>([&] { make_all(); }),
              AllOf(HasSubstr(parameters()[last()]->name()), HasSubstr("drop_grads")));
}

TEST_F(GradientSyncTest, CallsMustComeInTheirOrder) {
  run_ranks(1, [&](Communicator& dp) {
    for (const test::SyncWay& way : test::all_ways(dp)) {
      SCOPED_TRACE(way.name);
      replica->model.drop_grads();
      const auto sync = way.make(replica->model);
      EXPECT_THROW(sync->finish(), InternalError) << "before the first pass";
      sync->begin(Pass::kAccumulate);
      make_all();
      EXPECT_THROW(sync->finish(), InternalError) << "after a pass that accumulates";
      sync->begin(Pass::kSynchronize);
      EXPECT_THROW(sync->begin(Pass::kAccumulate), InternalError) << "before finish()";
      make_all();
      EXPECT_NO_THROW(sync->finish());
      EXPECT_THROW(sync->finish(), InternalError) << "twice";
    }
  });
}

TEST_F(GradientSyncTest, WhenItIsGoneTheModelTrainsOn) {
  sync(Flush::kWhenReady)->begin(Pass::kSynchronize);
  make_all();
  EXPECT_THAT(notes, IsEmpty());
  replica->model.drop_grads();
  const auto next = sync(Flush::kWhenReady, test::kEverything);
  next->begin(Pass::kSynchronize);
  make_all();
  next->finish();
  EXPECT_THAT(notes, ElementsAre("start bucket 0", "finish bucket 0"));
}

TEST_F(GradientSyncTest, TheModelMayBeGoneFirst) {
  const auto buckets = sync(Flush::kWhenReady);
  buckets->begin(Pass::kSynchronize);
  make_all();
  buckets->finish();
  replica.reset();
}

TEST_F(GradientSyncTest, ABucketIsHeldNoLongerThanItsExchange) {
  run_ranks(1, [&](Communicator& dp) {
    for (const test::SyncWay& way : test::all_ways(dp)) {
      SCOPED_TRACE(way.name);
      const auto sync = way.make(replica->model);
      sync->begin(Pass::kSynchronize);
      make_all();
      sync->finish();
      replica->model.drop_grads();
      EXPECT_EQ(replica->device.memory().current()[MemoryCategory::kGradients], 0U);
    }
  });
}

}  // namespace
}  // namespace ultra::data_parallel
