// Covers: common/gpu/meta/meta_event.hpp.
#include "common/gpu/meta/meta_streams.hpp"

#include <array>

#include "common/gpu/meta/meta_event.hpp"
#include "kernels/table/table.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::gpu {
namespace {

using enum StreamRole;

constexpr std::size_t kKilobyte = 1024;

/// A runtime, its streams and its tape, which runs.
class MetaStreamsTest : public ::testing::Test {
 protected:
  MetaStreamsTest() { tape.run(true); }

  [[nodiscard]] MetaStreams& of(const std::unique_ptr<Streams>& made) const {
    return dynamic_cast<MetaStreams&>(*made);
  }
  [[nodiscard]] std::vector<EntryKind> kinds() const {
    std::vector<EntryKind> found;
    for (const Entry& entry : tape.entries) found.push_back(entry.kind);
    return found;
  }

  Tape tape;
  std::shared_ptr<Runtime> runtime = make_meta_runtime(tape, true);
  std::unique_ptr<Streams> streams = runtime->make_streams(3);
};

TEST_F(MetaStreamsTest, AddressesAreDistinctAlignedAndTheSameInEveryRun) {
  Tape other_tape;
  const auto other = make_meta_runtime(other_tape, false);
  std::vector<std::pair<std::uintptr_t, std::size_t>> blocks;
  test::Random random(test::seed_of_this_run());
  for (int i = 0; i < 100; ++i) {
    const std::size_t bytes = random.between(1, std::size_t{1} << 40);
    void* block = runtime->allocate(bytes);
    EXPECT_EQ(block, other->allocate(bytes));
    blocks.emplace_back(reinterpret_cast<std::uintptr_t>(block), bytes);
    EXPECT_EQ(blocks.back().first % 256, 0U);
  }
  std::ranges::sort(blocks);
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i - 1].first + blocks[i - 1].second, blocks[i].first);
  }
}

TEST_F(MetaStreamsTest, WhatIsLaunchedStandsOnTheTapeWithTheBytesOfItsRegions) {
  const auto* block = static_cast<const std::byte*>(runtime->allocate(8 * kKilobyte));
  of(streams).mark_phase("forward");
  {
    const Launch launch(*streams, kCompute, "two rows",
                        {Region{.begin = block, .bytes = 24, .runs = 2, .stride = 100}},
                        {Region{block + kKilobyte, 100}, Region{block + 2 * kKilobyte, 11}});
  }
  ASSERT_EQ(tape.works.size(), 1U);
  const TapedWork& work = tape.works[0];
  EXPECT_EQ(work.kind, WorkKind::kElementwise);
  EXPECT_EQ(tape.names[work.name], "two rows");
  EXPECT_EQ(tape.names[work.phase], "forward");
  EXPECT_EQ(work.read_bytes, 48U);
  EXPECT_EQ(work.written_bytes, 111U);
  EXPECT_EQ(tape.entries[0].role, kCompute);
}

TEST_F(MetaStreamsTest, CopiesSayWhatTheyAre) {
  auto* block = static_cast<std::byte*>(runtime->allocate(kKilobyte));
  std::array<std::byte, 100> host{};
  host.fill(std::byte{1});
  {
    const Launch launch(*streams, kCopy, "to the host", {Region{block, 100}}, {});
    streams->copy(kCopy, host.data(), block, 100, CopyKind::kDeviceToHost);
  }
  EXPECT_EQ(std::ranges::count(host, std::byte{0}), 100);
  {
    const Launch launch(*streams, kCopy, "here", {Region{block, 100}}, {Region{block + 100, 100}});
    streams->copy(kCopy, block + 100, block, 100, CopyKind::kDeviceToDevice);
  }
  streams->upload(kCopy, block, host.data(), 100);
  ASSERT_EQ(tape.works.size(), 3U);
  EXPECT_EQ(tape.works[0].kind, WorkKind::kHostCopy);
  EXPECT_EQ(tape.works[0].read_bytes, 100U);
  EXPECT_EQ(tape.works[1].kind, WorkKind::kCopy);
  EXPECT_EQ(tape.works[2].kind, WorkKind::kHostCopy);
  EXPECT_EQ(tape.works[2].read_bytes, 0U);
  EXPECT_EQ(tape.works[2].written_bytes, 100U);
}

