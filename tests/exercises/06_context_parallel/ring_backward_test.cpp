// Contract of exercise 06.4: gradients of attention over the keys of all ranks, each sum at home.
#include "chapters/06_context_parallel/ring_backward.hpp"

#include <gtest/gtest.h>

#include "tests/exercises/06_context_parallel/attention_on_ranks.hpp"
#include "tests/exercises/06_context_parallel/transfer_trace.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::context_parallel {
namespace {

using test::AttentionOfAll;
using ultra::test::all_near;
using ultra::test::on_ranks;

constexpr const char* kQuery = "Hint: every rank's keys add to the gradient of the queries, once.";
constexpr const char* kHome =
    "Hint: this is the gradient of another rank's keys, or a part of the sum: after N steps it is "
    "one hop from home.";
constexpr const char* kTraffic = "Hint: keys and values make N - 1 hops, their gradients N.";

constexpr const char* kEarly =
    "Hint: keys, or sums of gradients, were used before they had arrived: each shift has its wait.";
constexpr const char* kOverlap =
    "Hint: of 2 N - 1 transfers only the last hop home has no block to hide behind: begin to pass "
    "on keys and values before the block is computed, and wait for the sum that arrives after it.";
constexpr const char* kPairs =
    "Hint: six pairs are in memory: keys and values that are here and that arrive; of gradients "
    "the part that is made and the sum that arrives, and the two of the message before, until its "
    "Work gets another value.";

class RingBackward : public ultra::test::RandomTest {
 protected:
  /// Attention of a rank's queries over all keys, as ring_forward() gives it.
  static PartialAttention whole_of(const AttentionOfAll& all, int rank) {
    const BlockAttention queries = all.queries(rank);
    PartialAttention partial = queries.empty_partial();
    for (int owner = 0; owner < static_cast<int>(all.chunks.size()); ++owner) {
      queries.attend(partial, all.own(owner));
    }
    return partial;
  }
  static nn::QkvGradients gradients_on(const AttentionOfAll& all, const Communicator& cp) {
    const int rank = cp.rank();
    return ring_backward(all.queries(rank), all.part(all.d_output, rank), whole_of(all, rank),
                         all.own(rank), {.ranks = cp, .chunks = all.chunks});
  }
  static void expect_gradients(const AttentionOfAll& all, const Communicator& cp,
                               const nn::QkvGradients& own, const char* of_queries,
                               const char* of_keys) {
    const ops::AttentionGradients whole = all.backward();
    const double tolerance = 8 * all.tolerance();
    const auto part = [&](const Tensor& x) { return all.part(x, cp.rank()); };
    EXPECT_TRUE(all_near(own.d_query, part(whole.d_query), tolerance)) << of_queries;
    EXPECT_TRUE(all_near(own.d_key, part(whole.d_key), tolerance)) << of_keys;
    EXPECT_TRUE(all_near(own.d_value, part(whole.d_value), tolerance)) << of_keys;
  }
  static void on_slow_ranks(const AttentionOfAll& all, double transfer,
                            const std::function<void(Communicator&)>& fn) {
    on_ranks(static_cast<int>(all.chunks.size()), all.str(), fn,
             ultra::test::on_call(test::slowed(all, transfer)));
  }
};

TEST_F(RingBackward, EqualsGradientsOnOneRankAtTheCostOfSixPairs) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      const AttentionOfAll all(random, device, dtype, ranks, random.between(1, 4));
      const auto rank = [&](Communicator& cp) {
        const Device own_device = Device::cpu();
        const KeyValues own = all.own(cp.rank(), own_device);
        const std::size_t pair = 2 * own.key.nbytes();
        const std::size_t before = cp.stats().sent_bytes();
        const nn::QkvGradients gradients =
            ring_backward(all.queries(cp.rank()), all.part(all.d_output, cp.rank()),
                          whole_of(all, cp.rank()), own, {.ranks = cp, .chunks = all.chunks});
        expect_gradients(all, cp, gradients, kQuery, kHome);
        const std::size_t messages = all.steps() == 1 ? 0 : 2 * all.steps() - 1;
        EXPECT_EQ(cp.stats().sent_bytes() - before, messages * pair) << kTraffic;
        const MemoryTracker memory = own_device.memory();
        EXPECT_LE(memory.peak_total().bytes, (1 + 6) * pair) << "with its own pair\n" << kPairs;
        EXPECT_EQ(memory.current().total(), 2 * pair) << "its own pair, and its gradients\n"
                                                      << kPairs;
      };
      on_ranks(ranks, all.str(), rank, ultra::test::on_call());
    }
  }
}

// On a slow link nothing arrives by itself while a short block is computed.
TEST_F(RingBackward, WaitsForWhatItUses) {
  AttentionOfAll all(random, device, DType::kF64, 3, 2);
  all.balance();
  on_slow_ranks(all, 0.02, [&](Communicator& cp) {
    expect_gradients(all, cp, gradients_on(all, cp), kEarly, kEarly);
  });
}

TEST_F(RingBackward, AddsGradientsWhileOthersTravel) {
  AttentionOfAll all(random, device, DType::kF64, 3, 192);
  all.balance();
  on_slow_ranks(all, 0.002, [&](Communicator& cp) {
    const PartialAttention whole = whole_of(all, cp.rank());
    const BlockAttention queries = all.queries(cp.rank());
    const Tensor d_output = all.part(all.d_output, cp.rank());
    test::TransferTrace trace(cp);
    static_cast<void>(ring_backward(queries, d_output, whole, all.own(cp.rank()),
                                    {.ranks = cp, .chunks = all.chunks}));
    const KeyValues keys = all.own(cp.next_rank());
    const double step = test::work_seconds([&] {
      queries.add_gradients(d_output, whole, keys,
                            {d_output.clone(), keys.key.clone(), keys.key.clone()});
    });
    EXPECT_LE(test::bare_transfers(trace, step), 1) << "of 5 transfers\n" << kOverlap;
  });
}

}  // namespace
}  // namespace ultra::context_parallel
