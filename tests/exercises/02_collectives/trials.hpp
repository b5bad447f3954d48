#pragma once
/// @file
/// What the tests of this chapter's exercises share: trials of collectives, and
/// what a learner may have overlooked in a ring, told from its steps.

#include "tests/support/contracts/collective_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {

using comm::Chunks;
using comm::Group;
using test::CollectiveTrial;
using test::TrialCase;

namespace test {

/// The hint for faults that both rings share; empty when the steps have the shape of a ring.
inline std::string hint_for_ring(const CollectiveTrial& trial) {
  const comm::Lane& steps = trial.schedule(0).lanes.front();
  if (trial.fault() == Fault::kDeadlock && trial.in_whole_world() && trial.size() > 2 &&
      !steps.empty() && steps.front().send_to == steps.front().receive_from) {
    return "\nHint: on a ring all messages go the same way: each position sends to the next one, "
           "group.next(), and receives from the one before, group.prev().";
  }
  if (trial.fault() != Fault::kNone || !trial.in_whole_world()) return hint_for_stuck(trial);
  if (static_cast<int>(steps.size()) != trial.size() - 1) {
    return fmt::format(
        "\nHint: a ring of P = {} takes P - 1 steps, one for each of the others; here are {}.",
        trial.size(), steps.size());
  }
  for (std::size_t s = 1; s < steps.size(); ++s) {
    if (steps[s].send != steps[s - 1].receive) {
      return fmt::format(
          "\nHint: a chunk travels around the ring: what a step sends is what the step before it "
          "has received. On rank 0, step {} receives [{}, {}), and step {} sends [{}, {}).",
          s, steps[s - 1].receive.range.begin, steps[s - 1].receive.range.end, s + 1,
          steps[s].send.range.begin, steps[s].send.range.end);
    }
  }
  return "";
}

}  // namespace test
}  // namespace ultra
