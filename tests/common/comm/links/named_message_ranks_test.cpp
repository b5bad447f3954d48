// Messages that both ends name: they meet whatever the order in which they were issued.

#include <random>

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

class NamedMessageRanks : public ProgressRanks {
 protected:
  /// 0, 1, ... in random order.
  std::vector<std::uint32_t> shuffled(std::uint32_t count, std::uint64_t salt) const {
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(seed + salt));
    return numbers;
  }
};

TEST_P(NamedMessageRanks, MeetInAnyOrder) {
  constexpr std::uint32_t kMessages = 30;
  const auto base = static_cast<std::uint32_t>(random.between(0, 1000));
  const std::size_t count = random.pick<std::size_t>({0, 1, 70, 50000});
  ranks_with(options, 3, [&](Communicator& world) {
    const int rank = world.rank();
    std::vector<Work> works;
    std::vector<Tensor> received(3 * 2 * kMessages);
    for (const std::uint32_t n : shuffled(kMessages, 10 + static_cast<std::uint64_t>(rank))) {
      for (int peer = 0; peer < 3; ++peer) {
        for (int channel = 0; channel < 2; ++channel) {
          Tensor& data =
              received[(static_cast<std::size_t>(peer) * 2 + static_cast<std::size_t>(channel)) *
                           kMessages +
                       n];
          data = filled(count, -1);
          works.push_back(world.recv(data, peer, {channel, base + n}));
        }
      }
    }
    for (const std::uint32_t n : shuffled(kMessages, 20 + static_cast<std::uint64_t>(rank))) {
      for (int peer = 0; peer < 3; ++peer) {
        for (int channel = 0; channel < 2; ++channel) {
          const double value = rank * 1000 + channel * 100 + static_cast<double>(n);
          works.push_back(world.send(filled(count, value), peer, {channel, base + n}));
        }
      }
    }
    for (Work& work : works) work.wait();
    for (std::size_t i = 0; i < received.size(); ++i) {
      const std::size_t peer = i / (2 * kMessages);
      const std::size_t channel = i / kMessages % 2;
      for (const double value : received[i].to_vector()) {
        ASSERT_EQ(value, static_cast<double>(peer * 1000 + channel * 100 + i % kMessages));
      }
    }
    EXPECT_EQ(world.stats()[OpKind::kSend].sent_bytes, 2 * 2 * kMessages * count * 4);
  });
}

TEST_P(NamedMessageRanks, NeverMeetThoseThatAreMatchedByOrder) {
  ranks_with(options, 2, [](Communicator& world) {
    const int other = 1 - world.rank();
    const Tensor named = filled(3, -1);
    const Tensor ordered = filled(3, -1);
    std::vector<Work> works;
    works.push_back(world.recv(named, other, {5, 0}));
    works.push_back(world.recv(ordered, other, 5));
    works.push_back(world.send(filled(3, 1), other, 5));
    works.push_back(world.send(filled(3, 2), other, {5, 0}));
    for (Work& work : works) work.wait();
    EXPECT_EQ(named.to_vector().front(), 2.0);
    EXPECT_EQ(ordered.to_vector().front(), 1.0);
  });
}

TEST_P(NamedMessageRanks, AreNamedInErrors) {
  ranks_with(options, 1, [](Communicator& world) {
    const std::string message = message_of<ConfigError>([&] {
      static_cast<void>(Work(world.send(filled(1, 0), 0, {31, 7})));
    });
    EXPECT_THAT(message, HasSubstr("send: there is no channel 31"));
    EXPECT_THROW(static_cast<void>(Work(world.recv(filled(1, 0), 1, {0, 7}))), ShapeError);
  });
  options.timeout = std::chrono::milliseconds(300);
  try {
    ranks_with(options, 2, [](Communicator& world) {
      world.barrier().wait();
      if (world.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        return;
      }
      world.labeled("weights").recv(filled(1, 0), 1, {3, 77}).wait();
    });
    ADD_FAILURE() << "nobody sent that message";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(worded("recv #77 of 'world' (1 f32 from rank 1) [weights]")));
  }
}

INSTANTIATE_TEST_SUITE_P(By, NamedMessageRanks, kinds_of_progress(), progress_name);

}  // namespace
}  // namespace ultra
