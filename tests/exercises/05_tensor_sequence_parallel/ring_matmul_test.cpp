// Contract of exercise 05.6: chunks and sums of whole numbers in closed form, what is sent and
// kept, and what travels while a rank computes.
#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"

#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::tensor_of;
using test::Values;
using ultra::test::all_equal;
using ultra::test::on_ranks;

/// @brief Chunks, and the ranks that have them.
struct Case {
  int ranks = 1;
  Shape shape;
  DType dtype = DType::kF32;

  /// A rank's part of a chunk; no two numbers of all parts are alike.
  [[nodiscard]] Values part(int rank, int chunk) const {
    Values values(shape.numel());
    std::iota(values.begin(), values.end(), 100 * rank + 1000 * chunk);
    return values;
  }
  [[nodiscard]] Values chunk_of(int rank) const { return part(rank, rank); }
  [[nodiscard]] Values sum(int chunk) const {
    return test::sum_over_ranks(ranks, [&](int rank) { return part(rank, chunk); });
  }
  [[nodiscard]] int before(int rank, int steps) const { return (rank + ranks - steps) % ranks; }
};

/// @brief What to say about the last of the chunks that a rank has used.
const char* wrong_chunk(const Case& c, int rank, const std::vector<Values>& used) {
  const int step = static_cast<int>(used.size()) - 1;
  const auto found = used.begin() + step;
  if (*found == c.chunk_of(c.before(rank, step))) {
    return "Hint: the chunk's number is wrong: after s steps the chunk of rank - s (modulo N) is "
           "here.";
  }
  if (std::find(used.begin(), found, *found) != found) {
    return "Hint: this chunk was here before: each step passes on what the step before it has "
           "brought.";
  }
  if (*found == c.chunk_of((rank + step) % c.ranks)) {
    return "Hint: the ring turns the wrong way: a rank sends to next_rank(), so that after s steps "
           "it has the chunk of rank - s.";
  }
  return "Hint: this is nobody's chunk: it was used before it had arrived.";
}

/// @brief What to say about a sum that is not that of the rank's own chunk.
const char* wrong_sum(const Case& c, int rank, const Values& found) {
  for (int other = 0; other < c.ranks; ++other) {
    if (other != rank && found == c.sum(other)) {
      return "Hint: this is the sum for another rank's chunk: a rank begins with the chunk of "
             "prev_rank(), so that the ring ends with its own.";
    }
    for (int maker = 0; maker < c.ranks; ++maker) {
      if (found != c.part(maker, other)) continue;
      return "Hint: this is one rank's part only: what has arrived and the part made here are "
             "added up.";
    }
  }
  return "Hint: what arrives in a step belongs to the chunk that is made in it: add the two when "
         "both are here, and pass the sum on.";
}

using Use = std::function<void()>;  ///< called when a ring uses, or makes, a chunk

void gather(const Communicator& tp, const Use& use) {
  gather_in_ring(Tensor::zeros(Device::cpu(), {5}, DType::kF32), tp,
                 [&](int /*chunk*/, const Tensor& /*values*/) { use(); });
}
void reduce_scatter(const Communicator& tp, const Use& make) {
  const Tensor part = Tensor::zeros(Device::cpu(), {5}, DType::kF32);
  (void)reduce_scatter_in_ring(tp, [&](int /*chunk*/) {
    make();
    return part.clone();
  });
}

class RingMatmul : public ultra::test::RandomTest {
 protected:
  /// Calls body(case, tp, device) on the ranks of any number; the device's free memory is NaN.
  template <class Body>
  void on_cases(const char* three_chunks, const Body& body) {
    test::for_ranks({1, 2, 3, 4, 5, 6, 7, 8}, [&](int ranks, DType dtype) {
      const Shape shape{random.between(1, 3), random.between(1, 4), random.between(1, 5)};
      const Case c{.ranks = ranks, .shape = shape, .dtype = dtype};
      const auto rank = [&](Communicator& tp) {
        const Device cpu = Device::cpu();
        ultra::test::leave_garbage(cpu, c.shape.numel(), c.dtype);
        if (ranks == 3) ultra::test::come_late(tp);
        const std::size_t chunk = c.shape.numel() * size_of(c.dtype);
        const auto [sent, peak] = ultra::test::cost_of(tp, cpu, [&] { body(c, tp, cpu); });
        EXPECT_LE(peak, 3 * chunk) << "bytes at the peak\n" << three_chunks;
        EXPECT_EQ(cpu.memory().current().total(), 0U) << "bytes afterwards\n" << three_chunks;
        EXPECT_EQ(sent, as_size(ranks - 1) * chunk)
            << "bytes sent\nHint: N - 1 chunks are sent per rank: in the last step nobody needs "
               "another one.";
      };
      on_ranks(ranks, fmt::format("chunks of {}, {}", shape.str(), to_string(dtype)), rank,
               ultra::test::on_call(),
               "Hint: in N - 1 steps every rank sends what it has to next_rank(), and receives "
               "from prev_rank().");
    });
  }
  /// The next rank is one use ahead: a rank ends its use s only when the next one is in its use
  /// s + 1, for N - 1 uses from `first` on. Use -1 is before the ring, use N behind it.
  void expect_ahead(void (*ring)(const Communicator&, const Use&), int first, const char* hint) {
    constexpr int kRanks = 4;
    const int waiting = static_cast<int>(random.between(0, kRanks - 1));
    const auto rank = [&](Communicator& tp) {
      const test::Words words(tp);
      const Use use = [&, next = -1 - first]() mutable {
        const int nth = next++;
        if (tp.prev_rank() == waiting && 0 < nth && nth < kRanks) words.say(waiting);
        if (tp.rank() == waiting && 0 <= nth && nth + 1 < kRanks) words.await(tp.next_rank());
      };
      use();
      ring(tp, use);
      use();
    };
    on_ranks(kRanks, fmt::format("rank {} waits for the next one", waiting), rank, {}, hint);
  }
};

