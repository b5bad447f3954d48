// Contract of exercise 03.2: what must be true of buckets, for any parameters and any capacity.
#include "chapters/03_data_parallel/bucket_assignment.hpp"

#include <fmt/ranges.h>

#include <set>

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
    const std::size_t n = random.between(0, 12);
    for (std::size_t i = 0; i < n; ++i) question.counts.push_back(random.between(1, 30));
    question.capacity = random.pick<std::size_t>(
        {0, 1, 7, random.between(1, 40), random.between(30, 100), 300, kEverything});
    return question;
  }
};

void expect_buckets(const Question& q, const std::vector<Bucket>& buckets) {
  SCOPED_TRACE(q.str() + text(buckets));
  std::vector<std::size_t> expected(q.counts.size());
  std::iota(expected.rbegin(), expected.rend(), 0);
  std::vector<std::size_t> found = parameters_of(buckets);
  std::sort(found.rbegin(), found.rend());
  EXPECT_EQ(parameters_of(buckets), expected)
      << "Hint: "
      << (found == expected ? "the backward pass makes the gradients of the last parameters first."
                            : "every parameter belongs to one bucket, the last of them too.");
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto& [parameters, count] = buckets[b];
    ASSERT_FALSE(parameters.empty()) << "Hint: a bucket begins with its first parameter.";
    EXPECT_EQ(count, elements_of(parameters, q))
        << "Hint: `count` adds up the elements of the bucket's parameters.";
    EXPECT_TRUE(parameters.size() == 1 || elements_of(parameters, q) <= q.capacity)
        << "Hint: a bucket overflows: look whether the next parameter fits before you add it. One "
           "that is too large for any bucket gets one of its own.";
    if (b == 0) continue;
    EXPECT_GT(elements_of(buckets[b - 1].parameters, q) + q.counts.at(parameters[0]), q.capacity)
        << "Hint: bucket " << b - 1
        << " had room for the next parameter: a bucket of exactly the capacity is allowed, and "
           "every message less saves its latency.";
  }
  EXPECT_EQ(buckets.size(), fewest_buckets(q)) << "the fewest that the order allows";
}

TEST_F(BucketAssignment, EveryParameterIsInOneBucketAndNoneIsTooLarge) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const Question question = draw();
    expect_buckets(question, assign_buckets(question.counts, question.capacity));
  }
}

TEST_F(BucketAssignment, SeveralKindsFillBucketsOfTheirOwn) {
  for (int trial = 0; trial < 200 && !HasFailure(); ++trial) {
    const Question q = draw();
    std::vector<std::size_t> kinds;
    const std::size_t most = random.between(1, 3);
    for (std::size_t i = 0; i < q.counts.size(); ++i) kinds.push_back(random.between(1, most) * 7);
    const std::vector<Bucket> buckets = assign_buckets_by_kind(q.counts, kinds, q.capacity);
    SCOPED_TRACE(fmt::format("{} of kinds {}{}", q.str(), fmt::join(kinds, ", "), text(buckets)));
    SCOPED_TRACE(
        "Hint: a bucket has parameters of one kind, all of that kind are in buckets, and their "
        "numbers are those of the model. Another kind does not close a bucket.");
    std::size_t in_all = 0;
    for (const std::size_t kind : std::set(kinds.begin(), kinds.end())) {
      Question alone{.counts = {}, .capacity = q.capacity};
      std::vector<std::size_t> numbers(kinds.size());  // among those of the kind
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        numbers[i] = alone.counts.size();
        if (kinds[i] == kind) alone.counts.push_back(q.counts[i]);
      }
      std::vector<Bucket> own;
      for (const Bucket& bucket : buckets) {
        ASSERT_FALSE(bucket.parameters.empty()) << "Hint: a bucket begins with a parameter.";
        if (kinds.at(bucket.parameters[0]) != kind) continue;
        own.push_back(bucket);
        for (std::size_t& p : own.back().parameters) {
          ASSERT_EQ(kinds.at(p), kind);
          p = numbers[p];
        }
      }
      expect_buckets(alone, own);
      in_all += own.size();
    }
    EXPECT_EQ(in_all, buckets.size());
  }
}

TEST_F(BucketAssignment, TheBucketThatIsFullFirstComesFirst) {
  const std::vector<std::size_t> counts = {1, 1, 1, 1, 1, 1};
  const std::vector<std::size_t> kinds = {0, 1, 1, 1, 1, 0};
  // The bucket of 5 is begun first, and waits for 0.
  const std::vector<Bucket> expected = {{{4, 3}, 2}, {{2, 1}, 2}, {{5, 0}, 2}};
  const std::vector<Bucket> found = assign_buckets_by_kind(counts, kinds, 2);
  EXPECT_EQ(found, expected)
      << text(found) << "\nHint: a bucket is full with the last gradient that it waits for.";
}

TEST_F(BucketAssignment, WorkedByHand) {
  const std::vector<std::size_t> counts = {10, 4, 6, 3, 25, 2};
  const std::vector<Bucket> expected = {{{5}, 2}, {{4}, 25}, {{3, 2}, 9}, {{1}, 4}, {{0}, 10}};
  EXPECT_EQ(assign_buckets(counts, 10), expected) << text(assign_buckets(counts, 10));
}

}  // namespace
}  // namespace ultra::data_parallel
