// The chapter's promise, through whole training runs: however sequences, matrices, batches and states
// are split over a mesh dp x cp x tp, the ranks compute what one rank computes.
//
// Covers: chapters/06_context_parallel/context_parallel.hpp
// Covers: chapters/06_context_parallel/context_parallel_factory.hpp

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/chapters/06_context_parallel/context_run.hpp"

namespace ultra::context_parallel {
namespace {

using namespace context_parallel::test;

class ContextTraining : public ContextTest {};

TEST_F(ContextTraining, EveryMethodAndLayoutComputesWhatOneRankComputes) {
  for (const int cp : {1, 2, 3, 4, 5, 8}) {
    for (const ContextMethod method :
         {ContextMethod::kRing, ContextMethod::kAllGather, ContextMethod::kUlysses}) {
      for (const auto layout : {SequenceLayout::kContiguous, SequenceLayout::kZigzag}) {
        const int ulysses = method == ContextMethod::kUlysses ? cp : 1;
        const MethodChoice choice{.method = method, .cp = cp, .ulysses = ulysses};
        expect_equals_one_rank(draw(1, 1, {choice, layout}, DType::kF64));
        if (cp == 1) break;
      }
    }
  }
}

TEST_F(ContextTraining, HeadsAmongNeighboursAndARingAcross) {
  for (const auto& [cp, ulysses] :
       std::vector<std::pair<int, int>>{{4, 2}, {6, 2}, {6, 3}, {8, 4}}) {
    const MethodChoice choice{.method = ContextMethod::kUlyssesRing, .cp = cp, .ulysses = ulysses};
    expect_equals_one_rank(draw(1, 1, choice, DType::kF64));
  }
}

TEST_F(ContextTraining, MeshesWithEveryStageOfZero) {
  using Mesh = std::tuple<std::size_t, int, std::size_t>;  // dp, cp, tp
  for (const auto& [dp, cp, tp] : std::vector<Mesh>{
           {2, 2, 1}, {2, 2, 2}, {1, 2, 4}, {3, 2, 1}, {1, 3, 2}, {2, 4, 1}, {1, 4, 2}}) {
    MeshCase c = draw(dp, tp, draw_choice(cp), DType::kF64);
    c.more = fmt::format("--zero {} --overlap {}", random.between(0, 3),
                         random.pick({"none", "bucketed"}));
    expect_equals_one_rank(c);
  }
}

// A chunk, and a whole rank, may have no token at all.
TEST_F(ContextTraining, PaddingThatFillsARank) {
  for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kAllGather}) {
    for (const auto& [layout, seq_len] : {
             std::pair{SequenceLayout::kContiguous, 6U},  // chunks of 2: the last is empty
             std::pair{SequenceLayout::kZigzag, 9U},      // of 2 too: three of eight are empty
         }) {
      MeshCase c = draw(1, 1, {{.method = method, .cp = 4}, layout}, DType::kF64);
      c.options.model.max_seq_len = seq_len;
      expect_equals_one_rank(c);
    }
  }
}

}  // namespace
}  // namespace ultra::context_parallel
