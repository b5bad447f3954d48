// The overlap condition against the trace of a ring on a slowed link.
//
// Covers: chapters/06_context_parallel/cost/ring_overlap.hpp

#include "chapters/06_context_parallel/cost/ring_overlap.hpp"
#include "chapters/06_context_parallel/ring_backward.hpp"
#include "chapters/06_context_parallel/ring_forward.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/06_context_parallel/transfer_trace.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel {
namespace {

using Clock = CommObserver::Clock;
using test::AttentionOfAll;
using test::TransferTrace;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class RingOnASlowedLink : public ultra::test::RandomTest {
 protected:
  static constexpr double kTransfer = 0.03;  // seconds

  /// Calls `fn` on ranks whose keys and values take kTransfer seconds to the next one.
  static void on_slow_ring(const AttentionOfAll& all,
                           const std::function<void(const SequenceGroup&)>& fn) {
    ultra::test::on_ranks(
        static_cast<int>(all.chunks.size()), all.str(),
        [&](Communicator& cp) { fn({.ranks = cp, .chunks = all.chunks}); },
        ultra::test::on_call(test::slowed(all, kTransfer)));
  }
};

// Of each transfer the rank waits for what its block has not hidden: a bound that holds however busy
// the machine is.
TEST_F(RingOnASlowedLink, WaitsForTheRestOfEachTransfer) {
  for (const int ranks : {2, 4}) {
    AttentionOfAll all(random, device, DType::kF64, ranks, 64);
    all.window = 0;  // which would leave steps out
    on_slow_ring(all, [&](const SequenceGroup& ring) {
      const BlockAttention queries = all.queries(ring.ranks.rank());
      TransferTrace trace(ring.ranks);
      static_cast<void>(ring_forward(queries, all.own(ring.ranks.rank()), ring));
      const std::vector<TransferTrace::Transfer> transfers = trace.transfers();
      EXPECT_EQ(transfers.size(), static_cast<std::size_t>(ranks) - 1);
      for (const TransferTrace::Transfer& transfer : transfers) {
        EXPECT_GE(transfer.exposed, 0.99 * std::max(0.0, kTransfer - transfer.hidden));
      }
    });
  }
}

TEST_F(RingOnASlowedLink, TheConditionIsTheRatioOfATransferToTheWorkOfAStep) {
  AttentionOfAll all(random, device, DType::kF64, 4, 64);
  all.balance();
  train::RankCounters counters;
  const KeyValues keys = all.own(2);
  const BlockAttention queries(
      all.part(all.query, 1), all.chunks[1],
      {.seq_len = all.places.sequence_len, .places = &all.places, .counters = &counters});
  const double seconds = test::work_seconds([&] { queries.attend(queries.empty_partial(), keys); });
  const double flops = counters.sums().at(std::string(kAttentionFlops)) / seconds;
  const double bytes_per_second = 2.0 * static_cast<double>(keys.key.nbytes()) / kTransfer;
  const double ratio = transfer_over_compute(128, 2, 8, flops, bytes_per_second);
  EXPECT_NEAR(ratio, kTransfer / seconds, 1e-9 * ratio) << "2 query heads per key/value head";
}

using Transfers = std::vector<TransferTrace::Transfer>;

/// A ring forward and backward on 2 ranks: keys, keys again, gradients, and these home; of each rank.
std::vector<Transfers> follow_ring(const AttentionOfAll& all, double transfer) {
  std::vector<Transfers> seen(2);
  const auto ring_on_rank = [&](Communicator& cp) {
    const SequenceGroup ring{.ranks = cp, .chunks = all.chunks};
    const BlockAttention queries = all.queries(cp.rank());
    const KeyValues own = all.own(cp.rank());
    const Tensor d_output = all.part(all.d_output, cp.rank());
    TransferTrace trace(cp);
    const PartialAttention whole = ring_forward(queries, own, ring);
    static_cast<void>(ring_backward(queries, d_output, whole, own, ring));
    seen[static_cast<std::size_t>(cp.rank())] = trace.transfers();
  };
  ultra::test::on_ranks(2, all.str(), ring_on_rank,
                        ultra::test::on_call(test::slowed(all, transfer)));
  return seen;
}

// The closed form of what the trace says of computing is what a rank waits at least: on a busy machine
// it waits for a late neighbour, too. That it is no more on an idle one: ring_overlap_test.cpp.
TEST_F(RingOnASlowedLink, WaitsForWhatTheConditionLeavesUnhidden) {
  if (launched_world_size()) GTEST_SKIP() << "compares the ranks of one process";
  AttentionOfAll all(random, device, DType::kF64, 2, 256);
  all.balance();
  const double step = test::work_seconds([&] {
    const BlockAttention queries = all.queries(0);
    queries.attend(queries.empty_partial(), all.own(1));
  });
  for (const double ratio : {0.25, 1.0, 4.0}) {  // of a transfer to a forward step
    const double transfer = ratio * step;
    for (const Transfers& rank : follow_ring(all, transfer)) {
      ASSERT_EQ(rank.size(), 4U);
      const RingTimes predicted =
          predict_ring(2, {.forward = rank[0].hidden,
                           .backward = (rank[1].hidden + rank[2].hidden) / 2,
                           .transfer = transfer});
      double waited = rank[3].hidden;  // nothing is computed beside the last hop
      for (const TransferTrace::Transfer& one : rank) waited += one.exposed;
      EXPECT_GE(waited, 0.99 * predicted.exposed)
          << "a transfer takes " << ratio << " times a step";
    }
  }
}

// Without a block to hide them, a rank's messages leave one after the other.
TEST_F(RingOnASlowedLink, TakesAtLeastAsLongAsPredicted) {
  for (const int ranks : {2, 3}) {
    AttentionOfAll all(random, device, DType::kF64, ranks, 4);
    all.window = 0;
    on_slow_ring(all, [&](const SequenceGroup& ring) {
      const int rank = ring.ranks.rank();
      const BlockAttention queries = all.queries(rank);
      const KeyValues own = all.own(rank);
      const Clock::time_point begin = Clock::now();
      const PartialAttention whole = ring_forward(queries, own, ring);
      static_cast<void>(ring_backward(queries, all.part(all.d_output, rank), whole, own, ring));
      const RingTimes predicted =
          predict_ring(ranks, {.forward = 0, .backward = 0, .transfer = kTransfer});
      EXPECT_GE(seconds_between(begin, Clock::now()), 0.99 * predicted.total());
    });
  }
}

}  // namespace
}  // namespace ultra::context_parallel
