// Covers: common/gpu/stream_role.hpp
// Covers: common/gpu/runtime.hpp
// Covers: common/gpu/place_on_node.hpp

#include "common/gpu/streams.hpp"

#include <cstdlib>

#include "common/gpu/order_checker.hpp"
#include "common/gpu/place_on_node.hpp"
#include "common/gpu/runtime.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::gpu {
namespace {

using enum StreamRole;

TEST(StreamScope, ChangesTheRoleOfItsThreadUntilItsEnd) {
  EXPECT_EQ(current_role(), kCompute);
  {
    const StreamScope outer(kCommunication);
    const StreamScope inner(kCopy);
    EXPECT_EQ(current_role(), kCopy);
    std::thread([] { EXPECT_EQ(current_role(), kCompute); }).join();
  }
  EXPECT_EQ(current_role(), kCompute);
}

/// Streams of the device that ULTRA_TEST_DEVICE names, where that has some, and memory of it.
class StreamsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Runtime> runtime_of_tests() {
    return test::device_kind_of_tests() == DeviceKind::kCuda ? make_cuda_runtime(0)
                                                             : make_emulated_runtime();
  }
  static constexpr std::size_t kBytes = 1024;

  StreamsTest() : block(static_cast<std::byte*>(runtime->allocate(kBytes))) {}
  ~StreamsTest() override { runtime->release(block, kBytes); }

  [[nodiscard]] std::vector<int> numbers_on_the_device(std::size_t count) {
    auto* pinned = static_cast<int*>(runtime->allocate_pinned(count * sizeof(int)));
    {
      const Launch launch(*streams, kCompute, "read back", {{block, count * sizeof(int)}}, {});
      streams->copy(kCompute, pinned, block, count * sizeof(int), CopyKind::kDeviceToHost);
    }
    streams->synchronize(kCompute);
    std::vector<int> numbers(pinned, pinned + count);
    runtime->release_pinned(pinned, count * sizeof(int));
    return numbers;
  }

  std::shared_ptr<Runtime> runtime = runtime_of_tests();
  std::unique_ptr<Streams> streams = runtime->make_streams(3);
  std::byte* block;
};

TEST_F(StreamsTest, AnUploadLeavesTheHostsMemoryFree) {
  std::vector<int> numbers = {1, 2, 3};
  streams->upload(kCompute, block, numbers.data(), 12);
  numbers = {0, 0, 0};
  EXPECT_EQ(streams->synchronizations(), 0U);
  EXPECT_THAT(numbers_on_the_device(3), ElementsAre(1, 2, 3));
}

TEST_F(StreamsTest, OnlyTheHostsWaitsAreCounted) {
  const Event event = streams->record(kCompute);
  streams->wait(kCommunication, event);
  streams->synchronize(event);
  EXPECT_EQ(streams->synchronizations(), 1U);
  EXPECT_TRUE(streams->reached(event));
  EXPECT_TRUE(streams->has_passed(event));
  streams->synchronize(kCopy);
  EXPECT_EQ(streams->synchronizations(), 2U);
}

TEST_F(StreamsTest, ARankWaitsForAnothersStream) {
  const auto others = runtime->make_streams(4);
  const std::vector<int> numbers = {5, 6};
  others->upload(kCompute, block, numbers.data(), 8);
  streams->wait(kCompute, others->record(kCompute));
  EXPECT_THAT(numbers_on_the_device(2), ElementsAre(5, 6));
}

TEST_F(StreamsTest, SlicesHaveNamesAndTimes) {
  std::vector<std::string> names;
  std::vector<double> times;
  streams->set_listener([&](const StreamSlice& slice) {
    EXPECT_EQ(slice.role, kCopy);
    names.emplace_back(slice.operation);
    times.push_back(slice.begin_seconds);
    times.push_back(slice.end_seconds);
  });
  const int number = 7;
  streams->upload(kCopy, block, &number, 4);
  streams->upload(kCopy, block, &number, 4);
  streams->synchronize(kCopy);
  streams->report_slices();
  streams->set_listener({});
  streams->upload(kCopy, block, &number, 4);
  streams->report_slices();
  EXPECT_THAT(names, ElementsAre("upload", "upload"));
  EXPECT_TRUE(std::ranges::is_sorted(times));
}

class EmulatedStreamsTest : public StreamsTest {
 protected:
  EmulatedStreamsTest() {
    if (!runtime->host_can_read()) skip = true;
  }
  void SetUp() override {
    if (skip) GTEST_SKIP() << "only the emulated device checks orders";
  }
  bool skip = false;
};

TEST_F(EmulatedStreamsTest, AMissingEventIsFoundAndNotLaunched) {
  const std::vector<int> before = {1};
  streams->upload(kCompute, block, before.data(), 4);
  const std::vector<int> after = {2};
  const std::string message =
      message_of<OrderError>([&] { streams->upload(kCommunication, block, after.data(), 4); });
  EXPECT_THAT(message, HasSubstr("rank 3's communication stream writes them in upload"));
  EXPECT_THAT(numbers_on_the_device(1), ElementsAre(1));
}

TEST_F(EmulatedStreamsTest, SoDoesWhatBookkeepingOfMemoryKnows) {
  const std::vector<int> numbers = {1};
  streams->upload(kCompute, block, numbers.data(), 4);
  streams->follows(kCommunication, streams->record(kCompute));
  streams->upload(kCommunication, block, numbers.data(), 4);
}

TEST_F(EmulatedStreamsTest, AskingForBookkeepingIsNoOrder) {
  const std::vector<int> numbers = {1};
  streams->upload(kCompute, block, numbers.data(), 4);
  EXPECT_TRUE(streams->has_passed(streams->record(kCompute)));
  EXPECT_THROW(streams->upload(kCopy, block, numbers.data(), 4), OrderError);
  EXPECT_TRUE(streams->reached(streams->record(kCompute)));
  streams->upload(kCopy, block, numbers.data(), 4);
}

TEST_F(EmulatedStreamsTest, TheHostReadsOnlyWhatIsDone) {
  const std::vector<int> numbers = {1};
  streams->upload(kCompute, block, numbers.data(), 4);
  const Region region{block, 4};
  EXPECT_THROW(streams->host_uses("a loop", {&region, 1}, {}), OrderError);
  streams->synchronize(kCompute);
  streams->host_uses("a loop", {&region, 1}, {});
}

/// A variable of the environment, as it was afterwards.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* const value = std::getenv(name)) before_ = value;
    unsetenv(name);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    unsetenv(name_);
    if (before_) setenv(name_, before_->c_str(), 1);
  }
  void set(const char* value) const { setenv(name_, value, 1); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(PlaceOnNode, IsWhatMpirunSaysElseTheRank) {
  const Variable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK");
  const Variable mpich("MPI_LOCALRANKID");
  const Variable slurm("SLURM_LOCALID");
  EXPECT_EQ(place_on_node(5), 5);
  slurm.set("1");
  EXPECT_EQ(place_on_node(5), 1) << "srun without an MPI";
  mpich.set("3");
  EXPECT_EQ(place_on_node(5), 3);
  open_mpi.set("2");
  EXPECT_EQ(place_on_node(5), 2);
}

TEST(PlaceOnNode, IsTheRankWhereTheEnvironmentSaysNoNumber) {
  const Variable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK");
  const Variable mpich("MPI_LOCALRANKID");
  const Variable slurm("SLURM_LOCALID");
  for (const char* const text : {"", "-1", "2x", "many"}) {
    open_mpi.set(text);
    EXPECT_EQ(place_on_node(4), 4) << text;
  }
}

}  // namespace
}  // namespace ultra::gpu
