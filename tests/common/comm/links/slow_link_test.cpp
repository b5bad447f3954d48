#include "common/comm/links/slow_link.hpp"

#include "common/comm/backend/threads/thread_world.hpp"
#include "common/comm/collectives/collective_call.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

using std::chrono::duration;
using std::chrono::hours;
using std::chrono::milliseconds;
using Clock = SlowLink::Clock;

constexpr Tag kAnyTag{.use = Tag::Use::kPointToPoint, .lane = 0, .sequence = 0};

double seconds(Clock::duration time) { return duration<double>(time).count(); }

TEST(LinkSpeedTest, ReadsLatencyAndBandwidth) {
  const LinkSpeed speed = LinkSpeed::parse("latency-us=50,gbps=1");
  EXPECT_DOUBLE_EQ(speed.latency, 50e-6);
  EXPECT_DOUBLE_EQ(speed.bytes_per_second, 1.25e8);
  EXPECT_DOUBLE_EQ(LinkSpeed::parse("gb-per-second=0.1").bytes_per_second, 1e8);
  EXPECT_EQ(LinkSpeed::parse("gbps=8").latency, 0);
  EXPECT_DOUBLE_EQ(LinkSpeed::parse("gbps=8,latency-us=1.5").latency, 1.5e-6);
}

TEST(LinkSpeedTest, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "fast", "latency=5", "gbps=1,", ",gbps=1", "gbps=1,,latency-us=1",
                           " gbps=1", "gbps=1;latency-us=2"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(static_cast<void>(LinkSpeed::parse(text)), ConfigError);
  }
  EXPECT_THAT(message_of<ConfigError>([] { return LinkSpeed::parse("fast"); }),
              AllOf(HasSubstr("'fast'"), HasSubstr("latency-us"), HasSubstr("gbps"),
                    HasSubstr("gb-per-second")));
}

TEST(LinkSpeedTest, RefusesWhatIsNoNumber) {
  for (const char* value : {"", "x", "1x", "-1", "nan", "inf", "1e999", " 1", "1 ", "+1", "="}) {
    SCOPED_TRACE(value);
    const std::string item = std::string("latency-us=") + value;
    const auto text = message_of<ConfigError>([&] { return LinkSpeed::parse("gbps=1," + item); });
    EXPECT_THAT(text, AllOf(HasSubstr("latency-us"), HasSubstr("a number of at least 0")));
  }
}

TEST(LinkSpeedTest, NeedsABandwidth) {
  for (const char* text : {"latency-us=5", "gbps=0", "gbps=1,gb-per-second=0"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { return LinkSpeed::parse(text); }),
                HasSubstr("has no bandwidth"));
  }
}

TEST(SlowLinkTest, RefusesALinkThatCarriesNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const LinkSpeed& speed :
       {LinkSpeed{}, LinkSpeed{0, -1}, LinkSpeed{-1, 10}, LinkSpeed{nan, 10}, LinkSpeed{0, nan}}) {
    EXPECT_THROW(SlowLink{speed}, ConfigError);
  }
}

TEST(SlowLinkTest, AMessageTakesItsLatencyAndItsBytes) {
  SlowLink link({.latency = 5, .bytes_per_second = 10});
  const auto before = Clock::now();
  const auto arrival = link.depart(200);
  const auto after = Clock::now();
  EXPECT_GE(seconds(arrival - before), 25 - 1e-6);
  EXPECT_LE(seconds(arrival - after), 25 + 1e-6);
}

TEST(SlowLinkTest, MessagesLeaveOneAfterTheOther) {
  SlowLink link({.latency = 5, .bytes_per_second = 10});
  const auto first = link.depart(200);
  const auto second = link.depart(100);
  const auto third = link.depart(0);
  EXPECT_NEAR(seconds(second - first), 10, 1e-6) << "latencies overlap, bytes do not";
  EXPECT_EQ(third, second);
}

TEST(SlowLinkTest, ALinkThatWasIdleStartsAtOnce) {
  SlowLink link({.latency = 0, .bytes_per_second = 1e6});
  const auto first = link.depart(1000);  // 1 ms
  std::this_thread::sleep_for(milliseconds(10));
  const auto before = Clock::now();
  EXPECT_LT(first, before);
  EXPECT_GE(link.depart(1000), before + milliseconds(1));
}

