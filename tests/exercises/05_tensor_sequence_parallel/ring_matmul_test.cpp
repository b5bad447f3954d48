// Contract of exercise 05.6: chunks and sums of whole numbers in closed form, the layers built from the
// rings against whole matrices, and what travels while a rank computes.
#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/ring_layers.hpp"
#include "common/nn/layers/linear.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::all_equal;
using test::kFloatDTypes;
using ultra::test::come_late;
using ultra::test::leave_garbage;
using ultra::test::on_call;
using ultra::test::on_ranks;
using ultra::test::whole_number;
using Values = std::vector<double>;

constexpr const char* kRing =
    "Hint: in N - 1 steps every rank sends what it has to next_rank(), and receives from "
    "prev_rank().";
constexpr const char* kEveryChunk =
    "Hint: every rank's chunk is used once: the own one, and one after each of N - 1 steps.";
constexpr const char* kDirection =
    "Hint: the ring turns the wrong way: a rank sends to next_rank(), so that after s steps it has "
    "the "
    "chunk of rank - s.";
constexpr const char* kNumber =
    "Hint: the chunk's number is wrong: after s steps the chunk of rank - s (modulo N) is here.";
constexpr const char* kHereBefore =
    "Hint: this chunk was here before: each step passes on what the step before it has brought.";
constexpr const char* kEarly = "Hint: this is nobody's chunk: it was used before it had arrived.";
constexpr const char* kOneTooMany =
    "Hint: N - 1 chunks are sent per rank: in the last step nobody needs another one.";
constexpr const char* kTwoChunks =
    "Hint: beside the own chunk there are two in memory: the one that is here, and the one that "
    "arrives. A Work keeps its tensors alive, too, until it ends or gets another value.";
constexpr const char* kUsedWhileItTravels =
    "Hint: the rank waits for the next chunk before it uses the one that is here: nothing "
    "overlaps. Use "
    "the chunk between the beginning of the shift and its wait().";
constexpr const char* kPassedOnFirst =
    "Hint: the next rank does not get on while this rank uses its chunk: begin the shift before "
    "the chunk is used, and wait for it afterwards.";
constexpr const char* kEveryPart =
    "Hint: every chunk is made once, the one of rank - 1 first and the own one last: the sum of "
    "rank's "
    "chunk begins at the rank behind it, and goes once around.";
constexpr const char* kOtherChunk =
    "Hint: this is the sum for another rank's chunk: a rank begins with the chunk of prev_rank(), "
    "so "
    "that the ring ends with its own.";
constexpr const char* kOverwritten =
    "Hint: this is one rank's part only: what has arrived and the part made here are added up.";
constexpr const char* kSums =
    "Hint: what arrives in a step belongs to the chunk that is made in it: add the two when both "
    "are "
    "here, and pass the sum on.";
constexpr const char* kMadeWhileItTravels =
    "Hint: the rank waits for the sum of the ranks before it, then makes its part: nothing "
    "overlaps. "
    "Make the part between the beginning of the shift and its wait().";
constexpr const char* kSentFirst =
    "Hint: the next rank does not get on while this rank makes its part: begin the shift of the "
    "sum before the part is made, and wait for it afterwards.";
constexpr const char* kThreeChunks =
    "Hint: three chunks are in memory: the sum that leaves, the one that arrives, and the part "
    "that is "
    "made.";

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

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
    Values values;
    for (std::size_t i = 0; i < shape.numel(); ++i) {
      values.push_back(20 * rank + 400 * chunk + whole_number(seed, rank, as_size(chunk), i));
    }
    return values;
  }
  [[nodiscard]] Values chunk_of(int rank) const { return part(rank, rank); }
  [[nodiscard]] Values sum(int chunk) const {
    Values sums(shape.numel(), 0.0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Values values = part(rank, chunk);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
    return sums;
  }
  [[nodiscard]] int before(int rank, int steps) const { return (rank + ranks - steps) % ranks; }
  [[nodiscard]] std::size_t chunk_bytes() const { return shape.numel() * size_of(dtype); }
};

Tensor tensor_of(const Device& device, const Shape& shape, const Values& values, DType dtype) {
  const Tensor tensor = Tensor::empty(device, shape, dtype);
  dispatch_float(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) tensor.span<T>()[i] = static_cast<T>(values[i]);
  });
  return tensor;
}

class RingMatmul : public test::RandomTest {
 protected:
  Case draw(int ranks, DType dtype) {
    return {.ranks = ranks,
            .shape = {random.between(1, 3), random.between(1, 4), random.between(1, 5)},
            .dtype = dtype,
            .seed = seed};
  }

