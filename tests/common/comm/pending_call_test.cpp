// Covers: common/comm/work.hpp, common/comm/engine/group_state.hpp
//
// A call is issued by wait() or as a Work: what compiles, what is refused, who moves it along.

#include <filesystem>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

template <class Call>
concept CanBeWaitedFor = requires(Call call) {
  static_cast<Call>(call).wait();
};

// The call itself is issued ...
static_assert(CanBeWaitedFor<PendingCall&&>);
static_assert(std::is_convertible_v<PendingCall, Work>);
// ... but not a variable that `auto` made of it, of which there is no second one.
static_assert(!CanBeWaitedFor<PendingCall&>);
static_assert(!std::is_constructible_v<Work, PendingCall&>);
static_assert(!std::is_move_constructible_v<PendingCall> &&
              !std::is_move_assignable_v<PendingCall>);

class PendingCalls : public ::testing::Test {
 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

TEST_F(PendingCalls, OneThatWasNeverIssuedIsNamedByEveryNextOperation) {
  run_ranks(2, [](Communicator& world) {
    const Communicator before = world.split([](int) { return 0; });
    const Tensor data = filled(4, 1), other = filled(4, 2);
    static_cast<void>(world.labeled("norms").all_reduce(data));

    const auto refused =
        AllOf(HasSubstr("'world' takes no further operation"),
              HasSubstr("all_reduce #1 of 'world' (sum of 4 f32) [norms] was called, "
                        "but never issued"),
              HasSubstr(".wait()"), HasSubstr("Work work = ..."));
    const auto expect_refused = [&](const auto& operation) {
      EXPECT_THAT(message_of<ConfigError>(operation), refused);
    };
    expect_refused([&] { world.barrier().wait(); });
    expect_refused([&] { world.labeled("losses").all_reduce(data).wait(); });
    expect_refused([&] { Work work = world.send(data, world.next_rank()); });
    expect_refused([&] { Work work = world.recv(data, world.prev_rank(), {.number = 3}); });
    expect_refused([&] { world.ring_shift(data, other).wait(); });
    expect_refused([&] { static_cast<void>(world.split(std::identity())); });

    before.all_reduce(data).wait();  // another group has numbers of its own
    EXPECT_EQ(data.to_vector(), std::vector<double>(4, 2.0));
  });
}

TEST_F(PendingCalls, OneThatWasRefusedLeavesNoGap) {
  run_ranks(2, [](Communicator& world) {
    EXPECT_THROW(static_cast<void>(world.all_reduce(Tensor())), ShapeError);
    EXPECT_THROW(static_cast<void>(world.send(filled(1, 0), 2)), ShapeError);
    world.barrier().wait();
  });
}

TEST_F(PendingCalls, AVariableIsIssuedOnceWhenItIsMovedFrom) {
  run_ranks(2, [](Communicator& world) {
    const Tensor data = filled(4, 1);
    auto call = world.all_reduce(data);
    EXPECT_THROW(world.barrier().wait(), ConfigError);
    std::move(call).wait();
    EXPECT_EQ(data.to_vector(), std::vector<double>(4, 2.0));
    auto next = world.all_reduce(data);
    EXPECT_THAT(message_of<ConfigError>([&] { std::move(call).wait(); }), HasSubstr("issued once"));
    Work work = std::move(next);
    work.wait();
    EXPECT_EQ(data.to_vector(), std::vector<double>(4, 4.0));
  });
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_F(PendingCalls, OnlyTheBackgroundNeedsAProgressThread) {
  run_ranks(1, [](Communicator& world) {
    const Tensor data = filled(4, 1), other = filled(4, 2);
    const std::ptrdiff_t before = threads_of_this_process();
    world.all_reduce(data).wait();
    world.ring_shift(data, other).wait();
    world.barrier().wait();
    static_cast<void>(world.split(std::identity()));
    EXPECT_EQ(threads_of_this_process(), before);
    Work work = world.all_reduce(data);
    work.wait();
    EXPECT_EQ(threads_of_this_process(), before + 1);
  });
}

}  // namespace
}  // namespace ultra
