// One order for every sum, on every mesh: a linear layer trained on dp x tp ranks and in micro-batches has
// all bits of one that was trained on one rank.
//
// Covers: common/ops/sums/sum_tree.hpp
// Covers: chapters/02_collectives/algorithms/pairwise_reduction.hpp

#include "common/ops/sums/sum_tree.hpp"

#include <atomic>
#include <cstring>

#include "chapters/02_collectives/algorithms/pairwise_reduction.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/ops/backend/cpu/tree_gemm.hpp"
#include "tests/support/contracts/rank_order.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using ops::NodeCounter;
using ops::SumTree;
using ops::Transpose;
using ops::Write;
using ops::cpu::MatrixView;
using ops::cpu::tree_gemm;

struct Layer {
  std::size_t in, out;          // features; the ranks of tp have parts of the first
  std::size_t sequence, batch;  // tokens, sequences
  std::size_t steps;
};

struct LayerMesh {
  int dp, tp;
  std::size_t micro_batches;  // of each replica
  bool scatters;              // gradients are reduced to shards, and weights gathered from them
};

/// What a training ends with: a loss for each step, and all weights [out, in].
template <class T>
struct Trained {
  std::vector<T> losses, weights;
};

/// Least squares with targets 0: y = x w^T, loss = |y|^2 / 2, so that y is its own gradient.
template <class T>
class Training {
 public:
  Training(const Layer& layer, const LayerMesh& mesh, std::vector<T> x, std::vector<T> weights)
      : layer_(layer), mesh_(mesh), x_(std::move(x)), initial_(std::move(weights)) {}

  Trained<T> run(const Communicator& world) const {
    const Communicator tp = world.split([&](int r) { return r / mesh_.tp; }, "tp");
    const Communicator dp = world.split([&](int r) { return r % mesh_.tp; }, "dp");
    const std::size_t own_in = layer_.in / static_cast<std::size_t>(mesh_.tp);
    const std::size_t first_in = own_in * static_cast<std::size_t>(tp.rank());
    const Tensor weights = Tensor::empty(Device::cpu(), {layer_.out, own_in}, dtype_of<T>());
    for (std::size_t o = 0; o < layer_.out; ++o) {
      std::copy_n(initial_.data() + o * layer_.in + first_in, own_in,
                  weights.data<T>() + o * own_in);
    }
    Trained<T> trained;
    for (std::size_t step = 0; step < layer_.steps; ++step) {
      trained.losses.push_back(train_step(dp, tp, weights));
    }
    const Tensor parts = Tensor::empty(
        Device::cpu(), {static_cast<std::size_t>(mesh_.tp), layer_.out, own_in}, dtype_of<T>());
    tp.all_gather(weights, parts).wait();
    for (std::size_t o = 0; o < layer_.out; ++o) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(mesh_.tp); ++t) {
        const T* row = parts.data<T>() + (t * layer_.out + o) * own_in;
        trained.weights.insert(trained.weights.end(), row, row + own_in);
      }
    }
    return trained;
  }

 private:
  struct Sums {
    std::vector<T> gradient;  // [out, in / tp]
    T loss;
    static Sums join(Sums left, const Sums& right) {
      for (std::size_t i = 0; i < left.gradient.size(); ++i) left.gradient[i] += right.gradient[i];
      left.loss += right.loss;
      return left;
    }
  };

  Sums micro_batch(const Communicator& tp, const Tensor& weights, std::size_t first_token,
                   std::size_t tokens) const {
    const std::size_t own_in = weights.size(1);
    const MatrixView<const T> x{
        x_.data() + first_token * layer_.in + own_in * static_cast<std::size_t>(tp.rank()),
        layer_.in};
    const Tensor y = Tensor::empty(Device::cpu(), {tokens, layer_.out}, dtype_of<T>());
    tree_gemm<T>(SumTree::of_axis(layer_.in), Transpose::kNo, Transpose::kYes, tokens, layer_.out,
                 own_in, x, {weights.data<T>(), own_in}, Write::kOverwrite,
                 {y.data<T>(), layer_.out});
    tp.all_reduce(y).wait();

    const SumTree of_tokens = SumTree::of_axis(layer_.sequence);
    Sums sums{std::vector<T>(layer_.out * own_in), 0};
    tree_gemm<T>(of_tokens, Transpose::kYes, Transpose::kNo, layer_.out, own_in, tokens,
                 {y.data<T>(), layer_.out}, x, Write::kOverwrite, {sums.gradient.data(), own_in});
    std::vector<T> losses;
    for (std::size_t token = 0; token < tokens; ++token) {
      std::vector<T> squares(layer_.out);
      for (std::size_t o = 0; o < layer_.out; ++o) {
        const T each = y.data<T>()[token * layer_.out + o];
        squares[o] = each * each / 2;
      }
      losses.push_back(SumTree::of_axis(layer_.out).sum(std::span<const T>(squares)));
    }
    sums.loss = of_tokens.sum(std::span<const T>(losses));
    return sums;
  }

  T train_step(const Communicator& dp, const Communicator& tp, const Tensor& weights) const {
    const std::size_t share = layer_.batch / static_cast<std::size_t>(mesh_.dp) * layer_.sequence;
    const std::size_t tokens = share / mesh_.micro_batches;
    NodeCounter<Sums, Sums (*)(Sums, const Sums&)> counter(&Sums::join);
    for (std::size_t i = 0; i < mesh_.micro_batches; ++i) {
      counter.add(micro_batch(tp, weights, share * static_cast<std::size_t>(dp.rank()) + i * tokens,
                              tokens));
    }
    const Sums sums = counter.take();
    const Tensor loss = Tensor::from<T>(Device::cpu(), {1}, std::vector<T>{sums.loss});
    dp.all_reduce(loss).wait();
    const Tensor gradient = Tensor::from<T>(Device::cpu(), {sums.gradient.size()}, sums.gradient);
    const Tensor flat = weights.view({weights.numel()});
    Range own{0, flat.numel()};
    if (mesh_.scatters) {
      own = comm::Chunks::even(own, dp.size())[dp.rank()];
      dp.reduce_scatter(gradient, gradient.slice(0, own)).wait();
    } else {
      dp.all_reduce(gradient).wait();
    }
    for (std::size_t i = own.begin; i < own.end; ++i) {
      const T change = static_cast<T>(1e-3) * gradient.data<T>()[i];
      flat.data<T>()[i] -= change;
    }
    if (mesh_.scatters) dp.all_gather(flat.slice(0, own), flat).wait();
    return loss.data<T>()[0];
  }

  Layer layer_;
  LayerMesh mesh_;
  std::vector<T> x_, initial_;
};

