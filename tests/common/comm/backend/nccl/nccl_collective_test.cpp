// Which functions of NCCL carry a collective, and what becomes of its errors: with a library in its
// place that works on the memory of emulated devices. The results are tested in communicator_ranks_test.
//
// Covers: common/comm/backend/nccl/nccl_collective.hpp, common/comm/backend/nccl/nccl_group.hpp
// Covers: common/comm/backend/nccl/nccl_library.hpp

#include "tests/common/comm/backend/nccl/fake_library.hpp"

#include "common/comm/backend/nccl/nccl_library.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

constexpr std::size_t kCount = 600;
constexpr int kSize = 3;

class NcclCollective : public ::testing::Test {
 protected:
  NcclCollective() {
    tests_device_kind = DeviceKind::kEmulated;
    options.timeout = std::chrono::seconds(30);
    options.nccl_library = test::fake_nccl_path();
  }
  NcclCollective(const NcclCollective&) = delete;
  NcclCollective& operator=(const NcclCollective&) = delete;
  ~NcclCollective() override { tests_device_kind = DeviceKind::kCpu; }

  /// How often `function` is called when all ranks do `fn`, per rank.
  int calls(const char* function, const std::function<void(const Communicator&)>& fn) {
    fake.reset();
    ranks_with(options, kSize, fn);
    return fake.calls(function) / kSize;
  }

  test::FakeNccl fake;
  RankOptions options;
};

TEST_F(NcclCollective, IsOneFunctionWhereNcclHasIt) {
  EXPECT_EQ(calls("ncclAllReduce", [](auto& world) { world.all_reduce(filled(kCount, 1)).wait(); }),
            1);
  EXPECT_EQ(
      calls("ncclBroadcast", [](auto& world) { world.broadcast(filled(kCount, 1), 2).wait(); }), 1);
  EXPECT_EQ(calls("ncclReduce", [](auto& world) { world.reduce(filled(kCount, 1), 1).wait(); }), 1);
  EXPECT_EQ(calls("ncclAllGather",
                  [](auto& world) { world.all_gather(filled(200, 1), filled(kCount, 0)).wait(); }),
            1);
  EXPECT_EQ(
      calls("ncclReduceScatter",
            [](auto& world) { world.reduce_scatter(filled(kCount, 1), filled(200, 0)).wait(); }),
      1);
}

TEST_F(NcclCollective, IsAGroupOfFunctionsWhereNcclHasNone) {
  const auto uneven = [](auto& world) {
    const auto own = comm::Chunks::even({0, 10}, kSize)[world.rank()].size();
    world.all_gather(filled(own, 1), filled(10, 0)).wait();
  };
  EXPECT_EQ(calls("ncclBroadcast", uneven), kSize);
  EXPECT_EQ(calls("ncclGroupEnd", uneven), 1);
  const auto exchange = [](auto& world) {
    world.all_to_all(filled(kCount, 1), filled(kCount, 0)).wait();
  };
  EXPECT_EQ(calls("ncclSend", exchange), kSize);
  EXPECT_EQ(calls("ncclRecv", exchange), kSize);
  EXPECT_EQ(calls("ncclGroupEnd", exchange), 1);
}

TEST_F(NcclCollective, ConnectsAGroupOnceAndLetsGoOfIt) {
  EXPECT_EQ(calls("ncclCommInitRankConfig",
                  [](auto& world) {
                    world.all_reduce(filled(kCount, 1)).wait();
                    world.all_reduce(filled(kCount, 1)).wait();
                    const Communicator alone = world.split(std::identity());
                    alone.all_reduce(filled(kCount, 1)).wait();
                  }),
            1)
      << "a rank alone needs no NCCL";
  EXPECT_EQ(fake.calls("ncclGetUniqueId"), 1);
  EXPECT_EQ(fake.open_comms(), 0);
  EXPECT_EQ(fake.calls("ncclCommAbort"), 0);
}

TEST_F(NcclCollective, CountsTheTrafficOfTheBestAlgorithms) {
  ranks_with(options, kSize, [](Communicator& world) {
    world.all_reduce(filled(kCount, 1)).wait();
    EXPECT_EQ(world.stats()[OpKind::kAllReduce],
              (CommStats::PerKind{1, 4 * 2 * kCount * (kSize - 1) / kSize}));
  });
}

