// Contract of exercise 05.6: chunks and sums of whole numbers in closed form, the layers built from
// the rings against whole matrices, and what travels while a rank computes.
#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/ring_layers.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/split_layer.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::Part;
using test::tensor_of;
using test::Values;
using test::whole_numbers;
using test::Words;
using ultra::test::all_equal;
using ultra::test::come_late;
using ultra::test::leave_garbage;
using ultra::test::on_call;
using ultra::test::on_ranks;

constexpr const char* kRing =
    "Hint: in N - 1 steps every rank sends what it has to next_rank(), and receives from "
    "prev_rank().";
constexpr const char* kEveryChunk =
    "Hint: every rank's chunk is used once: its own, and one after each of N - 1 steps.";
constexpr const char* kDirection =
    "Hint: the ring turns the wrong way: a rank sends to next_rank(), so that after s steps it "
    "has the chunk of rank - s.";
constexpr const char* kNumber =
    "Hint: the chunk's number is wrong: after s steps the chunk of rank - s (modulo N) is here.";
constexpr const char* kHereBefore =
    "Hint: this chunk was here before: each step passes on what the step before it has brought.";
constexpr const char* kEarly = "Hint: this is nobody's chunk: it was used before it had arrived.";
constexpr const char* kOneTooMany =
    "Hint: N - 1 chunks are sent per rank: in the last step nobody needs another one.";
constexpr const char* kTwoChunks =
    "Hint: beside its own chunk there are two in memory: the one that is here, and the one that "
    "arrives. A Work keeps its tensors alive, too, until it ends or gets another value.";
constexpr const char* kUsedWhileItTravels =
    "Hint: the rank waits for the next chunk before it uses the one that is here: nothing "
    "overlaps. Use the chunk between the beginning of the shift and its wait().";
constexpr const char* kPassedOnFirst =
    "Hint: the next rank does not get on while this rank uses its chunk: begin the shift before "
    "the chunk is used, and wait for it afterwards.";
constexpr const char* kEveryPart =
    "Hint: every chunk is made once, the one of rank - 1 first and its own last: the sum of "
    "rank's chunk begins at the rank behind it, and goes once around.";
constexpr const char* kOtherChunk =
    "Hint: this is the sum for another rank's chunk: a rank begins with the chunk of prev_rank(), "
    "so that the ring ends with its own.";
constexpr const char* kOverwritten =
    "Hint: this is one rank's part only: what has arrived and the part made here are added up.";
constexpr const char* kSums =
    "Hint: what arrives in a step belongs to the chunk that is made in it: add the two when both "
    "are here, and pass the sum on.";
constexpr const char* kMadeWhileItTravels =
    "Hint: the rank waits for the sum of the ranks before it, then makes its part: nothing "
    "overlaps. Make the part between the beginning of the shift and its wait().";
constexpr const char* kSentFirst =
    "Hint: the next rank does not get on while this rank makes its part: begin the shift of the "
    "sum before the part is made, and wait for it afterwards.";
constexpr const char* kThreeChunks =
    "Hint: three chunks are in memory: the sum that leaves, the one that arrives, and the part "
    "that is made.";

/// Chunks, and the ranks that have them.
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
    return test::sum_over_ranks(ranks, [&](int rank) { return part(rank, chunk); });
  }
  [[nodiscard]] int before(int rank, int steps) const { return (rank + ranks - steps) % ranks; }
  [[nodiscard]] std::size_t chunk_bytes() const { return shape.numel() * size_of(dtype); }
};

class RingMatmul : public ultra::test::RandomTest {
 protected:
  template <class Check>
  void for_cases(const Check& check) {
    test::for_ranks({1, 2, 3, 4, 5, 6, 7, 8}, [&](int ranks, DType dtype) {
      check(Case{.ranks = ranks,
                 .shape = {random.between(1, 3), random.between(1, 4), random.between(1, 5)},
                 .dtype = dtype,
                 .seed = seed});
    });
  }
  /// Calls body(case, tp) on the ranks of each case.
  template <class Body>
  void on_cases(const Body& body, const RankOptions& options = {}) {
    for_cases([&](const Case& c) {
      on_ranks(
          c.ranks, c.str(), [&](Communicator& tp) { body(c, tp); }, options, kRing);
    });
  }
};