  template <class Check>
  void for_cases(const Check& check) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const DType dtype : kFloatDTypes) {
        if (!HasFailure()) check(draw(ranks, dtype));
      }
    }
  }
};

// The ring of chunks ------------------------------------------------------------------------------

/// A chunk as it was used.
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
  for_cases([](const Case& c) {
    const auto gather = [&](Communicator& tp) {
      const Device cpu = Device::cpu();
      leave_garbage(cpu, c.shape.numel(), c.dtype);
      const Tensor own = tensor_of(cpu, c.shape, c.chunk_of(tp.rank()), c.dtype);
      if (c.ranks == 3) come_late(tp);
      std::vector<Used> all;
      gather_in_ring(own, tp, [&](int chunk, const Tensor& values) {
        all.push_back({chunk, values.shape(), values.to_vector()});
      });
      EXPECT_TRUE(all_equal(own, c.chunk_of(tp.rank())))
          << "Hint: the own chunk is not written to.";
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
    };
    on_ranks(c.ranks, c.str(), gather, {}, kRing);
  });
}

TEST_F(RingMatmul, GatheringSendsAndKeepsNoMoreThanItNeeds) {
  for_cases([](const Case& c) {
    const auto gather = [&](Communicator& tp) {
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
    };
    on_ranks(c.ranks, c.str(), gather, on_call(), kRing);
  });
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
  for_cases([](const Case& c) {
    const auto reduce = [&](Communicator& tp) {
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
      EXPECT_TRUE(made == expected)
          << fmt::format("rank {} makes the chunks {}, expected {}\n", tp.rank(),
                         fmt::join(made, " "), fmt::join(expected, " "))
          << kEveryPart;
      const bool right = sum.defined() && sum.shape() == c.shape;
      EXPECT_TRUE(right) << "Hint: the sum has the shape of a chunk.";
      if (!right) return;
      EXPECT_TRUE(all_equal(sum, c.sum(tp.rank()))) << "on rank " << tp.rank() << "\n"
                                                    << wrong_sum(c, tp.rank(), sum.to_vector());
    };
    on_ranks(c.ranks, c.str(), reduce, {}, kRing);
  });
}

TEST_F(RingMatmul, SumsSendAndKeepNoMoreThanTheyNeed) {
  for_cases([](const Case& c) {
    const auto reduce = [&](Communicator& tp) {
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
    };
    on_ranks(c.ranks, c.str(), reduce, on_call(), kRing);
  });
}

// What travels meanwhile --------------------------------------------------------------------------

/// Words between two neighbours: a rank that comes to a point says so, another waits for it.
class Words {
 public:
  explicit Words(const Communicator& tp) : words_(tp.split(0, tp.rank(), "words")) {}

  void say(int peer) const { words_.send(word_, peer); }
  void await(int peer) const { words_.recv(word_, peer); }

 private:
  Communicator words_;
  Tensor word_ = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
};