TEST_F(RingMatmul, EveryChunkIsUsedOnceUnderItsNumber) {
  constexpr const char* kTwoMore =
      "Hint: beside its own chunk there are two in memory: the one that is here, and the one that "
      "arrives. A Work keeps its tensors alive, too, until it ends or gets another value.";
  on_cases(kTwoMore, [](const Case& c, const Communicator& tp, const Device& cpu) {
    const Tensor own = tensor_of(cpu, c.shape, c.chunk_of(tp.rank()), c.dtype);
    std::vector<Values> used;
    gather_in_ring(own, tp, [&](int chunk, const Tensor& values) {
      const int expected = c.before(tp.rank(), static_cast<int>(used.size()));
      used.push_back(values.to_vector());
      EXPECT_TRUE(chunk == expected && values.shape() == c.shape &&
                  used.back() == c.chunk_of(expected))
          << "use " << used.size() << " on rank " << tp.rank() << " is of chunk " << chunk
          << " of shape " << values.shape().str() << "; expected chunk " << expected << "\n"
          << wrong_chunk(c, tp.rank(), used);
    });
    EXPECT_EQ(used.size(), as_size(c.ranks)) << "chunks used\nHint: every rank's chunk is used "
                                                "once: its own, and one after each of N - 1 steps.";
    EXPECT_TRUE(all_equal(own, c.chunk_of(tp.rank()))) << "Hint: its own chunk is not written to.";
  });
}

TEST_F(RingMatmul, TheSumOfTheOwnChunkComesAround) {
  constexpr const char* kThree =
      "Hint: three chunks are in memory: the sum that leaves, the one that arrives, and the part "
      "that is made.";
  on_cases(kThree, [](const Case& c, const Communicator& tp, const Device& cpu) {
    std::vector<int> made;
    std::vector<int> expected;
    for (int step = 1; step <= c.ranks; ++step) expected.push_back(c.before(tp.rank(), step));
    const Tensor sum = reduce_scatter_in_ring(tp, [&](int chunk) {
      made.push_back(chunk);
      return tensor_of(cpu, c.shape, c.part(tp.rank(), chunk), c.dtype);
    });
    EXPECT_EQ(made, expected)
        << "chunks made on rank " << tp.rank()
        << "\nHint: every chunk is made once, the one of rank - 1 first and its own last: the "
           "sum of rank's chunk begins at the rank behind it, and goes once around.";
    ASSERT_EQ(sum.shape(), c.shape) << "Hint: the sum has the shape of a chunk.";
    EXPECT_TRUE(all_equal(sum, c.sum(tp.rank()))) << "on rank " << tp.rank() << "\n"
                                                  << wrong_sum(c, tp.rank(), sum.to_vector());
  });
}

TEST_F(RingMatmul, WhatIsHereIsPassedOnAndUsedBeforeTheNextHasArrived) {
  expect_ahead(
      gather, -1,
      "Hint: the rank waits for the next chunk before it uses the one that is here: "
      "nothing overlaps. Use the chunk between the beginning of the shift and its wait().");
  expect_ahead(gather, 0,
               "Hint: the next rank does not get on while this rank uses its chunk: begin the "
               "shift before the chunk is used, and wait for it afterwards.");
}

TEST_F(RingMatmul, APartIsMadeBeforeTheSumHasArrivedWhichIsPassedOnAtOnce) {
  expect_ahead(
      reduce_scatter, 0,
      "Hint: the rank waits for the sum of the ranks before it, then makes its part: "
      "nothing overlaps. Make the part between the beginning of the shift and its wait().");
  expect_ahead(reduce_scatter, 1,
               "Hint: the next rank does not get on while this rank makes its part: begin the "
               "shift of the sum before the part is made, and wait for it afterwards.");
}

}  // namespace
}  // namespace ultra::tensor_parallel
