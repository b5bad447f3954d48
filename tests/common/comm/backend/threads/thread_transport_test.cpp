// Two ranks' transports in the hands of one thread: nothing is left to chance. What every transport
// promises is mpi_transport_ranks_test.cpp's subject, on threads too.
//
// Covers: common/comm/transport.hpp, common/comm/backend/threads/thread_world.hpp
// Covers: common/comm/links/point_to_point.hpp
// Covers: common/comm/backend/threads/direct_collective.hpp
// Covers: common/comm/backend/threads/direct_board.hpp

#include "common/comm/backend/threads/thread_world.hpp"

#include "common/comm/backend/threads/direct_collective.hpp"
#include "common/comm/collectives/collective_call.hpp"
#include "common/comm/links/point_to_point.hpp"
#include "tests/common/comm/comm_test.hpp"
#include "tests/support/contracts/rank_order.hpp"

namespace ultra::comm::threads {
namespace {

using Clock = RankMonitor::Clock;

constexpr Tag kTag{.use = Tag::Use::kPointToPoint, .lane = 0, .sequence = 0};

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

class ThreadTransport : public ::testing::Test {
 protected:
  std::unique_ptr<Request> send(int from, const std::vector<std::byte>& data, int to,
                                Tag tag = kTag) {
    return at(from).isend({std::span(data), {}}, to, tag);
  }
  std::unique_ptr<Request> receive(int at_rank, std::vector<std::byte>& data, int from,
                                   Tag tag = kTag) {
    return at(at_rank).irecv({std::span(data), {}, {}}, from, tag);
  }
  Transport& at(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<ThreadWorld> world = std::make_shared<ThreadWorld>(3);
  std::vector<std::unique_ptr<Transport>> ranks = [this] {
    std::vector<std::unique_ptr<Transport>> made;
    for (int rank = 0; rank < 3; ++rank) made.push_back(make_transport(world, rank));
    return made;
  }();
};

TEST_F(ThreadTransport, ASendEndsWhenItsReceiverHasTakenIt) {
  const auto data = bytes({1, 2, 3});
  auto got = bytes({0, 0, 0});
  const auto sending = send(0, data, 1);
  EXPECT_FALSE(sending->test());
  const auto receiving = receive(1, got, 0);
  EXPECT_FALSE(sending->test());
  EXPECT_TRUE(receiving->test());
  EXPECT_EQ(got, data);
  EXPECT_TRUE(sending->test());
  EXPECT_TRUE(receiving->test()) << "asking again does no harm";
}

TEST_F(ThreadTransport, GroupsKeepMessagesApart) {
  const std::vector<int> members{2, 0};
  const auto two = at(2).subgroup(members, 0);
  const auto zero = at(0).subgroup(members, 0);
  const auto later = at(0).subgroup(members, 1);
  EXPECT_EQ(two->rank(), 0);
  EXPECT_EQ(zero->rank(), 1);
  EXPECT_EQ(zero->world_rank(0), 2);
  const auto data = bytes({5});
  auto got = bytes({0});
  const auto sending = two->isend({std::span(data), {}}, 1, kTag);
  EXPECT_FALSE(receive(0, got, 2)->test()) << "the world's message";
  EXPECT_FALSE(later->irecv({std::span(got), {}, {}}, 0, kTag)->test()) << "another group's";
  EXPECT_TRUE(zero->irecv({std::span(got), {}, {}}, 0, kTag)->test());
  EXPECT_EQ(got, data);
}

TEST_F(ThreadTransport, AWithdrawnMessageNeverArrives) {
  auto data = std::make_unique<std::vector<std::byte>>(bytes({1, 2}));
  auto sending = send(0, *data, 1);
  sending.reset();
  data.reset();
  auto got = bytes({0, 0});
  EXPECT_FALSE(receive(1, got, 0)->test());
  // One that was withdrawn on the other side does not take the next one's message.
  receive(1, got, 0).reset();
  const auto next = bytes({4, 4});
  const auto again = send(0, next, 1);
  EXPECT_TRUE(receive(1, got, 0)->test());
  EXPECT_EQ(got, next);
}

TEST_F(ThreadTransport, ReceivesOfOneKindAreServedInTheOrderInWhichTheyBegan) {
  auto first = bytes({0});
  auto second = bytes({0});
  const auto receive_first = receive(1, first, 0);
  const auto receive_second = receive(1, second, 0);
  const auto one = bytes({1});
  const auto two = bytes({2});
  const auto send_one = send(0, one, 1);
  EXPECT_FALSE(receive_second->test()) << "the message is the first one's";
  const auto send_two = send(0, two, 1);
  EXPECT_FALSE(receive_second->test());
  const std::uint64_t before = world->bell(1).count();
  EXPECT_TRUE(receive_first->test());
  EXPECT_GT(world->bell(1).count(), before) << "the second one may move now";
  EXPECT_TRUE(receive_second->test());
  EXPECT_EQ(first, one);
  EXPECT_EQ(second, two);
}

TEST_F(ThreadTransport, ArrivalsAndDeparturesRingTheBell) {
  const auto data = bytes({1});
  auto got = bytes({0});
  const std::uint64_t before = world->bell(1).count();
  const auto sending = send(0, data, 1);
  EXPECT_GT(world->bell(1).count(), before);
  const std::uint64_t sender = world->bell(0).count();
  EXPECT_TRUE(receive(1, got, 0)->test());
  EXPECT_GT(world->bell(0).count(), sender);
}

TEST(Bell, WakesWhoSleeps) {
  const test::Watchdog watchdog(std::chrono::seconds(30));
  Bell bell;
  const std::uint64_t seen = bell.count();
  std::thread sleeper([&] { bell.sleep(seen, Clock::now() + std::chrono::hours(1)); });
  std::this_thread::sleep_for(milliseconds(5));
  bell.ring();
  sleeper.join();
  EXPECT_EQ(bell.count(), seen + 1);
}

TEST(Bell, DoesNotSleepThroughARingThatCameBefore) {
  const test::Watchdog watchdog(std::chrono::seconds(30));
  Bell bell;
  const std::uint64_t seen = bell.count();
  bell.ring();
  bell.sleep(seen, Clock::now() + std::chrono::hours(1));
}

TEST(ThreadWorldTest, WhoMovesOrHasSomethingToLookAtIsNotDeadlocked) {
  ThreadWorld world(2);
  EXPECT_NO_THROW(world.blocked(0, 0, "a")) << "rank 1 moves";
  world.bell(1).ring();
  EXPECT_NO_THROW(world.blocked(1, 0, "b")) << "rank 1 has not seen the ring";
  world.moving(0);
  EXPECT_NO_THROW(world.blocked(1, 1, "b")) << "rank 0 moves again";
  EXPECT_THROW(world.blocked(0, 0, "a"), Deadlock);
}

// The members' operations in the hands of one thread, which decides who moves when.

constexpr int kSize = 3;
// Larger than what members copy for each other: they read each other's memory.
constexpr std::size_t kLarge = 2 * Showing::kStagedBytes / sizeof(double);

class DirectCollectiveTest : public ::testing::Test {
 protected:
  std::shared_ptr<Operation> start(int rank, CollectiveCall call) {
    std::uint64_t& number = numbers[static_cast<std::size_t>(rank)];
    call.info.communicator = "dp";
    call.info.sequence = static_cast<std::uint32_t>(number);
    return make_direct(call, board, rank, number++);
  }