class SumTreeRanks : public test::RandomTest {
 protected:
  /// A mesh, and a layer of whose sums every part is a node.
  void draw() {
    mesh_ = random.pick({LayerMesh{1, 2, 1, false}, LayerMesh{2, 1, 1, false},
                         LayerMesh{2, 2, 1, false}, LayerMesh{3, 2, 1, false},
                         LayerMesh{7, 1, 1, false}, LayerMesh{4, 2, 1, false},
                         LayerMesh{5, 1, 1, false}, LayerMesh{1, 4, 1, false}});
    mesh_.micro_batches = std::size_t{1} << random.between(0, 2);
    mesh_.scatters = random.between(0, 1) == 1;
    layer_.steps = 3;
    layer_.sequence = random.pick<std::size_t>({8, 12, 32, 48});
    layer_.batch = static_cast<std::size_t>(mesh_.dp) * mesh_.micro_batches << random.between(0, 2);
    layer_.in = random.pick<std::size_t>({64, 96, 352});
    layer_.out = random.between(1, 40);
  }

  template <class T>
  std::vector<T> numbers(std::size_t count, double scale) {
    std::vector<T> drawn(count);
    for (T& x : drawn) x = static_cast<T>(scale * random.normal());
    return drawn;
  }

  template <class T>
  void expect_bits_of_one_rank(const std::string& algorithm, int& different);

  LayerMesh mesh_{};
  Layer layer_{};
};

/// @param different  counts meshes that end with other bits than one rank.
template <class T>
void SumTreeRanks::expect_bits_of_one_rank(const std::string& algorithm, int& different) {
  ASSERT_EQ(SumTree::of_axis(layer_.in).why_not(layer_.in, static_cast<std::size_t>(mesh_.tp)), "");
  const auto x = numbers<T>(layer_.batch * layer_.sequence * layer_.in, 1.0);
  const auto weights = numbers<T>(layer_.out * layer_.in, 0.1);
  RankOptions options;
  options.algorithms = std::make_shared<collectives::BookAlgorithms>(collectives::BookOptions{
      .names = {{OpKind::kAllReduce, algorithm}, {OpKind::kReduceScatter, algorithm}},
      .tuning = {}});
  std::atomic<bool> differs = false;
  run_ranks(
      mesh_.dp * mesh_.tp,
      [&](Communicator& world) {
        const Communicator alone = world.split([](int r) { return r; }, "alone");
        const Trained<T> one =
            Training<T>(layer_, LayerMesh{1, 1, 1, false}, x, weights).run(alone);
        const Trained<T> found = Training<T>(layer_, mesh_, x, weights).run(world);
        const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
          return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
        };
        if (!same(one.losses, found.losses) || !same(one.weights, found.weights)) differs = true;
      },
      options);
  if (differs) ++different;
}

