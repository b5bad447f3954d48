// Contract of exercise 06.3: attention over the keys of all ranks, and what travels for it.
#include "chapters/06_context_parallel/ring_forward.hpp"

#include <gtest/gtest.h>

#include "tests/exercises/06_context_parallel/attention_on_ranks.hpp"
#include "tests/exercises/06_context_parallel/transfer_trace.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::context_parallel {
namespace {

using test::AttentionOfAll;
using ultra::test::all_near;
using ultra::test::on_ranks;

constexpr const char* kWhose =
    "Hint: after s steps the keys of rank - s (modulo N) are here, with its tokens.";
constexpr const char* kTraffic =
    "Hint: keys and values are sent once between one step and the next: after the last nobody "
    "needs more, and a step in which a window lets nobody see anything is none.";

constexpr const char* kEarly =
    "Hint: keys were used before they had arrived: wait for a shift before its block is computed.";
constexpr const char* kOverlap =
    "Hint: nothing is computed while keys and values travel: begin the shift, attend to what is "
    "here, and only then wait.";
constexpr const char* kTwoPairs =
    "Hint: two pairs of keys and values are in memory: those that are here, and those that arrive.";

class RingForward : public ultra::test::RandomTest {};

TEST_F(RingForward, EqualsAttentionOnOneRankAtTheCostOfTwoPairs) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      const AttentionOfAll all(random, device, dtype, ranks, random.between(1, 4));
      const ops::AttentionResult whole = all.forward();
      const auto rank = [&](Communicator& cp) {
        const Device own_device = Device::cpu();
        const KeyValues own = all.own(cp.rank(), own_device);
        const std::size_t pair = 2 * own.key.nbytes();
        const std::size_t before = cp.stats().sent_bytes();
        const PartialAttention partial =
            ring_forward(all.queries(cp.rank()), own, {.ranks = cp, .chunks = all.chunks});
        EXPECT_TRUE(all_near(partial.output, all.part(whole.output, cp.rank()), all.tolerance()))
            << kWhose;
        EXPECT_EQ(cp.stats().sent_bytes() - before, (all.steps() - 1) * pair) << kTraffic;
        const MemoryTracker memory = own_device.memory();
        EXPECT_LE(memory.peak_total().bytes, 3 * pair) << "with its own pair\n" << kTwoPairs;
        EXPECT_EQ(memory.current().total(), pair) << kTwoPairs;
      };
      on_ranks(ranks, all.str(), rank, ultra::test::on_call());
    }
  }
}

// On a slow link nothing arrives by itself while a short block is computed.
TEST_F(RingForward, WaitsForWhatItAttendsTo) {
  AttentionOfAll all(random, device, DType::kF64, 3, 2);
  all.balance();
  const ops::AttentionResult whole = all.forward();
  on_ranks(
      3, all.str(),
      [&](Communicator& cp) {
        const PartialAttention partial = ring_forward(all.queries(cp.rank()), all.own(cp.rank()),
                                                      {.ranks = cp, .chunks = all.chunks});
        EXPECT_TRUE(all_near(partial.output, all.part(whole.output, cp.rank()), all.tolerance()))
            << kEarly;
      },
      ultra::test::on_call(test::slowed(all, 0.02)));
}

TEST_F(RingForward, AttendsWhileTheNextKeysTravel) {
  AttentionOfAll all(random, device, DType::kF64, 3, 192);
  all.balance();
  on_ranks(
      3, all.str(),
      [&](Communicator& cp) {
        const BlockAttention queries = all.queries(cp.rank());
        test::TransferTrace trace(cp);
        static_cast<void>(
            ring_forward(queries, all.own(cp.rank()), {.ranks = cp, .chunks = all.chunks}));
        const double step = test::work_seconds(
            [&] { queries.attend(queries.empty_partial(), all.own(cp.next_rank())); });
        EXPECT_EQ(test::bare_transfers(trace, step), 0) << "of 2 transfers\n" << kOverlap;
      },
      ultra::test::on_call(test::slowed(all, 0.002)));
}

}  // namespace
}  // namespace ultra::context_parallel
