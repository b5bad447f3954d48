// A step, rank by rank: what ranks have and send is what the recorder counts and the chapters derive.
//
// Covers: chapters/11_five_d/stepper/rank_story.hpp, chapters/11_five_d/stepper/step_through.hpp

#include <map>
#include <set>

#include "chapters/11_five_d/five_d.hpp"
#include "chapters/11_five_d/stepper/step_through.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::stepper {
namespace {

constexpr std::size_t kSeq = 64;
const std::string kModel =
    "--hidden 64 --heads 8 --kv-heads 4 --ffn 96 --vocab 256 --layers 8 --seq 64 "
    "--micro-batch 1 --on dgx-h100 ";
constexpr std::size_t kBytes = 2;  // of a number of bf16

train::Setup setup_of(const std::string& flags, int batch = 8) {
  return train::parse_setup(
      five_d::techniques(),
      ultra::test::words_of(kModel + flags + " --global-batch " + std::to_string(batch)));
}

std::vector<RankStory> stories_of(const std::string& flags, int batch = 8) {
  train::Setup setup = setup_of(flags, batch);
  return tell_ranks(setup);
}

const char* const kLayouts[] = {"",
                                "--dp 2 --zero 3",
                                "--tp 4 --sp on",
                                "--cp 4 --cp-method ring",
                                "--cp 2 --cp-method ulysses --zero 2",
                                "--pp 2 --schedule interleaved:2",
                                "--pp 4 --schedule zb-v --recompute full",
                                "--experts 4 --expert-ffn 32 --ep 4 --dp 4",
                                "--dp 2 --tp 2 --pp 2 --cp 2 --sp on --zero 1"};

class StepThrough : public ::testing::TestWithParam<const char*> {};

TEST_P(StepThrough, SendsWhatTheRanksCount) {
  const train::Setup setup = setup_of(GetParam());
  for (const RankStory& story : stories_of(GetParam())) {
    std::size_t sent = 0;
    for (const Deed& deed : story.deeds) sent += deed.sent_bytes;
    EXPECT_EQ(sent, train::record_step(setup, story.rank).sent.sent_bytes()) << story.rank;
  }
}

TEST_P(StepThrough, EveryDeedIsDoneOnceWhenItCanBe) {
  const std::vector<RankStory> stories = stories_of(GetParam());
  std::vector<std::size_t> next(stories.size());
  std::map<std::tuple<int, int, std::string, std::uint64_t>, int> on_the_way;
  for (const Round& round : rounds_of(stories)) {
    std::vector<std::tuple<int, int, std::string, std::uint64_t>> sent;
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      if (!round[rank]) continue;
      ASSERT_EQ(*round[rank], next[rank]++);
      const Deed& deed = stories[rank].deeds[*round[rank]];
      const int own = stories[rank].rank;
      if (deed.kind == DeedKind::kSend) {
        sent.emplace_back(own, deed.peer, deed.group.name, deed.number);
      }
      if (deed.kind == DeedKind::kReceive) {
        EXPECT_GE(--on_the_way[std::tuple(deed.peer, own, deed.group.name, deed.number)], 0);
      }
      if (deed.kind != DeedKind::kExchange) continue;
      for (const int member : deed.group.members) {
        const auto at = static_cast<std::size_t>(member);
        ASSERT_TRUE(round[at].has_value());
        EXPECT_EQ(stories[at].deeds[*round[at]].number, deed.number);
        EXPECT_EQ(stories[at].deeds[*round[at]].label, deed.label);
      }
    }
    for (const auto& key : sent) ++on_the_way[key];
  }
  for (std::size_t rank = 0; rank < stories.size(); ++rank) {
    EXPECT_EQ(next[rank], stories[rank].deeds.size());
  }
  for (const auto& [key, left] : on_the_way) EXPECT_EQ(left, 0);
}

TEST_P(StepThrough, RanksTogetherHaveEveryTokenAndEveryLayer) {
  std::set<std::pair<std::size_t, std::size_t>> tokens;
  std::set<std::size_t> layers;
  for (const RankStory& story : stories_of(GetParam())) {
    for (std::size_t s = story.sequences.begin; s < story.sequences.end; ++s) {
      for (const Range& run : story.positions) {
        for (std::size_t t = run.begin; t < run.end; ++t) tokens.emplace(s, t);
      }
    }
    for (const Range& chunk : story.layers) {
      for (std::size_t l = chunk.begin; l < chunk.end; ++l) layers.insert(l);
    }
    for (const PartPass& part : story.parts) {
      for (const HeldTensor& tensor : part.inputs) {
        std::size_t rows = 0;
        for (const Range& run : tensor.rows) rows += run.size();
        EXPECT_EQ(rows, tensor.shape[1]) << part.name << " " << tensor.name;
        EXPECT_LE(tensor.columns.end, tensor.width) << part.name << " " << tensor.name;
      }
    }
  }
  EXPECT_EQ(tokens.size(), 8 * kSeq);
  EXPECT_EQ(*layers.rbegin() + 1, layers.size());
}