TEST_F(SumTreeRanks, TrainALayerToTheBitsOfOneRank) {
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    draw();
    SCOPED_TRACE(fmt::format("dp {} tp {}, {} micro-batches, {} sequences of {}, [{}, {}]{}",
                             mesh_.dp, mesh_.tp, mesh_.micro_batches, layer_.batch, layer_.sequence,
                             layer_.out, layer_.in, mesh_.scatters ? ", in shards" : ""));
    int different = 0;
    i % 4 == 0 ? expect_bits_of_one_rank<double>("pairwise-tree", different)
               : expect_bits_of_one_rank<float>("pairwise-tree", different);
    EXPECT_EQ(different, 0);
  }
}

// The test above can tell: with sums in the order of the ranks, four of them end elsewhere.
TEST_F(SumTreeRanks, TrainItElsewhereInTheOrderOfTheRanks) {
  if (launched_world_size()) GTEST_SKIP() << "a process does not see what the others end with";
  mesh_ = {.dp = 4, .tp = 2, .micro_batches = 2, .scatters = false};
  layer_ = {.in = 64, .out = 20, .sequence = 16, .batch = 8, .steps = 3};
  int different = 0;
  expect_bits_of_one_rank<float>("pairwise", different);
  EXPECT_EQ(different, 1);
}

// The order of the pairwise algorithms' sums, bit by bit, on ranks of this process.

using collectives::BookAlgorithms;
using collectives::BookOptions;
using comm::Chunks;
using comm::Group;

std::shared_ptr<const BookAlgorithms> all_by(const std::string& name) {
  return std::make_shared<BookAlgorithms>(
      BookOptions{.names = {{OpKind::kAllReduce, name}, {OpKind::kReduceScatter, name}}});
}

class PairwiseReduction : public test::RandomTest {};

TEST_F(PairwiseReduction, SumsInTheOrderOfTheRanksWhereverAnElementIs) {
  const auto expect_order = [&](int size, std::size_t count, DType dtype) {
    SCOPED_TRACE(fmt::format("{} {} on {} ranks", count, to_string(dtype), size));
    EXPECT_TRUE(test::reduces_in_rank_order(all_by("pairwise"), size, count, dtype, random));
    EXPECT_TRUE(test::reduces_in_rank_order(all_by("pairwise-tree"), size, count, dtype, random,
                                            test::RankOrder::kTree));
  };
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    const auto p = static_cast<std::size_t>(size);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, p - 1, 12 * p, std::size_t{101}}) {
      expect_order(size, count, DType::kF32);
    }
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
      expect_order(size, random.between(1, 900), dtype);
    }
  }
}

// The trial can tell: two ranks have one order only, three have more.
TEST_F(PairwiseReduction, IsNotWhatTheRingDoes) {
  if (launched_world_size()) GTEST_SKIP() << "a process does not see what the others end with";
  EXPECT_TRUE(test::reduces_in_rank_order(all_by("ring"), 2, 300, DType::kI32, random));
  EXPECT_FALSE(test::reduces_in_rank_order(all_by("ring"), 3, 300, DType::kF32, random));
  // Of three ranks the two orders are one.
  EXPECT_FALSE(test::reduces_in_rank_order(all_by("pairwise"), 4, 300, DType::kF32, random,
                                           test::RankOrder::kTree));
}

TEST_F(PairwiseReduction, NeedsScratchMemoryForOneEqualChunk) {
  for (int size = 2; size <= 16; ++size) {
    const std::size_t chunk = random.between(1, 50);
    const std::size_t count = chunk * static_cast<std::size_t>(size);
    for (int r = 0; r < size; ++r) {
      const auto schedule =
          collectives::pairwise_all_reduce(Group::all(r, size), Chunks::even({0, count}, size));
      EXPECT_EQ(schedule.scratch_count, chunk) << "position " << r << " of " << size;
    }
  }
}

TEST_F(PairwiseReduction, NeedsMoreWhereChunksAreUneven) {
  for (int size = 2; size <= 16; ++size) {
    const auto p = static_cast<std::size_t>(size);
    const std::size_t count = random.between(p * p, 100 * p);
    const Chunks even = Chunks::even({0, count}, size);
    for (int r = 0; r < size; ++r) {
      const auto schedule = collectives::pairwise_reduce_scatter(Group::all(r, size), even);
      EXPECT_LE(schedule.scratch_count, 3 * even.largest()) << r << " of " << size;
    }
    // All is position 0's, which has nowhere to keep what the others send it.
    std::vector<std::size_t> counts(p, 0);
    counts.front() = count;
    const auto schedule =
        collectives::pairwise_reduce_scatter(Group::all(0, size), Chunks::of(counts));
    EXPECT_EQ(schedule.scratch_count, (p - 1) * count);
  }
}

}  // namespace
}  // namespace ultra