TEST_F(NcclCollective, AFunctionThatFailsIsQuoted) {
  fake.set_fault(kFakeNcclCallFails);
  const test::Fates fates = fates_with(
      options, kSize, [](Communicator& world) { world.all_reduce(filled(kCount, 1)).wait(); });
  EXPECT_EQ(message_of<CommError>([&] { std::rethrow_exception(fates.thrown); }),
            "all_reduce #0 of 'world' (sum of 600 f32 on emulated): ncclAllReduce: internal error "
            "(said by the fake library)");
  EXPECT_EQ(fake.open_comms(), 0);
}

TEST_F(NcclCollective, AGroupThatFailsLaterIsQuotedAndAborted) {
  fake.set_fault(kFakeNcclLaterFails);
  const test::Fates fates = fates_with(
      options, kSize, [](Communicator& world) { world.all_reduce(filled(kCount, 1)).wait(); });
  EXPECT_TRUE(is_a<CommError>(fates.thrown));
  EXPECT_THAT(message_of<CommError>([&] { std::rethrow_exception(fates.thrown); }),
              AllOf(HasSubstr("all_reduce #0"), HasSubstr("remote process exited")));
  EXPECT_EQ(fake.open_comms(), 0);
}

TEST_F(NcclCollective, ATimeOutNamesTheOperationAndAborts) {
  fake.set_fault(kFakeNcclHangs);
  options.timeout = milliseconds(300);
  const test::Fates fates = fates_with(
      options, kSize, [](Communicator& world) { world.all_reduce(filled(kCount, 1)).wait(); });
  EXPECT_TRUE(is_a<CommTimeout>(fates.thrown));
  EXPECT_THAT(message_of<CommTimeout>([&] { std::rethrow_exception(fates.thrown); }),
              AllOf(HasSubstr("all_reduce #0 of 'world' (sum of 600 f32 on emulated)"),
                    HasSubstr("all ranks have arrived, and NCCL has not finished on the GPU")));
  EXPECT_EQ(fake.calls("ncclCommAbort"), kSize);
  EXPECT_EQ(fake.open_comms(), 0);
}

TEST_F(NcclCollective, ATimeOutNamesTheRanksThatHaveNotCome) {
  options.timeout = milliseconds(300);
  const test::Fates fates = fates_with(options, kSize, [](Communicator& world) {
    world.all_reduce(filled(kCount, 1)).wait();
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(1500));
    world.all_reduce(filled(kCount, 1)).wait();
  });
  EXPECT_THAT(message_of<CommTimeout>([&] { std::rethrow_exception(fates.thrown); }),
              AllOf(HasSubstr("all_reduce #1 of 'world'"), HasSubstr("rank 1 has not arrived")));
  EXPECT_EQ(fake.open_comms(), 0);
}

TEST_F(NcclCollective, ARankThatFailsEndsTheOthers) {
  const test::Fates fates = fates_with(options, kSize, [](Communicator& world) {
    world.all_reduce(filled(kCount, 1)).wait();
    if (world.rank() == 1) throw ConfigError("a wrong flag");
    world.all_reduce(filled(kCount, 1)).wait();
  });
  EXPECT_TRUE(is_a<ConfigError>(fates.thrown));
  EXPECT_TRUE(is_a<RankFailed>(fates.ranks.at(0).error));
  EXPECT_EQ(fake.open_comms(), 0);
}

TEST_F(NcclCollective, WithoutNcclThreadsUseTheirOwnCollectives) {
  options.nccl_library = "libno_nccl.so";
  ranks_with(options, kSize, [](Communicator& world) {
    const Tensor data = filled(kCount, 1);
    world.all_reduce(data).wait();
    EXPECT_THAT(data.to_vector(), Each(3.0));
  });
}

}  // namespace
}  // namespace ultra

// What is opened in NCCL's place, and what is said when it cannot be.
namespace ultra::comm::nccl {
namespace {
TEST(NcclLibrary, SaysWhichFileIsMissing) {
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(Library::open("libno_nccl.so")); }),
              AllOf(StartsWith("NCCL cannot be opened: libno_nccl.so"),
                    HasSubstr("LD_LIBRARY_PATH"), HasSubstr("--collectives ours")));
}

TEST(NcclLibrary, SaysWhichFunctionIsMissing) {
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(Library::open("libm.so.6")); }),
              StartsWith("libm.so.6 has no function ncclGetVersion."));
}

}  // namespace
}  // namespace ultra::comm::nccl
