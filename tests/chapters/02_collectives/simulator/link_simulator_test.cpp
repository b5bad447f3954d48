// The rules of the simulator, one by one, on schedules of a few steps whose times can be worked out
// by hand. Against closed forms: closed_form_test.cpp.
// Covers: chapters/02_collectives/simulator/event_queue.hpp

#include "chapters/02_collectives/simulator/link_simulator.hpp"

#include <map>

#include "chapters/02_collectives/simulator/event_queue.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

using comm::kNobody;
using comm::Lane;
using comm::OnReceive;
using comm::Round;
using comm::Schedule;

/// alpha = 10, beta = 1 in a node; alpha = 100, beta = 2 between nodes; gamma = 0.5. In seconds.
Topology machine(int nodes, int gpus, int nics) {
  return {.nodes = nodes,
          .gpus_per_node = gpus,
          .intra = {.latency = 10.0, .bandwidth = 1.0},
          .inter = {.latency = 100.0, .bandwidth = 0.5},
          .nics_per_node = nics,
          .gamma = 0.5,
          .torus = {}};
}

Round send(int to, std::size_t count) { return {.send_to = to, .send = {{0, count}}}; }

Round receive(int from, std::size_t count, OnReceive on_receive = OnReceive::kStore) {
  return {.receive_from = from, .receive = {{0, count}}, .on_receive = on_receive};
}

/// Runs one schedule per rank; elements of 1 byte. Ranks without one take no part.
SimulationResult run(const Topology& topology, const std::vector<Schedule>& schedules,
                     Record record = Record::kTotals) {
  return simulate(
      topology, 1,
      [&](int rank) {
        const auto r = static_cast<std::size_t>(rank);
        return r < schedules.size() ? schedules[r] : Schedule{};
      },
      record);
}

/// One lane per rank.
SimulationResult run_lanes(const Topology& topology, const std::vector<Lane>& lanes,
                           Record record = Record::kTotals) {
  std::vector<Schedule> schedules;
  for (const Lane& lane : lanes) schedules.push_back({.lanes = {lane}});
  return run(topology, schedules, record);
}

TEST(LinkSimulator, AMessageTakesAlphaAndBeta) {
  const SimulationResult result = run_lanes(machine(1, 2, 1), {{send(1, 5)}, {receive(0, 5)}});
  EXPECT_EQ(result.seconds, 15.0);
  EXPECT_THAT(result.rank_seconds, ElementsAre(15.0, 15.0));
  EXPECT_EQ(result.messages, 1u);
  EXPECT_EQ(result.bytes_over(LinkKind::kIntra), 5u);
  EXPECT_EQ(result.bytes_over(LinkKind::kInter), 0u);
}

