// Covers: common/comm/backend/mpi/mpi_transport.hpp,
// Covers: common/comm/backend/mpi/session.hpp
//
// What a transport promises, on whatever the ranks are: threads, or processes under mpirun.

#include "common/comm/backend/mpi/mpi_ranks.hpp"
#include "common/comm/backend/threads/thread_world.hpp"
#include "common/comm/transport.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra::comm {
namespace {

constexpr std::size_t kSegment = std::size_t{512} * 1024;  // bytes that MPI carries at once

/// What a rank has to do, given its transport.
using Part = std::function<void(Transport& transport)>;

void run(int world_size, const Part& part) {
  const RankBody body = [&](std::unique_ptr<Transport> transport, std::shared_ptr<RankMonitor>) {
    part(*transport);
  };
  if (launched_world_size()) {
    mpi::run_ranks(world_size, body, std::chrono::seconds(30));
  } else {
    threads::run_ranks(world_size, body);
  }
}

bool can_run(int world_size) { return launched_world_size().value_or(8) >= world_size; }

void finish(std::vector<std::unique_ptr<Request>>& requests) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!requests.empty()) {
    std::erase_if(requests, [](const auto& request) { return request->test(); });
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("a message hangs");
    std::this_thread::yield();
  }
}

/// Bytes that tell sender, message and place.
std::vector<std::byte> content(std::size_t bytes, int sender, std::size_t message = 0) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(sender) * 31 +
                                     message * 101);
  }
  return data;
}

Tag numbered(std::uint32_t sequence) { return {.sequence = sequence}; }

class TransportRanks : public test::RandomTest {};

TEST_F(TransportRanks, MessagesOfAnySizeArriveOnTheRing) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, kSegment - 4, kSegment, kSegment + 4, 2 * kSegment,
        7 * kSegment + random.between(0, kSegment)}) {
    for (const int size : {1, 2, 3, 8}) {
      if (!can_run(size)) continue;
      SCOPED_TRACE(fmt::format("{} bytes, {} ranks", bytes, size));
      run(size, [&](Transport& transport) {
        const int next = (transport.rank() + 1) % size;
        const int prev = (transport.rank() + size - 1) % size;
        const std::vector<std::byte> sent = content(bytes, transport.rank());
        std::vector<std::byte> received(bytes);
        std::vector<std::unique_ptr<Request>> requests;
        requests.push_back(transport.irecv({.memory = received}, prev, numbered(3)));
        requests.push_back(transport.isend({.memory = sent}, next, numbered(3)));
        finish(requests);
        EXPECT_TRUE(std::ranges::equal(received, content(bytes, prev)));
      });
    }
  }
}

TEST_F(TransportRanks, ALandingCombines) {
  const std::size_t count = 3 * kSegment / sizeof(double) + random.between(0, 1000);
  run(2, [&](Transport& transport) {
    const int other = 1 - transport.rank();
    std::vector<double> sent(count);
    std::iota(sent.begin(), sent.end(), 1000.0 * transport.rank());
    std::vector<double> sum(count, 0.5);
    std::vector<std::unique_ptr<Request>> requests;
    requests.push_back(
        transport.irecv({.memory = std::as_writable_bytes(std::span(sum)),
                         .combine = Combine{.dtype = DType::kF64, .op = ReduceOp::kSum}},
                        other, numbered(0)));
    requests.push_back(
        transport.isend({.memory = std::as_bytes(std::span(sent))}, other, numbered(0)));
    finish(requests);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sum[i], 0.5 + 1000.0 * other + static_cast<double>(i)) << "element " << i;
    }
  });
}

TEST_F(TransportRanks, TagsKeepMessagesApartAndInOrder) {
  // Sequence numbers wrap; lanes and uses differ.
  const std::vector<Tag> tags{
      {.use = Tag::Use::kCollective, .lane = 0, .sequence = 0},
      {.use = Tag::Use::kPointToPoint, .lane = 0, .sequence = 0},
      {.use = Tag::Use::kRollCall, .lane = 0, .sequence = 0},
      {.use = Tag::Use::kCollective, .lane = Tag::kLanes - 1, .sequence = 0},
      {.use = Tag::Use::kCollective, .lane = 0, .sequence = 1},
      {.use = Tag::Use::kCollective, .lane = 0, .sequence = 0xffffffffU}};
  run(2, [&](Transport& transport) {
    const int other = 1 - transport.rank();
    constexpr std::size_t kBytes = 1000;
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> received(2 * tags.size(), std::vector<std::byte>(kBytes));
    for (std::size_t i = 0; i < 2 * tags.size(); ++i) sent.push_back(content(kBytes, other, i));
    std::vector<std::unique_ptr<Request>> requests;
    for (std::size_t i = 0; i < 2 * tags.size(); ++i) {
      requests.push_back(transport.isend({.memory = sent[i]}, other, tags[i % tags.size()]));
    }
    // Asked for in another order of tags, but for each tag in the order of sending.
    for (std::size_t i = 0; i < tags.size(); ++i) {
      const std::size_t tag = tags.size() - 1 - i;
      for (const std::size_t message : {tag, tag + tags.size()}) {
        requests.push_back(transport.irecv({.memory = received[message]}, other, tags[tag]));
      }
    }
    finish(requests);
    for (std::size_t i = 0; i < received.size(); ++i) {
      EXPECT_EQ(received[i], content(kBytes, transport.rank(), i)) << "message " << i;
    }
  });
}