  static Tensor filled(std::size_t count, double value) {
    return ultra::filled(count, value, DType::kF64);
  }

  std::shared_ptr<Operation> all_reduce(int rank, const Tensor& data) {
    return start(rank, calls::all_reduce(data, ReduceOp::kSum));
  }
  std::vector<std::shared_ptr<Operation>> all_reduces(std::span<const Tensor> data) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (int rank = 0; rank < kSize; ++rank)
      operations.push_back(all_reduce(rank, data[static_cast<std::size_t>(rank)]));
    return operations;
  }

  ThreadWorld world{kSize};
  std::shared_ptr<DirectBoard> board = world.board(1, std::vector<int>{0, 1, 2});
  std::vector<std::uint64_t> numbers = std::vector<std::uint64_t>(kSize, 0);
};

TEST_F(DirectCollectiveTest, ABarrierEndsOnceAllHaveCome) {
  const auto zero = start(0, calls::barrier(filled(1, 0)));
  const auto one = start(1, calls::barrier(filled(1, 0)));
  const auto two = start(2, calls::barrier(filled(1, 0)));
  EXPECT_FALSE(zero->advance());
  EXPECT_EQ(zero->waits_for(), "ranks 1, 2 have not arrived");
  EXPECT_FALSE(one->advance());
  EXPECT_EQ(zero->waits_for(), "rank 2 has not arrived");
  EXPECT_TRUE(two->advance());
  EXPECT_TRUE(zero->advance());
  EXPECT_TRUE(one->advance());
}

TEST_F(DirectCollectiveTest, ASmallAllReduceEndsWithItsLastMember) {
  const Tensor data[] = {filled(5, 1), filled(5, 2), filled(5, 4)};
  auto operations = all_reduces(data);
  EXPECT_FALSE(operations[0]->advance());
  EXPECT_FALSE(operations[1]->advance());
  EXPECT_TRUE(operations[2]->advance());
  operations[2].reset();
  data[2].fill(-1);  // it may go on with its tensor while the others have not looked yet
  EXPECT_TRUE(operations[0]->advance());
  EXPECT_EQ(data[0].to_vector(), std::vector<double>(5, 7));
}

TEST_F(DirectCollectiveTest, ALargeAllReduceEndsWhenAllPartsAreDone) {
  const Tensor data[] = {filled(kLarge, 1), filled(kLarge, 2), filled(kLarge, 4)};
  auto operations = all_reduces(data);
  EXPECT_FALSE(operations[0]->advance());
  EXPECT_FALSE(operations[1]->advance());
  EXPECT_FALSE(operations[2]->advance());
  EXPECT_EQ(operations[2]->waits_for(), "ranks 0, 1 have not finished");
  EXPECT_FALSE(operations[1]->advance());
  EXPECT_EQ(operations[2]->waits_for(), "rank 0 has not finished");
  EXPECT_TRUE(operations[0]->advance());
  EXPECT_TRUE(operations[1]->advance());
  EXPECT_TRUE(operations[2]->advance());
  for (const Tensor& sum : data) EXPECT_EQ(sum.to_vector(), std::vector<double>(kLarge, 7));
}

TEST_F(DirectCollectiveTest, NobodyTouchesTheMemoryOfAMemberThatHasGivenUp) {
  auto gone = filled(kLarge, 1);
  auto giving_up = all_reduce(0, gone);
  const Tensor data[] = {filled(kLarge, 2), filled(kLarge, 4)};
  const auto one = all_reduce(1, data[0]);
  const auto two = all_reduce(2, data[1]);
  EXPECT_FALSE(giving_up->advance());
  giving_up.reset();
  gone = {};
  EXPECT_FALSE(one->advance());
  EXPECT_FALSE(two->advance());
  EXPECT_FALSE(one->advance());
  EXPECT_EQ(one->waits_for(), "a member has given up");
  EXPECT_EQ(data[0].to_vector(), std::vector<double>(kLarge, 2));
}

/// A member that caught a mismatch may go on, even where the operations' places come round again.
TEST_F(DirectCollectiveTest, WorksAgainAfterAMismatch) {
  for (int round = 0; round < 12; ++round) {
    const bool mismatch = round % 3 == 0;
    const Tensor data[] = {filled(kLarge, 1), filled(mismatch ? 3 : kLarge, 2), filled(kLarge, 4)};
    auto operations = all_reduces(data);
    EXPECT_FALSE(operations[0]->advance());
    EXPECT_FALSE(operations[1]->advance());
    for (int rank = 2; rank >= 0; --rank) {
      Operation& operation = *operations[static_cast<std::size_t>(rank)];
      if (mismatch) {
        EXPECT_THROW(static_cast<void>(operation.advance()), CommMismatch);
      } else {
        static_cast<void>(operation.advance());
      }
    }
    if (mismatch) continue;
    for (const auto& operation : operations) EXPECT_TRUE(operation->advance()) << round;
    for (const Tensor& sum : data) EXPECT_EQ(sum.to_vector(), std::vector<double>(kLarge, 7));
  }
}

TEST_F(DirectCollectiveTest, PartsThatDoNotFitAreAMismatch) {
  // Rank 1 expects 2 elements from rank 0, which gives 1.
  const std::vector<std::size_t> one{1, 1, 1};
  const std::vector<std::size_t> two{2, 1, 1};
  std::vector<std::shared_ptr<Operation>> operations;
  for (int rank = 0; rank < kSize; ++rank) {
    const bool odd = rank == 1;
    operations.push_back(
        start(rank, calls::all_to_all_v(filled(3, rank), one, filled(odd ? 4 : 3, 0),
                                        odd ? two : one, {.rank = rank, .size = kSize})));
  }
  EXPECT_FALSE(operations[0]->advance());
  EXPECT_FALSE(operations[2]->advance());
  EXPECT_EQ(message_of<CommMismatch>([&] { return operations[1]->advance(); }),
            "rank 0 gives 1 elements where rank 1 expects 2");
}

// The order in which ranks that share memory add, bit by bit: the ranks' own, for arrays small
// enough for one meeting, for larger ones, and for those that span several tiles of the loop.
class SummationOrder : public test::RandomTest {};

TEST_F(SummationOrder, IsThatOfTheRanksWhereverAnElementIs) {
  const std::size_t staged = Showing::kStagedBytes / sizeof(float);
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{2}, random.between(3, staged), staged + 1,
          random.between(staged + 1, 10'000) * static_cast<std::size_t>(size)}) {
      for (const DType dtype : {DType::kF32, random.pick({DType::kF64, DType::kI32})}) {
        SCOPED_TRACE(fmt::format("{} {} on {} ranks", count, to_string(dtype), size));
        EXPECT_TRUE(test::reduces_in_rank_order(nullptr, size, count, dtype, random));
      }
    }
  }
}

}  // namespace
}  // namespace ultra::comm::threads