/// Runs one ring on 2, 3 and 4 ranks; `ring` is told the rank that the others watch.
void on_rings(test::Random& random, const char* hint,
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
    const bool is_watched = tp.rank() == watched;
    const bool is_before = tp.next_rank() == watched;
    if (is_before) words.await(watched);
    gather_steps(tp, [&](int step) {
      if (is_watched && step < last) words.say(tp.prev_rank());
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
    "the "
    "numbers of the chunks, and at the sums.";

/// Some whole numbers, the same on all ranks.
Tensor numbers(const Device& device, const Shape& shape, DType dtype, std::uint64_t seed,
               std::size_t which) {
  Values values;
  for (std::size_t i = 0; i < shape.numel(); ++i) {
    values.push_back(whole_number(seed, 0, which, i));
  }
  return tensor_of(device, shape, values, dtype);
}

/// The parameter of a matrix, or of a part of it.
nn::ParameterSpec spec_of(const Tensor& whole, std::vector<Range> shard) {
  return {.name = "weight",
          .global_shape = whole.shape(),
          .shard = std::move(shard),
          .initializer = {},
          .padding = 0};
}

/// A matrix split over ranks, and two micro-batches of its inputs and output gradients.
struct Matrix {
  Case c;             ///< chunks of [batch, local_seq, hidden]
  std::size_t inner;  ///< features that are split

  [[nodiscard]] std::size_t seq() const { return as_size(c.ranks) * c.shape[1]; }
  [[nodiscard]] Range features(int rank) const { return share(rank, inner); }
  [[nodiscard]] Range tokens(int rank) const { return share(rank, seq()); }
  [[nodiscard]] Tensor outside(const Device& device, std::size_t micro_batch) const {
    return numbers(device, {c.shape[0], seq(), c.shape[2]}, c.dtype, c.seed, 10 + micro_batch);
  }
  [[nodiscard]] Tensor inside(const Device& device, std::size_t micro_batch) const {
    return numbers(device, {c.shape[0], seq(), inner}, c.dtype, c.seed, 20 + micro_batch);
  }

 private:
  [[nodiscard]] Range share(int rank, std::size_t count) const {
    const std::size_t size = count / as_size(c.ranks);
    return {as_size(rank) * size, as_size(rank + 1) * size};
  }
};

/// A part of a layer's input, output or weight, in memory of its own.
Tensor part_of(const Tensor& whole, int dim, Range range) {
  return whole.slice(dim, range).clone();
}

void expect_part(const char* what, const Tensor& found, const Tensor& whole, int dim, Range range) {
  EXPECT_TRUE(all_equal(found, part_of(whole, dim, range))) << what << "\n" << kLayers;
}

/// A layer with split features that become outputs (column) or come in (row), against a whole one.
enum class Kind { kColumn, kRow };

void expect_layer(const Matrix& m, Kind kind, const Communicator& tp) {
  const Device device = Device::cpu();
  const bool column = kind == Kind::kColumn;
  const std::size_t hidden = m.c.shape[2];
  const Shape shape = column ? Shape{m.inner, hidden} : Shape{hidden, m.inner};
  const Tensor weight = numbers(device, shape, m.c.dtype, m.c.seed, 1);
  const int split_dim = column ? 0 : 1;  // of the weight
  const Range features = m.features(tp.rank());
  const Range tokens = m.tokens(tp.rank());
  std::vector<Range> shard = {{0, shape[0]}, {0, shape[1]}};
  shard[as_size(split_dim)] = features;

  nn::DenseLinear dense(spec_of(weight, {}), device, m.c.dtype, m.c.seed);
  dense.parameters()[0]->set_value(weight);
  std::vector<std::unique_ptr<nn::Parameter>> own;
  own.push_back(
      std::make_unique<nn::Parameter>(spec_of(weight, shard), device, m.c.dtype, m.c.seed));
  own[0]->set_value(part_of(weight, split_dim, features));
  const nn::Parameter& parameter = *own[0];
  std::unique_ptr<RingColumnParallel> ring_column;
  std::unique_ptr<RingRowParallel> ring_row;
  if (column) ring_column = std::make_unique<RingColumnParallel>(std::move(own), tp);
  if (!column) ring_row = std::make_unique<RingRowParallel>(std::move(own[0]), tp);

  for (std::size_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
    nn::Saved dense_saved;
    nn::Saved saved;
    const Tensor outside = m.outside(device, micro_batch);
    const Tensor inside = m.inside(device, micro_batch);
    const Tensor y = dense.forward(column ? outside : inside, dense_saved);
    const Tensor d_x = dense.backward(column ? inside : outside, dense_saved);
    const Tensor own_outside = part_of(outside, 1, tokens);
    const Tensor own_inside = part_of(inside, 2, features);
    if (column) {
      const Tensor found = ring_column->forward(own_outside, saved)[0];
      const std::vector<Tensor> gradients = {own_inside};
      const Tensor found_d_x = ring_column->backward(gradients, saved);
      expect_part("the column's outputs", found, y, 2, features);
      expect_part("the column's input gradient", found_d_x, d_x, 1, tokens);
    } else {
      const Tensor found = ring_row->forward(own_inside, saved);
      const Tensor found_d_x = ring_row->backward(own_outside, saved);
      expect_part("the row's output", found, y, 1, tokens);
      expect_part("the row's input gradient", found_d_x, d_x, 2, features);
    }
  }
  expect_part("the weight's gradient", parameter.grad(), dense.parameters()[0]->grad(), split_dim,
              features);
}

TEST_F(RingMatmul, LayersInRingsGiveWhatWholeMatricesDo) {
  for_cases([this](const Case& c) {
    const Matrix m{.c = c, .inner = as_size(c.ranks) * random.between(1, 3)};
    const auto layers = [&](Communicator& tp) {
      expect_layer(m, Kind::kColumn, tp);
      expect_layer(m, Kind::kRow, tp);
    };
    on_ranks(c.ranks, c.str(), layers, {}, kLayers);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel
