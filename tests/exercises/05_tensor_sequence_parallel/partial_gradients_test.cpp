// Contract of exercise 05.5: sums of whole numbers over groups of any shape, copies that stay alike
// bit for bit, and what is sent.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/exercises/05_tensor_sequence_parallel/held_parameters.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using nn::CopyGradients;
using test::as_size;
using test::Group;
using test::Held;
using test::Holder;
using test::Names;
using test::Values;
using Case = test::HeldCase;

/// The sums where they belong, at the cost of one all-reduce per group.
void expect_completed(const Case& c) {
  ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& world) {
    const Holder holder(c, world);
    if (c.late) ultra::test::come_late(world);
    const CommStats before = world.stats();
    sum_partial_gradients(holder.pieces, holder.groups);
    const CommStats after = world.stats();
    for (std::size_t i = 0; i < holder.pieces.size(); ++i) {
      const std::size_t p = holder.numbers[i];
      const Tensor& found = holder.pieces[i].grad;
      const Values right = c.summed(c.before(p), c.in_parts(p))[as_size(world.rank())];
      EXPECT_TRUE(ultra::test::all_equal(found, right))
          << c.held[p].name << " on rank " << world.rank() << "\n"
          << test::diagnosis(c, p, world.rank(), found, right);
      const Values array = holder.arrays[i].to_vector();
      EXPECT_TRUE(array.front() == test::kSomebodyElses && array.back() == test::kSomebodyElses)
          << c.held[p].name
          << "\nHint: what stands beside the piece was written, too: a piece may be a part of a "
             "larger array.";
    }
    std::size_t all_reduces = 0;
    std::size_t elements = 0;
    for (const auto& [name, ranks] : holder.groups.all()) {
      std::size_t count = 0;
      for (const train::GradientPiece& piece : holder.pieces) {
        for (const nn::Replication& held : piece.parameter->replications()) {
          const bool adds = held.group == name && held.gradients == CopyGradients::kPartial;
          count += adds ? piece.grad.numel() : 0;
        }
      }
      const std::size_t share = comm::Chunks::even({0, count}, ranks.size())[ranks.rank()].size();
      elements += count - share + as_size(ranks.size() - 1) * share;  // of an all-reduce on a ring
      all_reduces += count > 0 && ranks.size() > 1 ? 1U : 0U;
    }
    EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
              all_reduces)
        << "all-reduces\nHint: one all-reduce for each group that has such gradients: put them "
           "into one array. Many small ones would each cost the time of a message.";
    EXPECT_EQ(after.sent_bytes() - before.sent_bytes(), elements * size_of(c.dtype))
        << "bytes sent\nHint: 2 (P-1)/P of what a group of P ranks has in parts, and of nothing "
           "else.";
  });
}

class PartialGradients : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, std::vector<Group> groups, std::vector<Held> held) {
    if (random.between(0, 1) == 1) std::ranges::reverse(groups);
    std::ranges::rotate(
        held, held.begin() + static_cast<std::ptrdiff_t>(random.between(0, held.size() - 1)));
    return {.ranks = ranks,
            .groups = std::move(groups),
            .held = std::move(held),
            .dtype = random.pick({DType::kF32, DType::kF64}),
            .seed = seed};
  }
  /// A model on tp ranks, of which kv_copies hold the same key/value heads.
  Case draw_model(int tp, int kv_copies, int replicas = 1) {
    std::vector<Held> held;
    for (int layer = 0; layer < 2; ++layer) {
      const std::vector<Held> block = {{"norm behind whole sequences", {}, {"tp"}},
                                       {"norm of own tokens", {"tp"}, {}},
                                       {"queries", {}, {}},
                                       {"keys", {"heads"}, {}},
                                       {"values", {"heads"}, {}}};
      held.insert(held.end(), block.begin(), block.end());
    }
    Case c = draw(tp * replicas, {{.name = "tp", .size = tp}, {.name = "heads", .size = kv_copies}},
                  held);
    c.replicas = replicas;
    return c;
  }
};

TEST_F(PartialGradients, PartsAreAddedUpOverTheRanksThatHoldTheSame) {
  for (const int tp : {1, 2, 3, 4, 6, 8}) {
    for (int copies = 1; copies <= tp; ++copies) {
      if (tp % copies == 0 && !HasFailure()) expect_completed(draw_model(tp, copies));
    }
  }
}

TEST_F(PartialGradients, GroupsOfEqualSizeAreKeptApart) {
  for (const int size : {2, 3}) {  // rows and columns of a square of ranks
    const std::vector<Group> groups = {{.name = "row", .size = size},
                                       {.name = "column", .size = size, .stride = size}};
    std::vector<Held> held;
    const std::vector<std::pair<Names, Names>> ways = {
        {{"row"}, {}},          {{"column"}, {}},      {{}, {"row"}},
        {{"row"}, {"column"}},  {{"column"}, {"row"}}, {{"row", "column"}, {}},
        {{}, {"row", "column"}}};
    for (const auto& [in_parts, whole] : ways) held.push_back({"matrix", in_parts, whole});
    expect_completed(draw(size * size, groups, held));
  }
}

TEST_F(PartialGradients, PiecesOfShardsAreAddedUpAmongThoseThatHaveTheSameOnes) {
  for (const int replicas : {2, 3}) expect_completed(draw_model(4, 2, replicas));
}

TEST_F(PartialGradients, TheSumsAreHereWhenTheLastRankHasCome) {
  Case c = draw_model(4, 2);
  c.late = true;
  expect_completed(c);
}

TEST_F(PartialGradients, AllCopiesHaveTheSameBits) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    Case c = draw_model(6, 3);
    c.dtype = dtype;
    std::erase_if(c.held, [](const Held& held) { return held.in_parts.empty(); });
    std::vector<std::vector<Tensor>> sums(6);
    std::vector<std::size_t> numbers;
    ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& world) {
      const Holder holder(c, world);
      ultra::test::Random own(seed + as_size(world.rank()));
      for (const train::GradientPiece& piece : holder.pieces) {
        own.fill(piece.grad, 1.0);
        sums[as_size(world.rank())].push_back(piece.grad);
      }
      sum_partial_gradients(holder.pieces, holder.groups);
      if (world.rank() == 0) numbers = holder.numbers;
    });
    for (std::size_t i = 0; i < numbers.size() && !HasFailure(); ++i) {
      for (int rank = 0; rank < c.ranks; ++rank) {
        const int first = c.in_parts(numbers[i])[0].first_of(rank);
        EXPECT_TRUE(ultra::test::all_equal(sums[as_size(rank)][i], sums[as_size(first)][i]))
            << c.held[numbers[i]].name << " on ranks " << rank << " and " << first
            << "\nHint: copies that differ in a bit drift apart: every rank has the same sum.";
      }
    }
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