INSTANTIATE_TEST_SUITE_P(Layouts, StepThrough, ::testing::ValuesIn(kLayouts));

/// The bytes that exchanges of a block's forward pass send, by label.
std::multimap<std::string, std::size_t> sent_in_block(const RankStory& story) {
  std::multimap<std::string, std::size_t> sent;
  for (const Deed& deed : story.deeds) {
    if (deed.phase != "forward, block 0") continue;
    if (deed.kind == DeedKind::kExchange) sent.emplace(deed.label, deed.sent_bytes);
    if (deed.kind == DeedKind::kSend) sent.emplace("message", deed.sent_bytes);
  }
  return sent;
}

TEST(StepThroughContextParallel, ARingSendsKeysAndValuesAllTheWayRoundButOnce) {
  const std::size_t pair = 2 * kSeq / 4 * 32 * kBytes;  // four heads of eight numbers
  for (const RankStory& story : stories_of("--cp 4", 1)) {
    EXPECT_THAT(sent_in_block(story), ::testing::UnorderedElementsAre(std::pair("message", pair),
                                                                      std::pair("message", pair),
                                                                      std::pair("message", pair)));
  }
}

TEST(StepThroughContextParallel, ZigzagGivesARankAnEarlyAndALateChunk) {
  const std::vector<RankStory> stories = stories_of("--cp 4", 1);
  EXPECT_THAT(stories[1].positions, ::testing::ElementsAre(Range{8, 16}, Range{48, 56}));
  EXPECT_THAT(stories[3].positions, ::testing::ElementsAre(Range{24, 40}));
}

TEST(StepThroughZero, EveryElementIsUpdatedOnce) {
  for (const char* stage : {"1", "2", "3"}) {
    std::map<std::string, std::size_t> updated;
    std::map<std::string, Shape> whole;
    for (const RankStory& story : stories_of(std::string("--dp 4 --pp 2 --zero ") + stage)) {
      // Of four blocks, and the table, or the last norm and the head.
      EXPECT_EQ(story.weights.size(), 4 * 9 + (story.layers[0].begin == 0 ? 1 : 2));
      for (const HeldWeight& weight : story.weights) {
        updated[weight.name] += weight.updated;
        whole[weight.name] = weight.whole;
      }
    }
    EXPECT_EQ(whole.size(), 8 * 9 + 3);
    for (const auto& [name, elements] : updated) EXPECT_EQ(elements, whole[name].numel()) << name;
  }
}

class StepThroughProgram : public ultra::test::ProgramTest {
 protected:
  StepThroughProgram() : ProgramTest("11_five_d") {}
};

TEST_F(StepThroughProgram, TellsAStepAsTextAndAsJson) {
  const std::string flags = kModel + "--global-batch 1 --tp 2 --sp on --step-through";
  EXPECT_THAT(answer_to(flags),
              AllOf(HasSubstr("rank 1: tp 1; sequences 0 to 0, tokens 0 to 63"),
                    HasSubstr("ranks 0,1: forward, block 0, o_proj: reduce-scatter in tp of 2: "
                              "output, each sends 4.10 kB"),
                    HasSubstr("sent in the step: rank 0 ")));
  const auto json = nlohmann::json::parse(answer_to(flags + " --step-through-json"));
  EXPECT_EQ(json["ranks"].size(), 2U);
  for (const auto& round : json["rounds"]) EXPECT_EQ(round.size(), 2U);
}

TEST_F(StepThroughProgram, SaysWhatItNeeds) {
  const auto refusal = [&](const std::string& flags) { return run_words(flags).err; };
  EXPECT_THAT(refusal("--step-through"), HasSubstr("needs --on: for example --on dgx-h100"));
  EXPECT_THAT(refusal("--step-through-json"), HasSubstr("no meaning without --step-through"));
  EXPECT_THAT(refusal(kModel + "--dp 32 --global-batch 32 --step-through"),
              AllOf(HasSubstr("32 are too many to read"), HasSubstr("at most 16")));
  EXPECT_THAT(refusal(kModel + "--tp 3 --step-through"), HasSubstr("--tp"));
  EXPECT_THAT(refusal("--on nowhere --step-through"), HasSubstr("nowhere"));
  EXPECT_THAT(refusal("--on --step-through"), HasSubstr("--on"));
  EXPECT_THAT(refusal(kModel + "--step-through --trace x.json"), HasSubstr("--trace"));
}

}  // namespace
}  // namespace ultra::stepper
