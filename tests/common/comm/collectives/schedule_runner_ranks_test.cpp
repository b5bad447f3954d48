// Schedules that are written out here, carried out by the ranks: lanes, scratch memory, copies.

#include "tests/common/comm/comm_test.hpp"

namespace ultra::comm {
namespace {

Round exchange(int peer, Block out, Block in, OnReceive how = OnReceive::kStore) {
  return {.send_to = peer, .send = out, .receive_from = peer, .receive = in, .on_receive = how};
}

/// A star whose all_reduce is what a test makes of it.

class Custom : public test::StarAlgorithms {
 public:
  using Make = std::function<Schedule(const Group& group, std::size_t count)>;
  explicit Custom(Make make) : make_(std::move(make)) {}
  Schedule all_reduce(const Group& group, std::size_t count, std::size_t) const override {
    return make_(group, count);
  }

 private:
  Make make_;
};

RankOptions with(Custom::Make make) {
  RankOptions options;
  options.timeout = std::chrono::seconds(30);
  options.algorithms = std::make_shared<const Custom>(std::move(make));
  return options;
}

std::vector<double> sequence(std::size_t count, double first) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

Tensor tensor_of(const std::vector<double>& values) {
  return Tensor::from<double>(own_device(), {values.size()}, values);
}

class ScheduleRunner : public DeviceRanks {
 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

TEST_P(ScheduleRunner, ScratchMemoryHoldsWhatArrivesUntilItIsCombined) {
  const std::size_t size = random.between(1, 3000);
  const RankOptions options = with([](const Group& group, std::size_t count) {
    const Block all{{0, count}};
    const Block scratch{{0, count}, Buffer::kScratch};
    return Schedule{.lanes = {{exchange(1 - group.rank, all, scratch),
                               exchange(group.rank, scratch, all, OnReceive::kReduce)}},
                    .scratch_count = count};
  });
  ranks_with(options, 2, [&](Communicator& world) {
    const Tensor data = tensor_of(sequence(size, world.rank() * 10.0));
    world.all_reduce(data).wait();
    const std::vector<double> sums = data.to_vector();
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(sums[i], 2.0 * static_cast<double>(i) + 10);
    }
  });
}

// In bf16, whose numbers above 256 are two apart.
TEST_P(ScheduleRunner, LocalReductionsIntoOneBlockAreRoundedOnce) {
  const auto reduce = [](const Group& group, std::size_t from, std::size_t into) {
    return exchange(group.rank, {{from, from + 1}}, {{into, into + 1}}, OnReceive::kReduce);
  };
  const auto expect = [](const Custom::Make& make, const std::vector<double>& sums) {
    ranks_with(with(make), 1, [&](Communicator& world) {
      const Tensor data = cast(tensor_of({256, 1, 1, 1}), DType::kBF16);
      world.all_reduce(data).wait();
      EXPECT_EQ(cast(data, DType::kF32).to_vector(), sums);
    });
  };
  const auto one_sum = [&](const Group& group, std::size_t) {
    return Schedule{.lanes = {{reduce(group, 1, 0), reduce(group, 2, 0), reduce(group, 3, 0)}}};
  };
  expect(one_sum, {260, 1, 1, 1});  // 259 is between 258 and 260; the even one
  const auto two_sums = [&](const Group& group, std::size_t) {
    return Schedule{.lanes = {{reduce(group, 1, 0), reduce(group, 2, 3), reduce(group, 2, 0)}}};
  };
  expect(two_sums, {256, 1, 1, 2});
}

// Sums of several terms: what a device adds up in one kernel has the bits of the CPU's loop.
TEST_P(ScheduleRunner, SumsOfSeveralTermsHaveTheCpusBits) {
  const std::size_t terms = random.between(2, 6);
  const std::size_t size = random.between(1, 700);
  const auto add_all = [&](const Group& group, std::size_t) {
    Schedule schedule{.lanes = {{}}};
    for (std::size_t term = 1; term < terms; ++term) {
      schedule.lanes.front().push_back(exchange(group.rank, {{term * size, (term + 1) * size}},
                                                {{0, size}}, OnReceive::kReduce));
    }
    return schedule;
  };
  std::vector<double> values(terms * size);
  for (double& value : values) value = random.uniform(-3, 3);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    ranks_with(with(add_all), 1, [&](Communicator& world) {
      const Tensor data = cast(tensor_of(values), dtype);
      const Tensor on_host = data.to(Device::cpu());
      world.all_reduce(data).wait();
      world.all_reduce(on_host).wait();
      EXPECT_EQ(data.to_vector(), on_host.to_vector()) << to_string(dtype);
    });
  }
}

/// Lane j of each pair exchanges chunk j; only the lanes' own order is fixed.
TEST_P(ScheduleRunner, LanesRunSideBySide) {
  const std::size_t size = random.between(64, 3000);
  const int lanes = static_cast<int>(random.between(2, 32));
  const RankOptions options = with([lanes](const Group& group, std::size_t count) {
    Schedule schedule{.lanes = {}, .scratch_count = count};
    const Chunks chunks = Chunks::even({0, count}, lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      const Block chunk{chunks[lane]};
      const Block scratch{chunks[lane], Buffer::kScratch};
      schedule.lanes.push_back(
          {exchange(1 - group.rank, chunk, scratch), exchange(group.rank, scratch, chunk)});
    }
    return schedule;
  });
  ranks_with(options, 2, [&](Communicator& world) {
    const Tensor data = tensor_of(sequence(size, world.rank() * 1000.0));
    world.all_reduce(data).wait();
    EXPECT_EQ(data.to_vector(), sequence(size, (1 - world.rank()) * 1000.0)) << "swapped";
  });
}

/// Lane 0 of rank 0 waits for lane 0 of rank 1, which begins only after both lanes 1 have met.
TEST_P(ScheduleRunner, ALaneThatWaitsDoesNotHoldUpAnother) {
  const RankOptions options = with([](const Group& group, std::size_t) {
    // Lane 0 goes round the ring upwards on element 0, lane 1 downwards on element 1.
    Schedule schedule{.lanes = {}, .scratch_count = 2};
    for (const int lane : {0, 1}) {
      const std::size_t at = static_cast<std::size_t>(lane);
      const Block element{{at, at + 1}};
      const Block scratch{{at, at + 1}, Buffer::kScratch};
      const Round swap{.send_to = lane == 0 ? group.prev() : group.next(),
                       .send = element,
                       .receive_from = lane == 0 ? group.next() : group.prev(),
                       .receive = scratch};
      schedule.lanes.push_back({swap, exchange(group.rank, scratch, element)});
    }
    return schedule;
  });
  ranks_with(options, 3, [](Communicator& world) {
    const Tensor data = tensor_of(sequence(2, world.rank() * 10.0));
    world.all_reduce(data).wait();
    const std::vector<double> expected[] = {{10, 21}, {20, 1}, {0, 11}};
    EXPECT_EQ(data.to_vector(), expected[world.rank()]);
  });
}

TEST_P(ScheduleRunner, AStepOutsideTheMemoryIsAnErrorBeforeAnyMessage) {
  const RankOptions options = with([](const Group& group, std::size_t count) {
    Round step;
    step.send_to = group.next();
    step.send = {{0, count + (group.rank == 1 ? 1 : 0)}};
    Schedule schedule{.lanes = {{step}}};
    if (group.rank != 1) schedule.lanes[0].clear();
    return schedule;
  });
  const test::Fates fates = fates_with(options, 3, [](Communicator& world) {
    world.all_reduce(tensor_of({1, 2})).wait();
  });
  for (const auto& [rank, fate] : fates.ranks) {
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
    EXPECT_THAT(fate.message,
                AllOf(HasSubstr("rank 1"), HasSubstr("[0, 3) is not inside the data")));
    if (rank == 1) {
      EXPECT_TRUE(test::is_a<ConfigError>(fate.error));
    } else {
      EXPECT_TRUE(test::is_a<RankFailed>(fate.error));
    }
  }
}

TEST_P(ScheduleRunner, BlocksThatMeetWithTwoSizesAreAMismatch) {
  RankOptions options = with([](const Group& group, std::size_t count) {
    Round step;
    if (group.rank == 0) step = {.send_to = 1, .send = {{0, count - 1}}};
    if (group.rank == 1) step = {.send = {}, .receive_from = 0, .receive = {{0, count}}};
    return Schedule{.lanes = {{step}}};
  });
  const test::Fates fates = fates_with(options, 2, [](Communicator& world) {
    world.all_reduce(tensor_of({1, 2, 3})).wait();
  });
  for (const auto& [rank, fate] : fates.ranks) {
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
    if (rank == 0) continue;  // MPI may take a small message before anybody asks for it
    EXPECT_TRUE(test::is_a<CommMismatch>(fate.error));
    EXPECT_THAT(fate.message, HasSubstr(worded("all_reduce #0 of 'world' (sum of 3 f64)")));
    EXPECT_THAT(fate.message, AllOf(HasSubstr("16 bytes"), HasSubstr("24")));
  }
}

TEST_P(ScheduleRunner, GatherAndScatterWorkInPlaceAtTheRoot) {
  const std::size_t part = random.between(1, 100);
  for (const RankOptions& options : {RankOptions{}, star_options()}) {
    ranks_with(options, 3, [&](Communicator& world) {
      const auto first = [&](int rank) { return static_cast<double>(part) * rank; };
      const Tensor whole = tensor_of(std::vector<double>(3 * part, -1));
      const Tensor own =
          world.rank() == 1 ? whole.slice(0, {part, 2 * part}) : tensor_of(sequence(part, 0));
      own.copy_from(tensor_of(sequence(part, first(world.rank()))));
      world.gather(own, whole, 1).wait();
      if (world.rank() == 1) {
        EXPECT_EQ(whole.to_vector(), sequence(3 * part, 0));
      } else {
        own.fill(0);
      }
      world.scatter(whole, own, 1).wait();
      EXPECT_EQ(own.to_vector(), sequence(part, first(world.rank())));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(On, ScheduleRunner, devices(), device_name);

}  // namespace
}  // namespace ultra::comm