TEST(SlowLinkTest, KnowsWhenSomethingArrivesNext) {
  SlowLink link({.latency = 5, .bytes_per_second = 10});
  EXPECT_EQ(link.next_arrival(), std::nullopt);
  const auto first = link.depart(100);
  const auto second = link.depart(100);
  EXPECT_EQ(link.next_arrival(), first);
  link.settled(first);
  EXPECT_EQ(link.next_arrival(), second);
  link.settled(second);
  EXPECT_EQ(link.next_arrival(), std::nullopt);
  EXPECT_THROW(link.settled(second), InternalError);
}

TEST(SlowLinkTest, ATimeThatNoClockCanCountDoesNotWrapAround) {
  SlowLink slow({.latency = 1e300, .bytes_per_second = 1e-300});
  for (int i = 0; i < 1000; ++i) EXPECT_GT(slow.depart(1), Clock::now() + hours(1000));
}

class SlowTransportTest : public ::testing::Test {
 protected:
  std::unique_ptr<Transport> slow(int rank) { return slowed(plain(rank), link); }
  std::shared_ptr<Transport> plain(int rank) { return threads::make_transport(world, rank); }

  std::vector<std::byte> data = std::vector<std::byte>(10, std::byte{7});
  std::vector<std::byte> got = std::vector<std::byte>(10);
  std::shared_ptr<threads::ThreadWorld> world = std::make_shared<threads::ThreadWorld>(2);
  std::shared_ptr<SlowLink> link =
      std::make_shared<SlowLink>(LinkSpeed{.latency = 0.01, .bytes_per_second = 1000});
};

TEST_F(SlowTransportTest, AMessageArrivesNotBeforeItsTime) {
  const auto from = slow(0);
  const auto to = slow(1);
  const auto begin = Clock::now();
  const auto sending = from->isend({std::span<const std::byte>(data), {}}, 1, kAnyTag);
  const auto receiving = to->irecv({std::span(got), {}, {}}, 0, kAnyTag);
  while (!receiving->test()) static_cast<void>(sending->test());
  EXPECT_GE(seconds(Clock::now() - begin), 0.02) << "10 ms of latency, 10 ms for 10 bytes";
  EXPECT_TRUE(sending->test());
  EXPECT_EQ(got, data);
  EXPECT_EQ(link->next_arrival(), std::nullopt);
}

TEST_F(SlowTransportTest, AMessageToOneselfIsNotSlowed) {
  const auto self = slow(0);
  const auto sending = self->isend({std::span<const std::byte>(data), {}}, 0, kAnyTag);
  EXPECT_EQ(link->next_arrival(), std::nullopt);
  EXPECT_TRUE(self->irecv({std::span(got), {}, {}}, 0, kAnyTag)->test());
  EXPECT_TRUE(sending->test());
}

TEST_F(SlowTransportTest, GroupsOfARankShareItsWire) {
  const auto whole = slow(0);
  const std::vector<int> members{0, 1};
  const auto group = whole->subgroup(members, 0);
  EXPECT_EQ(group->size(), 2);
  const auto begin = Clock::now();
  const auto first = whole->isend({std::span<const std::byte>(data), {}}, 1, kAnyTag);
  const auto own = link->next_arrival();
  const auto second = group->isend({std::span<const std::byte>(data), {}}, 1, kAnyTag);
  EXPECT_EQ(link->next_arrival(), own);
  EXPECT_GE(seconds(link->depart(0) - begin), 0.03) << "10 bytes twice, 10 ms of latency";
}

TEST_F(SlowTransportTest, AWithdrawnMessageIsNoLongerOnItsWay) {
  const auto from = slow(0);
  from->isend({std::span<const std::byte>(data), {}}, 1, kAnyTag).reset();
  EXPECT_EQ(link->next_arrival(), std::nullopt);
}

TEST_F(SlowTransportTest, HasNoCollectivesOfThePlatform) {
  const auto transport = slow(0);
  EXPECT_EQ(transport->rank(), 0);
  EXPECT_EQ(transport->world_rank(1), 1);
  const CollectiveCall call =
      calls::all_reduce(Tensor::zeros(Device::cpu(), {5}, DType::kF32), ReduceOp::kSum);
  EXPECT_THAT(
      message_of<ConfigError>([&] { return transport->native(call, Checking::kOn); }),
      AllOf(HasSubstr("all_reduce"), HasSubstr("slowed link"), HasSubstr("--collectives ours")));
}

}  // namespace
}  // namespace ultra::comm
