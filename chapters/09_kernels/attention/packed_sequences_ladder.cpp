#include <algorithm>
#include <iterator>
#include <numeric>

#include "chapters/09_kernels/attention/packed_documents.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/tokens/packed_sequences/packed_sequences.hpp"

namespace ultra::ladders {
namespace {

class PackedSequences {
 public:
  using Problem = kernels::packed_sequences::Problem;

  PackedSequences(const Sizes& sizes, std::uint64_t seed) : seed_(seed) {
    const std::vector<int> lengths = sequence_lengths(sizes, seed);
    begins_.push_back(0);
    std::partial_sum(lengths.begin(), lengths.end(), std::back_inserter(begins_));
    by_length_.resize(lengths.size());
    std::iota(by_length_.begin(), by_length_.end(), 0);
    std::ranges::stable_sort(by_length_, std::ranges::greater{}, [&](int sequence) {
      return lengths[static_cast<std::size_t>(sequence)];
    });
    losses_ = normal_values(static_cast<std::size_t>(begins_.back()), seed, "losses");
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.sequences = static_cast<int>(by_length_.size()),
            .begins = buffers.input("begins", begins_),
            .by_length = buffers.input("by length", by_length_),
            .losses = buffers.input("losses", losses_),
            .means = buffers.output("means", by_length_.size())};
  }

  static LadderInfo describe() {
    return {.name = "packed_sequences",
            .title = "the mean loss of each sequence of a packed batch, in fp32",
            .dimensions = {{.name = "sequences", .emulated = 150, .gpu = 1 << 16},
                           {.name = "mean length", .emulated = 60, .gpu = 1024}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::packed_sequences;
    using simt::Executor;
    return RungTable<Problem>("tokens/packed_sequences")
        .add("thread_per_sequence", "a thread per sequence: a warp runs as long as its longest",
             []<Executor executor>(const auto&... a) {
               rungs_of::thread_per_sequence<executor>(a...);
             })
        .add(
            "sorted_by_length", "sequences of equal lengths side by side: the lanes end together",
            []<Executor executor>(const auto&... a) { rungs_of::sorted_by_length<executor>(a...); })
        .add("warp_per_sequence", "a warp per sequence: equal loops, and neighbours are read",
             []<Executor executor>(const auto&... a) {
               rungs_of::warp_per_sequence<executor>(a...);
             })
        .rungs();
  }

  /// Losses and begins read, means written.
  static Cost cost(const Sizes& sizes) {
    const std::vector<int> lengths = sequence_lengths(sizes, 0);
    const double tokens = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    const double sequences = sizes[0];
    return {.operations = tokens + sequences,
            .least_bytes = 4.0 * (tokens + (sequences + 1.0) + sequences),
            .written_bytes = 4.0 * sequences};
  }

  /// A sum of n terms in any order has at most n - 1 roundings (Higham 2002, section 4.2); one more
  /// for the quotient.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> means = buffers.download(problem.means);
    Verdict verdict;
    for (const std::size_t sequence : sample(means.size(), kMostSequences, seed_)) {
      const auto begin = losses_.begin() + begins_[sequence];
      const auto end = losses_.begin() + begins_[sequence + 1];
      const auto length = static_cast<double>(end - begin);
      ExactSum sum;
      std::for_each(begin, end, [&](float loss) { sum.add(double{loss}); });
      verdict.compare("means", sequence, double{means[sequence]}, sum.value / length,
                      rounding_of(length) * sum.magnitude / length);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostSequences = 1 << 14;  // of the f64 computation

  std::uint64_t seed_;
  std::vector<int> begins_;     // (sequences + 1)
  std::vector<int> by_length_;  // (sequences)
  std::vector<float> losses_;   // (tokens)
};

}  // namespace

std::unique_ptr<Ladder> packed_sequences_ladder() {
  return std::make_unique<LadderOf<PackedSequences>>();
}

}  // namespace ultra::ladders
