#include "chapters/02_collectives/halving_doubling.hpp"

#include "chapters/02_collectives/steps.hpp"
#include "tests/exercises/02_collectives/trials.hpp"

namespace ultra {
namespace {

using comm::Lane;

constexpr int kPowersOfTwo[] = {2, 4, 8, 1, 16};

using Algorithm = Lane (*)(const Group&, const Chunks&);

test::MakeSchedule on(const Chunks& chunks, Algorithm algorithm) {
  return test::one_lane(
      [chunks, algorithm](const Group& group) { return algorithm(group, chunks); });
}

/// Distance from position 0 to its partner in each step; 0 for a step without one.
std::vector<int> distances(const CollectiveTrial& trial) {
  std::vector<int> all;
  for (const comm::Round& step : trial.schedule(0).lanes.front()) {
    all.push_back(step.send_to == comm::kNobody ? 0 : trial.position_of(step.send_to));
  }
  return all;
}

bool far_first(const std::vector<int>& distances) { return distances.front() > distances.back(); }

/// Whether position p ends with the chunk at the opposite end of the group complete.
bool mirrored(const CollectiveTrial& trial, const Chunks& chunks) {
  for (int p = 0; p < trial.size(); ++p) {
    const Range chunk = chunks[p ^ (trial.size() - 1)];
    for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
      for (const int count : trial.contributions(trial.data(p)[i])) {
        if (count != 1) return false;
      }
    }
  }
  return true;
}

std::string halving_hint(const CollectiveTrial& trial, const Chunks& chunks) {
  if (!trial.in_whole_world()) return test::hint_for_stuck(trial);
  if (const std::vector<int> way = distances(trial); way.size() > 1 && !far_first(way)) {
    return fmt::format(
        "\nHint: halving begins with the partner that is farthest away, at distance P/2 = {}, and "
        "exchanges half of everything; position 0 begins with position {} here. Only in this order "
        "are the chunks that stay neighbours, and chunk i stays at position i.",
        trial.size() / 2, way.front());
  }
  if (trial.fault() != test::Fault::kNone) return test::hint_for_stuck(trial);
  if (mirrored(trial, chunks)) {
    return "\nHint: each position keeps the half that its own chunk is in, the upper one when its "
           "bit of the distance is set, and sends the other.";
  }
  return "\nHint: write down the windows for P = 4. Before the step with distance d, a position "
         "works on 2 d chunks; it sends the d that its partner keeps and combines the d that it "
         "keeps.";
}

std::string doubling_hint(const CollectiveTrial& trial) {
  if (!trial.in_whole_world()) return test::hint_for_stuck(trial);
  if (const std::vector<int> way = distances(trial); way.size() > 1 && far_first(way)) {
    return "\nHint: doubling begins with the nearest partner: windows of one chunk at distance 1, "
           "then windows of two at distance 2.";
  }
  if (trial.fault() != test::Fault::kNone) return test::hint_for_stuck(trial);
  for (const comm::Round& step : trial.schedule(0).lanes.front()) {
    if (step.on_receive == comm::OnReceive::kReduce) {
      return "\nHint: these chunks are complete: what arrives overwrites the old contents.";
    }
  }
  return "\nHint: write down the windows for P = 4. Before the step with distance d a position "
         "holds d chunks that stand side by side, its own among them, and its partner the d beside "
         "them.";
}

class HalvingDoubling : public test::RandomTest {
 protected:
  template <class Check>
  void for_powers_of_two(const Check& check) {
    test::for_trial_cases(random, kPowersOfTwo, [&](const TrialCase& c) {
      check(c.members, test::chunks_for(c, random));
    });
  }
};

TEST_F(HalvingDoubling, HalvingEndsWithChunkIAtPositionI) {
  for_powers_of_two([](const test::Members& members, const Chunks& chunks) {
    CollectiveTrial trial(members, on(chunks, collectives::recursive_halving_reduce_scatter));
    const auto kept = trial.reduce_scatter(chunks);
    EXPECT_TRUE(kept) << halving_hint(trial, chunks);
    if (!kept) return;
    EXPECT_EQ(trial.rounds(), collectives::doubling_rounds(trial.size())) << "steps";
    for (int p = 0; p < trial.size(); ++p) {
      EXPECT_EQ(trial.sent(p), chunks.whole().end - chunks[p].size())
          << "elements that position " << p << " sends.\nHint: each step sends half of the window "
          << "that is left, n/2 + n/4 + ... elements in all.";
    }
  });
}

TEST_F(HalvingDoubling, DoublingEndsWithAllChunksEverywhere) {
  for_powers_of_two([](const test::Members& members, const Chunks& chunks) {
    CollectiveTrial trial(members, on(chunks, collectives::recursive_doubling_all_gather));
    const auto kept = trial.all_gather(chunks);
    EXPECT_TRUE(kept) << doubling_hint(trial);
    if (!kept) return;
    EXPECT_EQ(trial.rounds(), collectives::doubling_rounds(trial.size())) << "steps";
    std::size_t sent = 0;
    for (int p = 0; p < trial.size(); ++p) sent += trial.sent(p);
    EXPECT_EQ(sent, chunks.whole().end * static_cast<std::size_t>(trial.size() - 1))
        << "elements that all send together: each chunk reaches P - 1 others";
  });
}

TEST_F(HalvingDoubling, TogetherTheyAreAnAllReduce) {
  for_powers_of_two([this](const test::Members& members, const Chunks& chunks) {
    CollectiveTrial trial(members, on(chunks, collectives::halving_doubling_all_reduce));
    EXPECT_TRUE(trial.all_reduce(chunks.whole().end));
    EXPECT_TRUE(trial.same_bits_everywhere(chunks.whole().end, random));
    EXPECT_EQ(trial.rounds(), 2 * collectives::doubling_rounds(trial.size())) << "steps";
  });
}

TEST_F(HalvingDoubling, RejectsAGroupThatIsNoPowerOfTwo) {
  for (const Algorithm algorithm :
       {collectives::recursive_halving_reduce_scatter, collectives::recursive_doubling_all_gather,
        collectives::halving_doubling_all_reduce}) {
    for (const int size : {3, 5, 6, 7, 12}) {
      const auto message = message_of<ConfigError>([&] {
        return algorithm(Group::all(0, size), Chunks::even({0, 100}, size));
      });
      EXPECT_NE(message.find(std::to_string(size)), std::string::npos)
          << "the message names the group's size: '" << message
          << "'\nHint: with a size that is no power of two some partners do not exist: throw "
          << "ConfigError before the first step.";
    }
  }
}

}  // namespace
}  // namespace ultra