TEST(LinkSimulator, TheReceiverPaysForReducing) {
  const SimulationResult result =
      run_lanes(machine(1, 2, 1), {{send(1, 6)}, {receive(0, 6, OnReceive::kReduce)}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(16.0, 19.0));
}

TEST(LinkSimulator, AMessageWaitsForBothEnds) {
  // Rank 1 takes 110 s to hear from rank 2 before it listens to rank 0.
  const SimulationResult result =
      run_lanes(machine(1, 3, 1), {{send(1, 5)}, {receive(2, 100), receive(0, 5)}, {send(1, 100)}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(125.0, 125.0, 110.0));
}

TEST(LinkSimulator, AStepEndsWhenBothItsHalvesHave) {
  // Rank 1 sends 3 and receives 40: its next message starts at 50.
  const SimulationResult result = run_lanes(
      machine(1, 3, 1),
      {{send(1, 40), receive(1, 1)},
       {{.send_to = 2, .send = {{0, 3}}, .receive_from = 0, .receive = {{3, 43}}}, send(0, 1)},
       {receive(1, 3)}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(61.0, 61.0, 13.0));
}

TEST(LinkSimulator, LanesShareThePortButNotTheLatency) {
  // The second lane's message leaves when the first has left, not when it has arrived.
  const SimulationResult result = run(machine(1, 3, 1), {{.lanes = {{send(1, 5)}, {send(2, 5)}}},
                                                         {.lanes = {{receive(0, 5)}}},
                                                         {.lanes = {{}, {receive(0, 5)}}}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(20.0, 15.0, 20.0));
}

TEST(LinkSimulator, AReceiverTakesOneMessageAtATime) {
  const SimulationResult result =
      run(machine(1, 3, 1), {{.lanes = {{send(2, 5)}}},
                             {.lanes = {{}, {send(2, 5)}}},
                             {.lanes = {{receive(0, 5)}, {receive(1, 5)}}}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(15.0, 20.0, 20.0));
}

TEST(LinkSimulator, RanksOfANodeShareItsNic) {
  const std::vector<Lane> lanes = {{send(2, 5)}, {send(3, 5)}, {receive(0, 5)}, {receive(1, 5)}};
  const SimulationResult shared = run_lanes(machine(2, 2, 1), lanes);
  EXPECT_THAT(shared.rank_seconds, ElementsAre(110.0, 120.0, 110.0, 120.0));
  EXPECT_THAT(shared.nics, ElementsAre(NicTraffic{.sent_bytes = 10}, NicTraffic{0, 10}));
  EXPECT_EQ(shared.bytes_over(LinkKind::kInter), 10u);
  const SimulationResult own = run_lanes(machine(2, 2, 2), lanes);
  EXPECT_THAT(own.rank_seconds, ElementsAre(110.0, 110.0, 110.0, 110.0));
  EXPECT_THAT(own.nics,
              ElementsAre(NicTraffic{5, 0}, NicTraffic{5, 0}, NicTraffic{0, 5}, NicTraffic{0, 5}));
}

TEST(LinkSimulator, AMessageThatWaitsKeepsNoPortBusy) {
  // Node A's second message waits for A's NIC; B's message takes C's NIC in the meantime.
  const SimulationResult result = run_lanes(machine(3, 2, 1), {{send(2, 5)},
                                                               {send(4, 5)},
                                                               {receive(0, 5)},
                                                               {send(5, 5)},
                                                               {receive(1, 5)},
                                                               {receive(3, 5)}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(110.0, 120.0, 110.0, 110.0, 120.0, 110.0));
}

TEST(LinkSimulator, TheLongestWaitingMessageGoesFirst) {
  // Rank 2 keeps the NIC busy until 40. Rank 3 has asked for it at 0, too; rank 1 only at 12, when
  // it has heard from rank 0.
  const SimulationResult result = run_lanes(machine(2, 4, 1), {{send(1, 2)},
                                                               {receive(0, 2), send(5, 4)},
                                                               {send(6, 20)},
                                                               {send(7, 4)},
                                                               {},
                                                               {receive(1, 4)},
                                                               {receive(2, 20)},
                                                               {receive(3, 4)}});
  EXPECT_EQ(result.rank_seconds[6], 140.0);
  EXPECT_EQ(result.rank_seconds[7], 148.0);
  EXPECT_EQ(result.rank_seconds[5], 156.0);
}

TEST(LinkSimulator, TorusMessagesShareTheLinksOfTheirWay) {
  Topology ring = machine(1, 5, 1);
  ring.torus = {5};
  // 0 to 2 takes the links 0-1 and 1-2; 1 to 2 waits for the second of them. 1 to 0 does not.
  const SimulationResult result = run(ring, {{.lanes = {{send(2, 5)}, {}, {receive(1, 5)}}},
                                             {.lanes = {{}, {send(2, 5)}, {send(0, 5)}}},
                                             {.lanes = {{receive(0, 5)}, {receive(1, 5)}}}});
  EXPECT_THAT(result.rank_seconds, ElementsAre(25.0, 20.0, 25.0, 0.0, 0.0));
  EXPECT_EQ(result.bytes_over(LinkKind::kTorus), 15u);
  EXPECT_TRUE(result.nics.empty());
}

TEST(LinkSimulator, CopiesWithinARankAreFreeButReducing) {
  const Round copy{.send_to = 0,
                   .send = {{0, 8}},
                   .receive_from = 0,
                   .receive = {{8, 16}},
                   .on_receive = OnReceive::kStore};
  Round reduce = copy;
  reduce.on_receive = OnReceive::kReduce;
  for (const Record record : {Record::kTotals, Record::kMessages}) {
    const SimulationResult result =
        run_lanes(machine(1, 1, 1), {{copy, reduce, Round{}, copy}}, record);
    EXPECT_EQ(result.seconds, 4.0);
    EXPECT_EQ(result.messages, 0u);
  }
}

TEST(LinkSimulator, ListsMessagesOnRequest) {
  const Round nothing{};
  const SimulationResult result = run_lanes(
      machine(2, 1, 1), {{nothing, send(1, 3), send(1, 4)}, {receive(0, 3), receive(0, 4)}},
      Record::kMessages);
  ASSERT_EQ(result.records.size(), 2u);
  EXPECT_EQ(result.records[0], (MessageRecord{.from = 0,
                                              .to = 1,
                                              .lane = 0,
                                              .send_step = 1,
                                              .receive_step = 0,
                                              .bytes = 3,
                                              .kind = LinkKind::kInter,
                                              .start = 0.0,
                                              .sent = 6.0,
                                              .arrival = 106.0}));
  EXPECT_EQ(result.records[1].start, 106.0);
  EXPECT_EQ(result.records[1].send_step, 2u);
  EXPECT_TRUE(run_lanes(machine(2, 1, 1), {{send(1, 3)}, {receive(0, 3)}}).records.empty());
}

std::string fault(const std::vector<Schedule>& schedules) {
  return message_of<ScheduleError>([&] { return run(machine(1, 3, 1), schedules); });
}

std::string fault_of_lanes(const std::vector<Lane>& lanes) {
  std::vector<Schedule> schedules;
  for (const Lane& lane : lanes) schedules.push_back({.lanes = {lane}});
  return fault(schedules);
}

TEST(LinkSimulatorFinds, RanksThatBothSendFirst) {
  EXPECT_EQ(
      fault_of_lanes({{send(1, 5), receive(1, 5)}, {send(0, 5), receive(0, 5)}}),
      "deadlock: 2 of 2 lanes wait for ever: rank 0, lane 0, step 0 sends 5 elements to rank "
      "1, but rank 1, lane 0, step 0 sends 5 elements to rank 0; rank 1, lane 0, step 0 sends "
      "5 elements to rank 0, but rank 0, lane 0, step 0 sends 5 elements to rank 1.");
}

TEST(LinkSimulatorFinds, AMessageThatNobodyReceives) {
  EXPECT_THAT(fault_of_lanes({{send(1, 5)}, {}}),
              AllOf(HasSubstr("1 of 2 lanes"), HasSubstr("rank 1, lane 0 has ended")));
  EXPECT_THAT(fault({{.lanes = {{}, {send(1, 5)}}}, {.lanes = {{receive(0, 5)}}}}),
              AllOf(HasSubstr("rank 0, lane 1, step 0 sends"), HasSubstr("rank 1 has no lane 1")));
}

TEST(LinkSimulatorFinds, ACircleOfWaitingRanks) {
  EXPECT_THAT(fault_of_lanes({{receive(2, 1)}, {receive(0, 1)}, {receive(1, 1)}}),
              AllOf(HasSubstr("3 of 3 lanes"), HasSubstr("rank 2, lane 0, step 0 receives 1")));
}

TEST(LinkSimulatorFinds, EndsOfDifferentSize) {
  EXPECT_THAT(fault_of_lanes({{send(1, 5)}, {receive(0, 6)}}),
              AllOf(HasSubstr("differ in size"), HasSubstr("sends 5"), HasSubstr("receives 6")));
}

TEST(LinkSimulatorFinds, RanksThatDoNotExist) {
  EXPECT_THAT(fault_of_lanes({{send(3, 5)}}),
              AllOf(HasSubstr("rank 0, lane 0, step 0"), HasSubstr("no rank 3, only 0 to 2")));
  EXPECT_THAT(fault_of_lanes({{}, {receive(-2, 5)}}), HasSubstr("no rank -2"));
}

TEST(LinkSimulatorFinds, HalfAMessageToOneself) {
  EXPECT_THAT(fault_of_lanes({{send(0, 5)}}), HasSubstr("sent and received in one step"));
  EXPECT_THAT(fault_of_lanes({{{.send_to = 0,
                                .send = {{0, 5}},
                                .receive_from = 0,
                                .receive = {{5, 9}},
                                .on_receive = OnReceive::kStore}}}),
              HasSubstr("different numbers of elements"));
}

class RandomTraffic : public test::RandomTest {
 protected:
  /// Schedules that fit together: messages drawn one after the other, appended to both ends' lanes.
  std::vector<Schedule> draw(int ranks, int messages) {
    std::vector<Schedule> schedules(static_cast<std::size_t>(ranks));
    for (Schedule& schedule : schedules) schedule.lanes.resize(2);
    for (int i = 0; i < messages; ++i) {
      const std::size_t from = random.between(0, static_cast<std::size_t>(ranks) - 1);
      const std::size_t step = random.between(1, static_cast<std::size_t>(ranks) - 1);
      const std::size_t to = (from + step) % static_cast<std::size_t>(ranks);
      const std::size_t lane = random.between(0, 1);
      const std::size_t count = random.between(0, 9);
      schedules[from].lanes[lane].push_back(send(static_cast<int>(to), count));
      schedules[to].lanes[lane].push_back(receive(static_cast<int>(from), count));
    }
    return schedules;
  }
};

TEST_F(RandomTraffic, NeverSharesAPortAtAnyTime) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const Topology topology =
        machine(static_cast<int>(random.between(1, 3)), 3, static_cast<int>(random.between(1, 3)));
    if (topology.ranks() < 2) continue;
    const std::vector<Schedule> schedules = draw(topology.ranks(), 60);
    const SimulationResult result = run(topology, schedules, Record::kMessages);
    EXPECT_EQ(result.records.size(), 60u);
    std::map<int, double> free_at;  // records are in the order of their start
    for (const MessageRecord& record : result.records) {
      const Route route = topology.route(record.from, record.to);
      for (const int port : route.ports) {
        EXPECT_GE(record.start, free_at[port]) << "port " << port;
        free_at[port] = record.sent;
      }
      EXPECT_EQ(record.sent, record.start + static_cast<double>(record.bytes) * route.beta);
      EXPECT_EQ(record.arrival, record.sent + route.alpha);
    }
    EXPECT_EQ(run(topology, schedules, Record::kMessages).records, result.records)
        << "the same run twice";
    EXPECT_EQ(run(topology, schedules).seconds, result.seconds);
  }
}

TEST_F(RandomTraffic, EventsComeInOrder) {
  EventQueue queue;
  std::multimap<double, std::uint32_t> expected;
  double now = 0.0;
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const double time = now + static_cast<double>(random.between(0, 40)) / 8.0;
    const auto id = static_cast<std::uint32_t>(random.between(0, 1000));
    queue.push(time, id);
    expected.emplace(time, id);
    if (random.between(0, 3) != 0) continue;
    now = queue.pop(ids);
    ASSERT_EQ(now, expected.begin()->first);
    std::vector<std::uint32_t> same_time;
    for (auto it = expected.begin(); it != expected.end() && it->first == now;) {
      same_time.push_back(it->second);
      it = expected.erase(it);
    }
    std::sort(same_time.begin(), same_time.end());
    ASSERT_EQ(ids, same_time);
  }
}

}  // namespace
}  // namespace ultra::collectives