// The ring of chunks ------------------------------------------------------------------------------

struct Used {
  int chunk;
  Shape shape;
  Values values;
};

const char* wrong_chunk(const Case& c, int rank, const std::vector<Used>& all, std::size_t step) {
  const Values& values = all[step].values;
  const int steps = static_cast<int>(step);
  if (values == c.chunk_of(c.before(rank, steps))) return kNumber;
  for (std::size_t earlier = 0; earlier < step; ++earlier) {
    if (values == all[earlier].values) return kHereBefore;
  }
  return values == c.chunk_of((rank + steps) % c.ranks) ? kDirection : kEarly;
}

TEST_F(RingMatmul, EveryChunkIsUsedOnceUnderItsNumber) {
  on_cases([](const Case& c, Communicator& tp) {
    const Device cpu = Device::cpu();
    leave_garbage(cpu, c.shape.numel(), c.dtype);
    const Tensor own = tensor_of(cpu, c.shape, c.chunk_of(tp.rank()), c.dtype);
    if (c.ranks == 3) come_late(tp);
    std::vector<Used> all;
    gather_in_ring(own, tp, [&](int chunk, const Tensor& values) {
      all.push_back({chunk, values.shape(), values.to_vector()});
    });
    EXPECT_TRUE(all_equal(own, c.chunk_of(tp.rank()))) << "Hint: its own chunk is not written to.";
    EXPECT_EQ(all.size(), as_size(c.ranks)) << "chunks used\n" << kEveryChunk;
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

TEST_F(RingMatmul, GatheringSendsAndKeepsNoMoreThanItNeeds) {
  on_cases(
      [](const Case& c, Communicator& tp) {
        const Device cpu = Device::cpu();
        const Tensor own = tensor_of(cpu, c.shape, c.chunk_of(tp.rank()), c.dtype);
        const std::size_t before = cpu.memory().current().total();
        cpu.reset_memory_peaks();
        gather_in_ring(own, tp, [](int /*chunk*/, const Tensor& /*values*/) {});
        EXPECT_EQ(tp.stats().sent_bytes(), as_size(c.ranks - 1) * c.chunk_bytes()) << "bytes sent\n"
                                                                                   << kOneTooMany;
        EXPECT_LE(cpu.memory().peak_total().bytes, before + 2 * c.chunk_bytes())
            << "bytes at the peak\n"
            << kTwoChunks;
        EXPECT_EQ(cpu.memory().current().total(), before) << "bytes afterwards\n" << kTwoChunks;
      },
      on_call());
}

// The ring of sums --------------------------------------------------------------------------------

const char* wrong_sum(const Case& c, int rank, const Values& found) {
  for (int other = 0; other < c.ranks; ++other) {
    if (other != rank && found == c.sum(other)) return kOtherChunk;
    for (int maker = 0; maker < c.ranks; ++maker) {
      if (found == c.part(maker, other)) return kOverwritten;
    }
  }
  return kSums;
}

TEST_F(RingMatmul, TheSumOfTheOwnChunkComesAround) {
  on_cases([](const Case& c, Communicator& tp) {
    const Device cpu = Device::cpu();
    leave_garbage(cpu, c.shape.numel(), c.dtype);
    if (c.ranks == 3) come_late(tp);
    std::vector<int> made;
    const Tensor sum = reduce_scatter_in_ring(tp, [&](int chunk) {
      made.push_back(chunk);
      return tensor_of(cpu, c.shape, c.part(tp.rank(), chunk), c.dtype);
    });
    std::vector<int> expected;
    for (int step = 1; step <= c.ranks; ++step) expected.push_back(c.before(tp.rank(), step));
    EXPECT_TRUE(made == expected) << fmt::format("rank {} makes the chunks {}, expected {}\n",
                                                 tp.rank(), fmt::join(made, " "),
                                                 fmt::join(expected, " "))
                                  << kEveryPart;
    const bool right = sum.defined() && sum.shape() == c.shape;
    EXPECT_TRUE(right) << "Hint: the sum has the shape of a chunk.";
    if (!right) return;
    EXPECT_TRUE(all_equal(sum, c.sum(tp.rank()))) << "on rank " << tp.rank() << "\n"
                                                  << wrong_sum(c, tp.rank(), sum.to_vector());
  });
}

TEST_F(RingMatmul, SumsSendAndKeepNoMoreThanTheyNeed) {
  on_cases(
      [](const Case& c, Communicator& tp) {
        const Device cpu = Device::cpu();
        Tensor sum = reduce_scatter_in_ring(tp, [&](int chunk) {
          return tensor_of(cpu, c.shape, c.part(tp.rank(), chunk), c.dtype);
        });
        EXPECT_EQ(tp.stats().sent_bytes(), as_size(c.ranks - 1) * c.chunk_bytes()) << "bytes sent\n"
                                                                                   << kOneTooMany;
        EXPECT_LE(cpu.memory().peak_total().bytes, 3 * c.chunk_bytes()) << "bytes at the peak\n"
                                                                        << kThreeChunks;
        sum = Tensor();
        EXPECT_EQ(cpu.memory().current().total(), 0U) << "bytes afterwards\n" << kThreeChunks;
      },
      on_call());
}

// What travels meanwhile --------------------------------------------------------------------------

/// Runs one ring on 2, 3 and 4 ranks; `ring` is told the rank that the others watch.
void on_rings(ultra::test::Random& random, const char* hint,
              const std::function<void(const Communicator& tp, int watched)>& ring) {
  for (const int ranks : {2, 3, 4}) {
    const int watched = static_cast<int>(random.between(0, as_size(ranks - 1)));
    on_ranks(
        ranks, fmt::format("rank {} is watched", watched),
        [&](Communicator& tp) { ring(tp, watched); }, {}, hint);
    if (::testing::Test::HasFailure()) return;
  }
}

/// What gather_in_ring calls, with the number of calls before it instead of the chunk.
void gather_steps(const Communicator& tp, const std::function<void(int step)>& use) {
  const Tensor own = Tensor::zeros(Device::cpu(), {5}, DType::kF32);
  gather_in_ring(own, tp,
                 [&, step = 0](int /*chunk*/, const Tensor& /*values*/) mutable { use(step++); });
}

/// The same of reduce_scatter_in_ring.
void reduce_steps(const Communicator& tp, const std::function<void(int step)>& make) {
  const Device device = Device::cpu();
  (void)reduce_scatter_in_ring(tp, [&, step = 0](int /*chunk*/) mutable {
    make(step++);
    return Tensor::zeros(device, {5}, DType::kF32);
  });
}

// The rank before the watched one begins step s only when that uses the chunk of step s.
TEST_F(RingMatmul, AChunkIsUsedBeforeTheNextHasArrived) {
  on_rings(random, kUsedWhileItTravels, [](const Communicator& tp, int watched) {
    const Words words(tp);
    const int last = tp.size() - 1;
    const bool is_before = tp.next_rank() == watched;
    if (is_before) words.await(watched);
    gather_steps(tp, [&](int step) {
      if (tp.rank() == watched && step < last) words.say(tp.prev_rank());
      if (is_before && step + 1 < last) words.await(watched);
    });
  });
}

// The watched rank ends the use of a chunk when the next rank uses it.
TEST_F(RingMatmul, AChunkIsPassedOnBeforeItIsUsed) {
  on_rings(random, kPassedOnFirst, [](const Communicator& tp, int watched) {
    const Words words(tp);
    gather_steps(tp, [&](int step) {
      if (tp.prev_rank() == watched && step > 0) words.say(watched);
      if (tp.rank() == watched && step + 1 < tp.size()) words.await(tp.next_rank());
    });
  });
}

// The rank before the watched one ends a part, and sends its sum, when that makes its next part.
TEST_F(RingMatmul, APartIsMadeBeforeTheSumHasArrived) {
  on_rings(random, kMadeWhileItTravels, [](const Communicator& tp, int watched) {
    const Words words(tp);
    reduce_steps(tp, [&](int step) {
      if (tp.rank() == watched && step > 0) words.say(tp.prev_rank());
      if (tp.next_rank() == watched && step + 1 < tp.size()) words.await(watched);
    });
  });
}

// The watched rank ends a part when the next rank has got the sum that was there before it.
TEST_F(RingMatmul, ASumIsPassedOnBeforeTheNextPartIsMade) {
  on_rings(random, kSentFirst, [](const Communicator& tp, int watched) {
    const Words words(tp);
    const bool is_behind = tp.prev_rank() == watched;
    reduce_steps(tp, [&](int step) {
      if (is_behind && step > 1) words.say(watched);
      if (tp.rank() == watched && step > 0) words.await(tp.next_rank());
    });
    if (is_behind) words.say(watched);
  });
}

// The layers --------------------------------------------------------------------------------------

constexpr const char* kLayers =
    "Hint: the layers of ring_layers.cpp use the rings for all tokens of all sequences: look at "
    "the numbers of the chunks, and at the sums.";

struct RowLayer : test::OneOutput<RingRowParallel> {
  RowLayer(std::vector<std::unique_ptr<nn::Parameter>> own, const Communicator& tp)
      : OneOutput(std::move(own[0]), tp) {}
};

enum class Kind { kColumn, kRow };

/// A layer with split features that become outputs (column) or come in (row).
template <Kind kind>
struct LayerCase : test::SplitCase {
  using Layer = std::conditional_t<kind == Kind::kColumn, RingColumnParallel, RowLayer>;

  std::size_t hidden = 1;
  std::size_t inner = 1;  ///< features of each rank

  [[nodiscard]] Part outside(int rank) const { return {1, tokens_of(rank)}; }
  [[nodiscard]] Part inside(int rank) const {
    return {2, {as_size(rank) * inner, as_size(rank + 1) * inner}};
  }
  [[nodiscard]] Part x_part(int rank) const {
    return kind == Kind::kColumn ? outside(rank) : inside(rank);
  }
  [[nodiscard]] Part y_part(std::size_t /*output*/, int rank) const {
    return kind == Kind::kColumn ? inside(rank) : outside(rank);
  }
  [[nodiscard]] Part weight_part(std::size_t /*parameter*/, int rank) const {
    return {kind == Kind::kColumn ? 0 : 1, inside(rank).range};
  }
  [[nodiscard]] static std::string name_of(std::size_t /*parameter*/) { return "weight"; }
  [[nodiscard]] static double roundings() { return 0; }  // whole numbers
  [[nodiscard]] static const Communicator& context(const Communicator& tp) { return tp; }
};

/// Two micro-batches through a layer, against the layer with the whole matrix.
template <Kind kind>
void expect_layer(const test::SplitCase& split, std::size_t hidden, std::size_t inner,
                  std::uint64_t seed) {
  const LayerCase<kind> c{split, hidden, inner};
  const std::size_t all = as_size(c.ranks) * inner;
  const std::size_t inputs = kind == Kind::kColumn ? hidden : all;
  const std::size_t outputs = kind == Kind::kColumn ? all : hidden;
  const auto numbers = [&](const Shape& shape, std::size_t which) {
    return tensor_of(Device::cpu(), shape, whole_numbers(seed, 0, which, shape.numel()), c.dtype);
  };
  const test::LayerData data{.x = numbers({c.sequences(), c.seq(), inputs}, 10),
                             .weights = {numbers({outputs, inputs}, 1)},
                             .d_y = {numbers({c.sequences(), c.seq(), outputs}, 20)}};
  const test::LinearPass truth = test::dense_pass(data.x, data.weights, data.d_y);
  test::train_on_ranks(c, data, kLayers, kLayers, [&](test::Rank<LayerCase<kind>>& rank) {
    rank.expect_outputs(truth, {}, kLayers);
    rank.expect_input_gradients(truth, {}, kLayers);
    rank.expect_weight_gradient(0, truth, {}, kLayers);
    return Tensor();
  });
}

TEST_F(RingMatmul, LayersInRingsGiveWhatWholeMatricesDo) {
  for_cases([this](const Case& c) {
    const test::SplitCase split{.ranks = c.ranks,
                                .sequence_parallel = SequenceParallel::kOn,
                                .dtype = c.dtype,
                                .micro_batches = 2,
                                .batch = c.shape[0],
                                .local_seq = c.shape[1]};
    const std::size_t inner = random.between(1, 3);
    expect_layer<Kind::kColumn>(split, c.shape[2], inner, seed);
    expect_layer<Kind::kRow>(split, c.shape[2], inner, seed);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel
