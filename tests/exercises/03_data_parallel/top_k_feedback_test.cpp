// Contract of exercise 03.5: the selection against a stable sort; the feedback on a compressor whose
// arithmetic is exact, so that what is sent and what is kept must add up without an error.
#include "chapters/03_data_parallel/top_k_feedback.hpp"

#include <fmt/ranges.h>

#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using Positions = std::vector<std::uint32_t>;

/// The first `kept` positions of a stable sort, in ascending order.
template <class T, class Before>
Positions first_of_sorted(const std::vector<T>& entries, std::size_t kept, const Before& before) {
  Positions positions(entries.size());
  std::iota(positions.begin(), positions.end(), 0U);
  std::ranges::stable_sort(positions, before, [&](std::uint32_t p) { return entries[p]; });
  positions.resize(kept);
  std::ranges::sort(positions);
  return positions;
}

template <class T>
std::vector<T> magnitudes_at(const std::vector<T>& entries, const Positions& positions) {
  std::vector<T> magnitudes;
  for (const std::uint32_t p : positions) {
    if (p < entries.size()) magnitudes.push_back(std::abs(entries[p]));
  }
  std::ranges::sort(magnitudes);
  return magnitudes;
}

template <class T>
std::string hint_for(const std::vector<T>& entries, Positions found, const Positions& expected) {
  std::ranges::sort(found);
  if (found == expected) return "Hint: the positions must be in ascending order.";
  if (found == first_of_sorted(entries, expected.size(), std::greater<>())) {
    return "Hint: these are the largest values. A large negative entry matters as much: compare "
           "magnitudes.";
  }
  const auto smaller_magnitude = [](T a, T b) { return std::abs(a) < std::abs(b); };
  if (found == first_of_sorted(entries, expected.size(), smaller_magnitude)) {
    return "Hint: these are the smallest magnitudes: std::greater.";
  }
  if (found.size() != expected.size()) {
    return "Hint: exactly `kept` entries. Of those that equal the kept-th largest magnitude only "
           "some may be taken.";
  }
  if (magnitudes_at(entries, found) == magnitudes_at(entries, expected)) {
    return "Hint: of equal magnitudes the one at the lower position comes first: all replicas must "
           "choose alike on equal gradients.";
  }
  return "Hint: write the magnitudes of a short array down and mark the `kept` largest.";
}

template <class T>
void expect_largest(const std::vector<T>& entries, std::size_t kept) {
  const auto larger_magnitude = [](T a, T b) { return std::abs(a) > std::abs(b); };
  const Positions expected = first_of_sorted(entries, kept, larger_magnitude);
  const Positions found = largest_entries<T>(entries, kept);
  EXPECT_EQ(found, expected) << "the " << kept << " largest of ["
                             << fmt::format("{}", fmt::join(entries, ", ")) << "]\n"
                             << hint_for(entries, found, expected);
}

class TopKFeedback : public ultra::test::RandomTest {
 protected:
  /// Normal numbers, or small whole numbers with many ties.
  template <class T>
  std::vector<T> draw(std::size_t count, bool ties) {
    std::vector<T> entries;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = random.normal();
      entries.push_back(static_cast<T>(ties ? std::round(2 * x) : x));
    }
    return entries;
  }
};

TEST_F(TopKFeedback, KeepsTheFractionRoundedUp) {
  for (const auto& [fraction, count, kept] : {std::tuple{0.01, 50U, 1U},
                                              {0.25, 10U, 3U},
                                              {0.125, 9U, 2U},
                                              {1.0, 9U, 9U},
                                              {1e-6, 1U, 1U},
                                              {0.25, 0U, 0U}}) {
    EXPECT_EQ(kept_entries(fraction, count), kept)
        << fraction << " of " << count
        << " entries\nHint: round up. Rounded down or to the nearest, a short gradient, such as a "
           "norm's, would send nothing in any step.";
  }
}

TEST_F(TopKFeedback, FindsTheLargestMagnitudesAndOfEqualOnesTheLower) {
  expect_largest<float>({1, -5, 3, -2, 4}, 2);
  expect_largest<float>({2, -2, 1, 2, -2}, 3);
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const std::size_t count = random.between(0, 60);
    expect_largest<float>(draw<float>(count, i % 2 == 0), random.between(0, count));
    expect_largest<double>(draw<double>(count, i % 2 == 0), random.between(0, count));
  }
}

