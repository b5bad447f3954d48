// Messages between GPUs that NCCL carries, with a library in its place that works on the memory of
// emulated devices and matches sends and receives of a pair by their order alone, as NCCL does.
//
// Covers: common/comm/backend/nccl/nccl_transport.hpp

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

class NcclMessages : public test::RandomTest {
 protected:
  static constexpr int kSize = 3;

  NcclMessages() {
    tests_device_kind = DeviceKind::kEmulated;
    options.timeout = std::chrono::seconds(30);
    options.nccl_library = test::fake_nccl_path();
  }
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;
  ~NcclMessages() override {
    tests_device_kind = DeviceKind::kCpu;
    EXPECT_EQ(fake.open_comms(), 0);
  }

  /// What the ranks of a run ended with in which rank 0 sends `sent` elements and rank 1 expects `got`.
  test::Fates fates_of_one_message(std::size_t sent, std::size_t got) {
    return fates_with(options, 2, [=](Communicator& world) {
      if (world.rank() == 0) world.send(filled(sent, 1), 1).wait();
      if (world.rank() == 1) world.recv(filled(got, 0), 0).wait();
    });
  }

  test::FakeNccl fake;
  RankOptions options;
};

TEST_F(NcclMessages, FindEachOtherInWhateverOrderTheTwoSidesPostThem) {
  constexpr int kMessages = 20;
  const std::uint64_t seed = random.between(0, 1'000'000);
  const auto elements = [=](int from, int to, int number) {
    return test::Random(seed + static_cast<std::uint64_t>(10'000 * from + 100 * to + number))
        .between(0, 300);
  };
  const auto value = [](int from, int to, int number) { return 1000 * from + 100 * to + number; };
  ranks_with(options, kSize, [&](Communicator& world) {
    struct Posting {
      int peer;
      int number;
      bool sends;
    };
    std::vector<Posting> postings;
    for (int number = 0; number < kMessages; ++number) {
      for (int peer = 0; peer < kSize; ++peer) {
        if (peer == world.rank()) continue;
        postings.push_back({peer, number, true});
        postings.push_back({peer, number, false});
      }
    }
    test::Random order(seed + static_cast<std::uint64_t>(world.rank()));
    for (std::size_t i = postings.size(); i > 1; --i) {
      std::swap(postings[i - 1], postings[order.between(0, i - 1)]);
    }
    std::vector<Work> works;
    std::vector<std::pair<Tensor, double>> arrivals;
    for (const auto& [peer, number, sends] : postings) {
      const MessageName name{.channel = 1, .number = static_cast<std::uint32_t>(number)};
      if (sends) {
        const std::size_t count = elements(world.rank(), peer, number);
        works.push_back(world.send(filled(count, value(world.rank(), peer, number)), peer, name));
      } else {
        const Tensor got = filled(elements(peer, world.rank(), number), 0);
        works.push_back(world.recv(got, peer, name));
        arrivals.emplace_back(got, value(peer, world.rank(), number));
      }
    }
    for (Work& work : works) work.wait();
    for (const auto& [got, expected] : arrivals) EXPECT_THAT(got.to_vector(), Each(expected));
  });
  EXPECT_EQ(fake.calls("ncclSend"), fake.calls("ncclRecv"));
  EXPECT_EQ(fake.calls("ncclCommInitRankConfig"), 2 * kSize * (kSize - 1))
      << "two ends of each ordered pair";
}

TEST_F(NcclMessages, CarryTheStepsOfOurCollectives) {
  options.algorithms = std::make_shared<const test::StarAlgorithms>();
  const std::size_t count = random.between(1, 2000);
  ranks_with(options, kSize, [&](Communicator& world) {
    const Tensor sum = filled(count, world.rank() + 1);
    world.all_reduce(sum).wait();
    EXPECT_THAT(sum.to_vector(), Each(6.0)) << "what arrives is added on the device";
  });
  EXPECT_GT(fake.calls("ncclSend"), 0);
  EXPECT_EQ(fake.calls("ncclAllReduce"), 0);
}

TEST_F(NcclMessages, ConnectOnlyThePairsThatTalk) {
  ranks_with(options, kSize, [](Communicator& world) {
    for (int time = 0; time < 3; ++time) {
      if (world.rank() == 0) world.send(filled(5, 1), 1).wait();
      if (world.rank() == 1) world.recv(filled(5, 0), 0).wait();
    }
  });
  EXPECT_EQ(fake.calls("ncclCommInitRankConfig"), 2);
}

TEST_F(NcclMessages, OfHostsTensorsAndToOneselfNeedNoNccl) {
  ranks_with(options, kSize, [](Communicator& world) {
    const Tensor host = Tensor::zeros(Device::cpu(), {4}, DType::kF32);
    world.ring_shift(test::filled(Device::cpu(), {4}, DType::kF32, 1), host).wait();
    const Tensor own = filled(4, 0);
    world.ring_shift(filled(4, 2), own, kSize).wait();
    EXPECT_THAT(own.to_vector(), Each(2.0));
  });
  EXPECT_EQ(fake.calls("ncclCommInitRankConfig"), 0);
}

TEST_F(NcclMessages, GoTheOtherWayWhereNcclCannotConnectThePair) {
  options.nccl_library = "libno_nccl.so";
  ranks_with(options, kSize, [](Communicator& world) {
    std::vector<Work> works;
    std::vector<Tensor> got;
    for (int number = 0; number < 4; ++number) {
      got.push_back(filled(3, 0));
      works.push_back(world.recv(got.back(), world.prev_rank()));
      works.push_back(world.send(filled(3, number), world.next_rank()));
    }
    for (Work& work : works) work.wait();
    for (int number = 0; number < 4; ++number) {
      EXPECT_THAT(got[static_cast<std::size_t>(number)].to_vector(), Each(number));
    }
  });
}

TEST_F(NcclMessages, OfAnotherSizeThanExpectedAreToldBeforeNcclIsCalled) {
  const test::Fates fates = fates_of_one_message(7, 5);
  EXPECT_TRUE(is_a<CommMismatch>(fates.ranks.at(1).error));
  EXPECT_THAT(fates.ranks.at(1).message,
              AllOf(HasSubstr("recv #0 of 'world'"),
                    HasSubstr("rank 0 sends 28 bytes where this rank expects 20")));
  EXPECT_EQ(fake.calls("ncclSend"), 0);
}

TEST_F(NcclMessages, ThatFailAreQuotedWithTheirWay) {
  fake.set_fault(kFakeNcclCallFails);
  const test::Fates fates = fates_of_one_message(5, 5);
  EXPECT_TRUE(is_a<CommError>(fates.thrown));
  EXPECT_THAT(message_of<CommError>([&] { std::rethrow_exception(fates.thrown); }),
              AllOf(HasSubstr("NCCL's messages from rank 0 to rank 1: nccl"),
                    HasSubstr("internal error (said by the fake library)")));
}

TEST_F(NcclMessages, ThatFailLaterEndTheRanks) {
  fake.set_fault(kFakeNcclLaterFails);
  const test::Fates fates = fates_of_one_message(5, 5);
  EXPECT_THAT(message_of<CommError>([&] { std::rethrow_exception(fates.thrown); }),
              HasSubstr("remote process exited"));
}

TEST_F(NcclMessages, ThatHangEndInATimeOutAndAreAborted) {
  fake.set_fault(kFakeNcclHangs);
  options.timeout = milliseconds(300);
  const test::Fates fates = fates_of_one_message(5, 5);
  EXPECT_TRUE(is_a<CommTimeout>(fates.thrown));
  EXPECT_EQ(fake.calls("ncclCommAbort"), 2);
}

TEST_F(NcclMessages, ThatNobodyAsksForAreADeadlock) {
  const test::Fates fates = fates_with(
      options, 2, [](Communicator& world) { world.send(filled(5, 1), 1 - world.rank()).wait(); });
  EXPECT_THAT(message_of<Deadlock>([&] { std::rethrow_exception(fates.thrown); }),
              HasSubstr("rank 1 has not taken the message"));
}

}  // namespace
}  // namespace ultra
