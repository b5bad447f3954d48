// Contract of exercise 05.6: chunks and sums of whole numbers in closed form, what is sent and
// kept, and what travels while a rank computes.
#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"

#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::sum_over_ranks;
using test::tensor_of;
using test::Values;
using test::whole_numbers;
using ultra::test::all_equal;
using ultra::test::leave_garbage;
using ultra::test::on_ranks;

/// @brief Chunks, and the ranks that have them.
struct Case {
  int ranks = 1;
  Shape shape;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    return fmt::format("chunks of {}, {}", shape.str(), to_string(dtype));
  }
  /// A rank's part of a chunk; no two are alike.
  [[nodiscard]] Values part(int rank, int chunk) const {
    Values values = whole_numbers(seed, rank, as_size(chunk), shape.numel());
    for (double& value : values) value += 20 * rank + 400 * chunk;
    return values;
  }
  [[nodiscard]] Values chunk_of(int rank) const { return part(rank, rank); }
  [[nodiscard]] Values sum(int chunk) const {
    return sum_over_ranks(ranks, [&](int rank) { return part(rank, chunk); });
  }
  [[nodiscard]] int before(int rank, int steps) const { return (rank + ranks - steps) % ranks; }
  [[nodiscard]] std::size_t chunk_bytes() const { return shape.numel() * size_of(dtype); }
};

/// @brief What a rank was given to use.
struct Used {
  int chunk;
  Shape shape;
  Values values;
};