TEST_F(TopKFeedback, SendsWhatIsNotANumber) {
  for (const std::size_t kept : {1U, 2U, 5U}) {
    std::vector<float> entries = draw<float>(20, false);
    const std::size_t place = random.between(0, 19);
    entries[place] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(largest_entries<float>(entries, kept), ::testing::Contains(place))
        << "NaN is not among the " << kept << " largest of 20 entries.\n"
        << "Hint: a NaN must reach the other replicas, or training goes on with a "
           "broken gradient that nobody sees. Count it as infinite.";
  }
}

/// C(x): the whole number towards zero, one word each.
class WholeNumbers final : public Compressor {
 public:
  [[nodiscard]] std::size_t message_words(std::size_t count, DType) const override { return count; }

  void compress(const Tensor& gradient, const Tensor& message) const override {
    std::ranges::transform(gradient.to_vector(), message.span<std::int32_t>().begin(),
                           [](double x) { return static_cast<std::int32_t>(x); });
  }

  void add_decompressed(const Tensor& message, double factor, const Tensor& into) const override {
    dispatch_float(into.dtype(), [&]<class T>() {
      for (std::size_t i = 0; i < into.numel(); ++i) {
        into.span<T>()[i] += static_cast<T>(factor * message.span<std::int32_t>()[i]);
      }
    });
  }
};

std::vector<double> combine(const std::vector<double>& a, double factor,
                            const std::vector<double>& b) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < a.size(); ++i) sums.push_back(a[i] + factor * b[i]);
  return sums;
}

std::string hint_for_residual(const std::vector<double>& found, const std::vector<double>& gradient,
                              const std::vector<double>& residual,
                              const std::vector<double>& sent) {
  const std::vector<double> all = combine(gradient, 1, residual);
  if (found == std::vector<double>(found.size(), 0.0)) {
    return "Hint: the residual is dropped. What the message does not hold must be there in the "
           "next step.";
  }
  if (found == sent) return "Hint: the residual holds what was sent. It keeps what was not.";
  if (found == combine(gradient, -1, sent)) {
    return "Hint: the old residual is lost: what is left is g + e - C(g + e), not g - C(g + e).";
  }
  if (found == combine(all, 1, sent)) {
    return "Hint: what the message holds is taken out of the residual, with factor -1, not added.";
  }
  if (found == all) return "Hint: what was sent is still in the residual: it would be sent again.";
  return "Hint: e' = g + e - C(g + e).";
}

TEST_F(TopKFeedback, KeepsWhatTheMessageDoesNotHold) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const std::size_t count = random.between(30, 60);
    std::vector<double> gradient;
    std::vector<double> residual;
    for (std::size_t i = 0; i < count; ++i) {  // sixteenths: all sums are exact
      gradient.push_back(static_cast<double>(random.between(0, 200)) / 16 - 6);
      residual.push_back(static_cast<double>(random.between(0, 30)) / 16 - 1);
    }
    gradient[0] = 1.75;
    residual[0] = 0.5;  // together they hold a whole number that neither of them has
    const Tensor g = Tensor::from<double>(device, {count}, gradient).to(dtype);
    const Tensor e = Tensor::from<double>(device, {count}, residual).to(dtype);
    const Tensor message = Tensor::zeros(device, {count}, DType::kI32);
    compress_with_feedback(WholeNumbers(), g, e, message);

    const std::vector<double> all = combine(gradient, 1, residual);
    std::vector<double> sent;
    for (const double x : all) sent.push_back(std::trunc(x));
    EXPECT_EQ(message.to_vector(), sent)
        << "Hint: what is compressed is gradient plus residual. Added after the compression, the "
           "residual is never sent.";
    EXPECT_EQ(e.to_vector(), combine(all, -1, sent))
        << hint_for_residual(e.to_vector(), gradient, residual, message.to_vector());
    EXPECT_EQ(g.to_vector(), gradient) << "Hint: the gradient is only read.";
  }
}

}  // namespace
}  // namespace ultra::data_parallel