TEST_F(MetaStreamsTest, OrderStandsOnTheTapeAndThePoolsOwnDoesNot) {
  const Event event = streams->record(kCopy);
  EXPECT_TRUE(streams->has_passed(event));
  EXPECT_TRUE(streams->reached(event));
  streams->wait(kCompute, event);
  streams->follows(kCompute, event);
  streams->wait(kCompute, Event());
  EXPECT_EQ(streams->synchronizations(), 0U);
  streams->synchronize(kCompute);
  EXPECT_EQ(streams->synchronizations(), 1U);

  using enum EntryKind;
  EXPECT_EQ(kinds(), (std::vector{kRecord, kWait, kRecord, kHostWait}));
  EXPECT_EQ(id_of(event), 1U);
  EXPECT_EQ(tape.entries[1].index, 1U);
  EXPECT_EQ(tape.entries[1].role, kCompute);
  EXPECT_EQ(tape.entries[3].index, 2U);
}

TEST_F(MetaStreamsTest, AnAccessWithoutAnOrderIsFoundAndNotWritten) {
  auto* block = static_cast<std::byte*>(runtime->allocate(kKilobyte));
  streams->upload(kCopy, block, block, kKilobyte);
  const auto read = [&] {
    const Launch launch(*streams, kCompute, "reader", {Region{block, 8}}, {});
  };
  const std::string message = test::message_of<OrderError>(read);
  EXPECT_NE(message.find("reader"), std::string::npos) << message;
  EXPECT_EQ(tape.works.size(), 1U);
  streams->follows(kCompute, streams->record(kCopy));
  EXPECT_NO_THROW(read());
}

TEST_F(MetaStreamsTest, NobodyReadsALargeTensorOfADeviceThatComputesNothing) {
  const Device device = Device::meta(tape);
  device.set_phase("step 2: optimizer");
  const Tensor small = Tensor::zeros(device, {kMostReadOfNothing / 4}, DType::kF32);
  EXPECT_EQ(small.to_vector(), std::vector<double>(kMostReadOfNothing / 4, 0.0));
  const Tensor large = Tensor::zeros(device, {kMostReadOfNothing / 4 + 1}, DType::kF32);
  const std::string message =
      test::message_of<Error>([&] { static_cast<void>(large.to_vector()); });
  for (const char* part : {"copy to the host", "step 2: optimizer", "clear", "1.05 MB"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
}

TEST_F(MetaStreamsTest, ADeviceWritesDownWhatIsInUseAfterEachChange) {
  const Device device = Device::meta(tape);
  EXPECT_EQ(to_string(device.kind()), "meta");
  {
    const Tensor weights = Tensor::empty(device, {1, 3}, DType::kF64, MemoryCategory::kParameters);
    const Tensor buffer = Tensor::empty(device, {5}, DType::kF32);
    buffer.set_category(MemoryCategory::kCommunication);
  }
  EXPECT_EQ(tape.memory, (std::vector<TapedMemory>{{24, 0, 0, 0, 0, 0},
                                                   {24, 0, 0, 0, 0, 20},
                                                   {24, 0, 0, 0, 20, 0},
                                                   {24, 0, 0, 0, 0, 0},
                                                   {0, 0, 0, 0, 0, 0}}));
  EXPECT_EQ(kinds(), std::vector<EntryKind>(5, EntryKind::kMemory));
}

TEST_F(MetaStreamsTest, ABlockThatAnotherStreamUsedWaitsForNobody) {
  const Device device = Device::meta(tape, 0, true);
  {
    const Tensor used = Tensor::zeros(device, {kKilobyte}, DType::kF32);
    used.used_on(kCommunication);
    device.streams().wait(kCommunication, device.streams().record(kCompute));
    const Launch launch(device.streams(), kCommunication, "send",
                        {Region{used.address(), used.nbytes()}}, {});
  }
  const std::size_t before = tape.entries.size();
  const Tensor next = Tensor::zeros(device, {kKilobyte}, DType::kF32);  // in the same block
  const auto after = std::span(tape.entries).subspan(before);
  EXPECT_EQ(std::ranges::count(after, EntryKind::kWait, &Entry::kind), 0);
  EXPECT_EQ(device.system_allocations(), 1U);
}

TEST(MetaDevice, IsNotForUsers) {
  EXPECT_THROW(static_cast<void>(parse_device_kind("meta")), ConfigError);
  EXPECT_THROW(static_cast<void>(Device::create(DeviceKind::kMeta)), InternalError);
}

}  // namespace
}  // namespace ultra::gpu