/// @brief What to say about a chunk that is not the one of its step.
const char* wrong_chunk(const Case& c, int rank, const std::vector<Used>& all, std::size_t step) {
  const Values& values = all[step].values;
  const int steps = static_cast<int>(step);
  if (values == c.chunk_of(c.before(rank, steps))) {
    return "Hint: the chunk's number is wrong: after s steps the chunk of rank - s (modulo N) is "
           "here.";
  }
  for (std::size_t earlier = 0; earlier < step; ++earlier) {
    if (values != all[earlier].values) continue;
    return "Hint: this chunk was here before: each step passes on what the step before it has "
           "brought.";
  }
  if (values == c.chunk_of((rank + steps) % c.ranks)) {
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

constexpr const char* kTwoChunks =
    "Hint: beside its own chunk there are two in memory: the one that is here, and the one that "
    "arrives. A Work keeps its tensors alive, too, until it ends or gets another value.";
class RingMatmul : public ultra::test::RandomTest {
 protected:
  /// Calls body(case, tp, device) on the ranks of any number; the device's free memory is NaN.
  template <class Body>
  void on_cases(const Body& body) {
    test::for_ranks({1, 2, 3, 4, 5, 6, 7, 8}, [&](int ranks, DType dtype) {
      const Case c{.ranks = ranks,
                   .shape = {random.between(1, 3), random.between(1, 4), random.between(1, 5)},
                   .dtype = dtype,
                   .seed = seed};
      const auto rank = [&](Communicator& tp) {
        const Device cpu = Device::cpu();
        leave_garbage(cpu, c.shape.numel(), c.dtype);
        if (ranks == 3) ultra::test::come_late(tp);
        body(c, tp, cpu);
        EXPECT_EQ(tp.stats().sent_bytes(), as_size(ranks - 1) * c.chunk_bytes())
            << "bytes sent\nHint: N - 1 chunks are sent per rank: in the last step nobody needs "
               "another one.";
      };
      on_ranks(ranks, c.str(), rank, ultra::test::on_call(),
               "Hint: in N - 1 steps every rank sends what it has to next_rank(), and receives "
               "from prev_rank().");
    });
  }
};

TEST_F(RingMatmul, EveryChunkIsUsedOnceUnderItsNumber) {
  on_cases([](const Case& c, const Communicator& tp, const Device& cpu) {
    const Tensor own = tensor_of(cpu, c.shape, c.chunk_of(tp.rank()), c.dtype);
    const std::size_t before = cpu.memory().current().total();
    cpu.reset_memory_peaks();
    std::vector<Used> all;
    gather_in_ring(own, tp, [&](int chunk, const Tensor& values) {
      all.push_back({chunk, values.shape(), values.to_vector()});
    });
    EXPECT_LE(cpu.memory().peak_total().bytes, before + 2 * c.chunk_bytes())
        << "bytes at the peak\n"
        << kTwoChunks;
    EXPECT_EQ(cpu.memory().current().total(), before) << "bytes afterwards\n" << kTwoChunks;
    EXPECT_TRUE(all_equal(own, c.chunk_of(tp.rank()))) << "Hint: its own chunk is not written to.";
    EXPECT_EQ(all.size(), as_size(c.ranks)) << "chunks used\nHint: every rank's chunk is used "
                                               "once: its own, and one after each of N - 1 steps.";
    for (int step = 0; step < std::min(static_cast<int>(all.size()), c.ranks); ++step) {
      const Used& used = all[as_size(step)];
      const int expected = c.before(tp.rank(), step);
      EXPECT_TRUE(used.chunk == expected && used.shape == c.shape &&
                  used.values == c.chunk_of(expected))
          << "after " << step << " steps rank " << tp.rank() << " uses chunk " << used.chunk
          << " of shape " << used.shape.str() << "; expected chunk " << expected << "\n"
          << wrong_chunk(c, tp.rank(), all, as_size(step));
    }
  });
}

TEST_F(RingMatmul, TheSumOfTheOwnChunkComesAround) {
  on_cases(
      [](const Case& c, const Communicator& tp, const Device& cpu) {
        std::vector<int> made;
        std::vector<int> expected;
        for (int step = 1; step <= c.ranks; ++step) expected.push_back(c.before(tp.rank(), step));
        cpu.reset_memory_peaks();
        Tensor sum = reduce_scatter_in_ring(tp, [&](int chunk) {
          made.push_back(chunk);
          return tensor_of(cpu, c.shape, c.part(tp.rank(), chunk), c.dtype);
        });
        EXPECT_TRUE(made == expected)
            << fmt::format("rank {} makes the chunks {}, expected {}\n", tp.rank(),
                           fmt::join(made, " "), fmt::join(expected, " "))
            << "Hint: every chunk is made once, the one of rank - 1 first and its own last: the "
               "sum of rank's chunk begins at the rank behind it, and goes once around.";
        const bool right = sum.defined() && sum.shape() == c.shape;
        EXPECT_TRUE(right) << "Hint: the sum has the shape of a chunk.";
        if (!right) return;
        EXPECT_TRUE(all_equal(sum, c.sum(tp.rank()))) << "on rank " << tp.rank() << "\n"
                                                      << wrong_sum(c, tp.rank(), sum.to_vector());
        sum = Tensor();
        const char* hint =
            "Hint: three chunks are in memory: the sum that leaves, the one that arrives, and the "
            "part that is made.";
        EXPECT_LE(cpu.memory().peak_total().bytes, 3 * c.chunk_bytes()) << "bytes at the peak\n"
                                                                        << hint;
        EXPECT_EQ(cpu.memory().current().total(), 0U) << "bytes afterwards\n" << hint;
      });
}

// What travels meanwhile --------------------------------------------------------------------------

/// A ring that calls use(s) when it uses, or makes, its chunk number s.
using Ring = void (*)(const Communicator& tp, const std::function<void(int step)>& use);

void gather_steps(const Communicator& tp, const std::function<void(int step)>& use) {
  gather_in_ring(Tensor::zeros(Device::cpu(), {5}, DType::kF32), tp,
                 [&, step = 0](int /*chunk*/, const Tensor& /*values*/) mutable { use(step++); });
}
void reduce_steps(const Communicator& tp, const std::function<void(int step)>& make) {
  const Device device = Device::cpu();
  (void)reduce_scatter_in_ring(tp, [&, step = 0](int /*chunk*/) mutable {
    make(step++);
    return Tensor::zeros(device, {5}, DType::kF32);
  });
}

class RingOverlap : public ultra::test::RandomTest {
 protected:
  /// The next rank is one use ahead: a rank ends its use s only when the next one is in its use
  /// s + 1, for N - 1 uses from `first` on. Round -1 is before the ring, step N behind it.
  void expect_ahead(Ring ring, int first, const char* hint) {
    for (const int ranks : {2, 3, 4}) {
      const int waiting = static_cast<int>(random.between(0, as_size(ranks - 1)));
      const auto rank = [&](Communicator& tp) {
        const test::Words words(tp);
        const auto is_in = [&](int step) {
          if (tp.prev_rank() == waiting && step > first && step < first + ranks) words.say(waiting);
          if (tp.rank() == waiting && step >= first && step + 1 < first + ranks) {
            words.await(tp.next_rank());
          }
        };
        is_in(-1);
        ring(tp, is_in);
        is_in(ranks);
      };
      on_ranks(ranks, fmt::format("rank {} waits for the next one", waiting), rank, {}, hint);
      if (HasFailure()) return;
    }
  }
};

TEST_F(RingOverlap, WhatIsHereIsPassedOnAndUsedBeforeTheNextHasArrived) {
  expect_ahead(
      gather_steps, -1,
      "Hint: the rank waits for the next chunk before it uses the one that is here: "
      "nothing overlaps. Use the chunk between the beginning of the shift and its wait().");
  expect_ahead(gather_steps, 0,
               "Hint: the next rank does not get on while this rank uses its chunk: begin the "
               "shift before the chunk is used, and wait for it afterwards.");
}

TEST_F(RingOverlap, APartIsMadeBeforeTheSumHasArrivedWhichIsPassedOnAtOnce) {
  expect_ahead(
      reduce_steps, 0,
      "Hint: the rank waits for the sum of the ranks before it, then makes its part: "
      "nothing overlaps. Make the part between the beginning of the shift and its wait().");
  expect_ahead(reduce_steps, 1,
               "Hint: the next rank does not get on while this rank makes its part: begin the "
               "shift of the sum before the part is made, and wait for it afterwards.");
}

}  // namespace
}  // namespace ultra::tensor_parallel