TEST_F(TransportRanks, AnotherSizeIsAMismatchWithBothSizes) {
  struct Sizes {
    std::size_t sent;
    std::size_t expected;
    std::size_t told;  // of what was sent: the whole, or where it goes on too long
  };
  for (const Sizes sizes : {Sizes{100, 40, 100}, Sizes{40, 100, 40}, Sizes{0, 8, 0},
                            Sizes{3 * kSegment + 8, 2 * kSegment, 3 * kSegment},
                            Sizes{2 * kSegment, 3 * kSegment + 8, 2 * kSegment}}) {
    std::string message;
    try {
      run(2, [&](Transport& transport) {
        const std::vector<std::byte> sent(sizes.sent);
        std::vector<std::byte> received(sizes.expected);
        std::vector<std::unique_ptr<Request>> requests;
        if (transport.rank() == 0) {
          // Not waited for: nobody takes the rest of it.
          requests.push_back(transport.isend({.memory = sent}, 1, numbered(0)));
          for (int i = 0; i < 20; ++i) {
            if (requests.front()->test()) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        } else {
          requests.push_back(transport.irecv({.memory = received}, 0, numbered(0)));
          finish(requests);
        }
      });
      ADD_FAILURE() << sizes.sent << " bytes were taken for " << sizes.expected;
    } catch (const CommError& error) {  // RankFailed, on the other processes
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr(fmt::format("expects {}", sizes.expected)));
    const std::size_t told = launched_world_size() ? sizes.told : sizes.sent;
    EXPECT_THAT(message, HasSubstr(fmt::format("{} bytes", told)));
  }
}

TEST_F(TransportRanks, AReceiveThatIsWithdrawnLeavesTheMessageToTheNext) {
  run(2, [&](Transport& transport) {
    const std::vector<std::byte> sent = content(5000, 0);
    std::vector<std::unique_ptr<Request>> requests;
    if (transport.rank() == 0) {
      std::byte go{};
      requests.push_back(transport.irecv({.memory = std::span(&go, 1)}, 1, numbered(1)));
      finish(requests);
      requests.push_back(transport.isend({.memory = sent}, 1, numbered(0)));
      finish(requests);
      return;
    }
    std::vector<std::byte> withdrawn(5000);
    std::vector<std::byte> received(5000);
    {
      const auto request = transport.irecv({.memory = withdrawn}, 0, numbered(0));
      EXPECT_FALSE(request->test());
    }
    const std::byte go{};
    requests.push_back(transport.isend({.memory = std::span(&go, 1)}, 0, numbered(1)));
    requests.push_back(transport.irecv({.memory = received}, 0, numbered(0)));
    finish(requests);
    EXPECT_EQ(received, sent);
    EXPECT_EQ(withdrawn, std::vector<std::byte>(5000)) << "its memory must not be touched";
  });
}

TEST_F(TransportRanks, WhatAFailedRunLeavesNeverReachesTheNext) {
  for (int round = 0; round < 5; ++round) {
    EXPECT_THROW(run(2,
                     [&](Transport& transport) {
                       // One small message and one too large to be sent before it is asked for.
                       const std::vector<std::byte> small = content(64, 9);
                       const auto large = std::make_shared<std::vector<std::byte>>(5 * kSegment);
                       const int other = 1 - transport.rank();
                       const auto first = transport.isend({.memory = small}, other, numbered(0));
                       const auto second =
                           transport.isend({.memory = *large, .owner = large}, other, numbered(1));
                       throw std::runtime_error("on purpose");
                     }),
                 std::exception);
    run(2, [&](Transport& transport) {
      const int other = 1 - transport.rank();
      const std::vector<std::byte> sent = content(64, transport.rank());
      std::vector<std::byte> received(64);
      std::vector<std::byte> large(5 * kSegment);
      const std::vector<std::byte> large_sent = content(5 * kSegment, transport.rank());
      std::vector<std::unique_ptr<Request>> requests;
      requests.push_back(transport.isend({.memory = sent}, other, numbered(0)));
      requests.push_back(transport.isend({.memory = large_sent}, other, numbered(1)));
      requests.push_back(transport.irecv({.memory = received}, other, numbered(0)));
      requests.push_back(transport.irecv({.memory = large}, other, numbered(1)));
      finish(requests);
      EXPECT_EQ(received, content(64, other));
      EXPECT_TRUE(std::ranges::equal(large, content(5 * kSegment, other)));
    });
  }
}

}  // namespace
}  // namespace ultra::comm
