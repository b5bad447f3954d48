// Contract of exercise 03.2: what must be true of buckets, for any parameters and any capacity.
#include "chapters/03_data_parallel/bucket_assignment.hpp"

#include <fmt/ranges.h>

#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

/// Elements of the parameters, and of a bucket.
struct Question {
  std::vector<std::size_t> counts;
  std::size_t capacity = 0;

  [[nodiscard]] std::string str() const {
    return fmt::format("parameters of {} elements, buckets of {}", fmt::join(counts, ", "),
                       capacity);
  }
};

std::string text(const std::vector<Bucket>& buckets) {
  std::string all = "\nbuckets:";
  for (const Bucket& bucket : buckets) {
    all += fmt::format(" [{}: {} elements]", fmt::join(bucket.parameters, " "), bucket.count);
  }
  return all;
}

std::vector<std::size_t> parameters_of(const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> all;
  for (const Bucket& bucket : buckets) {
    all.insert(all.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  return all;
}

std::size_t elements_of(const std::vector<std::size_t>& parameters, const Question& question) {
  std::size_t sum = 0;
  for (const std::size_t p : parameters) sum += question.counts[p];
  return sum;
}

/// The fewest buckets that hold the parameters in that order: tries every place to cut.
std::size_t fewest_buckets(const Question& q) {
  const std::size_t n = q.counts.size();
  std::vector<std::size_t> fewest(n + 1, 0);  // for the first i parameters
  for (std::size_t i = 1; i <= n; ++i) {
    fewest[i] = fewest[i - 1] + 1;
    std::size_t sum = q.counts[i - 1];
    for (std::size_t begin = i - 1; begin-- > 0;) {
      sum += q.counts[begin];
      if (sum <= q.capacity) fewest[i] = std::min(fewest[i], fewest[begin] + 1);
    }
  }
  return fewest[n];
}

class BucketAssignment : public ultra::test::RandomTest {
 protected:
  Question draw() {
    Question question;
    const std::size_t n = random.between(1, 12);
    for (std::size_t i = 0; i < n; ++i) question.counts.push_back(random.between(1, 30));
    question.capacity = random.pick<std::size_t>(
        {0, 1, 7, random.between(1, 40), random.between(30, 100), 300, kEverything});
    return question;
  }

  /// Calls check(question, buckets) for random questions until one fails.
  template <class Check>
  void for_questions(const Check& check) {
    for (int i = 0; i < 200 && !HasFailure(); ++i) {
      const Question question = draw();
      SCOPED_TRACE(question.str());
      const std::vector<Bucket> buckets = assign_buckets(question.counts, question.capacity);
      SCOPED_TRACE(text(buckets));
      check(question, buckets);
    }
  }
};

TEST_F(BucketAssignment, EveryParameterIsInOneBucketTheLastOneFirst) {
  for_questions([](const Question& q, const std::vector<Bucket>& buckets) {
    std::vector<std::size_t> expected(q.counts.size());
    std::iota(expected.rbegin(), expected.rend(), 0);
    std::vector<std::size_t> found = parameters_of(buckets);
    if (found == expected) return;
    std::string hint = "the backward pass makes the gradients of the last parameters first.";
    std::sort(found.rbegin(), found.rend());
    if (found != expected) hint = "every parameter belongs to one bucket, the last of them too.";
    EXPECT_EQ(parameters_of(buckets), expected) << "Hint: " << hint;
  });
}

TEST_F(BucketAssignment, ABucketKnowsItsElements) {
  for_questions([](const Question& q, const std::vector<Bucket>& buckets) {
    for (const Bucket& bucket : buckets) {
      EXPECT_FALSE(bucket.parameters.empty()) << "Hint: a bucket begins with its first parameter.";
      EXPECT_EQ(bucket.count, elements_of(bucket.parameters, q))
          << "Hint: `count` adds up the elements of the bucket's parameters.";
    }
  });
}

TEST_F(BucketAssignment, NoBucketIsLargerThanTheCapacityUnlessOneParameterIs) {
  for_questions([](const Question& q, const std::vector<Bucket>& buckets) {
    for (const Bucket& bucket : buckets) {
      if (bucket.parameters.size() < 2) continue;
      EXPECT_LE(elements_of(bucket.parameters, q), q.capacity)
          << "Hint: a bucket overflows: look whether the next parameter fits before you add it. "
             "One that is too large for any bucket gets one of its own.";
    }
  });
}

TEST_F(BucketAssignment, NoBucketEndsWhileTheNextParameterFits) {
  for_questions([](const Question& q, const std::vector<Bucket>& buckets) {
    for (std::size_t b = 1; b < buckets.size(); ++b) {
      const std::size_t next = q.counts.at(buckets[b].parameters.at(0));
      EXPECT_GT(elements_of(buckets[b - 1].parameters, q) + next, q.capacity)
          << "Hint: bucket " << b - 1
          << " had room for the next parameter: a bucket of exactly the "
          << "capacity is allowed, and every message less saves its latency.";
    }
    EXPECT_EQ(buckets.size(), fewest_buckets(q)) << "the fewest that the order allows";
  });
}

TEST_F(BucketAssignment, WorkedByHand) {
  const std::vector<std::size_t> counts = {10, 4, 6, 3, 25, 2};
  const std::vector<Bucket> expected = {{{5}, 2}, {{4}, 25}, {{3, 2}, 9}, {{1}, 4}, {{0}, 10}};
  EXPECT_EQ(assign_buckets(counts, 10), expected) << text(assign_buckets(counts, 10));
}

TEST_F(BucketAssignment, TheTwoEnds) {
  const std::vector<std::size_t> counts = {10, 4, 6};
  const std::vector<Bucket> each = {{{2}, 6}, {{1}, 4}, {{0}, 10}};
  const std::vector<Bucket> all = {{{2, 1, 0}, 20}};
  EXPECT_EQ(assign_buckets(counts, 0), each) << "capacity 0: one bucket for each parameter";
  EXPECT_EQ(assign_buckets(counts, kEverything), all) << "no limit: one bucket for all";
  EXPECT_TRUE(assign_buckets({}, 10).empty()) << "no parameters, no buckets";
}

}  // namespace
}  // namespace ultra::data_parallel
