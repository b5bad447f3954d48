#include "common/comm/backend/meta/meta_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/collectives/collective_call.hpp"
#include "common/comm/collectives/native_volume.hpp"
#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/engine/group_state.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/comm/links/point_to_point.hpp"
#include "common/comm/transport.hpp"
#include "common/gpu/meta/meta_event.hpp"
#include "common/gpu/meta/meta_streams.hpp"
#include "common/gpu/meta/tape.hpp"

namespace ultra::comm {
namespace {

/// As many bytes as there are, then zeros.
void fill(std::span<std::byte> to, std::span<const std::byte> from) {
  const std::size_t count = std::min(to.size(), from.size());
  if (count > 0) std::memmove(to.data(), from.data(), count);
  if (count < to.size()) std::memset(to.data() + count, 0, to.size() - count);
}

/// A range of a tensor's elements, in bytes.
std::span<std::byte> part_of(const Tensor& tensor, Range range) {
  const std::size_t width = size_of(tensor.dtype());
  return bytes_of(tensor).subspan(range.begin * width, range.size() * width);
}

/// The elements that a reduction leaves of `size` equal ones.
void reduce_equal(const CollectiveCall& call, std::span<const std::byte> from, int size) {
  const std::vector<const void*> sources(static_cast<std::size_t>(size), from.data());
  void* const into = bytes_of(call.output).data();
  combine_all({.dtype = call.info.dtype, .op = call.info.op}, {&into, 1}, sources,
              from.size() / size_of(call.info.dtype));
}

/// Zeros into a contiguous tensor of the host.
void clear(const Tensor& tensor) { fill(bytes_of(tensor), {}); }

/// Writes the result of a collective on the host's memory as if every member were like this one.
///
/// A sum is size times this rank's own, an average, largest or smallest its own; what is gathered is this
/// rank's part again and again; what an all-to-all brings from a member is what goes to it. Where a part
/// that comes is larger than the one that it is made of, and where this rank has nothing of its own (a
/// scatter from elsewhere), the rest are zeros. A broadcast leaves what is there.
void mirror(const CollectiveCall& call, calls::Member member) {
  if (!call.output.defined()) return;
  switch (call.info.kind) {
    case OpKind::kReduce:
    case OpKind::kAllReduce:
      return reduce_equal(call, bytes_of(call.input), member.size);
    case OpKind::kReduceScatter:
      return reduce_equal(call, part_of(call.input, call.sent[member.rank]), member.size);
    case OpKind::kGather:
    case OpKind::kAllGather:
      for (int from = 0; from < member.size; ++from) {
        fill(part_of(call.output, call.received[from]), bytes_of(call.input));
      }
      return;
    case OpKind::kScatter:
      if (!call.input.defined()) return clear(call.output);
      return fill(bytes_of(call.output), part_of(call.input, call.sent[member.rank]));
    case OpKind::kAllToAll:
      for (int from = 0; from < member.size; ++from) {
        fill(part_of(call.output, call.received[from]), part_of(call.input, call.sent[from]));
      }
      return;
    default:
      return;
  }
}

static_assert(static_cast<int>(OpKind::kBroadcast) ==
              static_cast<int>(gpu::ExchangeKind::kBroadcast));
static_assert(static_cast<int>(OpKind::kBarrier) == static_cast<int>(gpu::ExchangeKind::kBarrier));

/// Those of two groups' members and of two operations differ.
std::uint64_t name_of(const Tag& tag) {
  return static_cast<std::uint64_t>(tag.use) << 48U | std::uint64_t{tag.lane} << 32U | tag.sequence;
}

/// Of the elements of all members together, as far as one member knows.
std::size_t whole_bytes(const CollectiveCall& call) {
  if (call.info.kind == OpKind::kAllToAll) return call.input.nbytes();
  return call.info.count * size_of(call.info.dtype);
}

std::vector<gpu::Region> region_of(const Tensor& tensor) {
  const std::span<const std::byte> memory = memory_of(tensor);
  if (memory.empty()) return {};
  return {{memory.data(), memory.size()}};
}

void expect_nothing_computes(const OperationInfo& info) {
  if (info.device == DeviceKind::kCpu || info.device == DeviceKind::kMeta) return;
  throw ConfigError(fmt::format(
      "{}: its tensors are on {}; a world in which no message travels takes those of the host and "
      "of a meta device",
      to_string(info), to_string(info.device)));
}

/// What has been written down has ended.
class Noted final : public Operation {
 public:
  /// @param part  of its tensors.
  Noted(const OperationInfo& info, Order order, const DevicePart& part, std::size_t sent_bytes)
      : Operation(info, order), part_(part), sent_bytes_(sent_bytes) {}

  bool advance() override { return true; }
  std::string waits_for() const override { return "nobody"; }
  std::size_t sent_bytes() const override { return sent_bytes_; }
  const DevicePart* device_part() const override { return part_.exists() ? &part_ : nullptr; }

  void ends_at(const gpu::Event& end) {
    if (part_.exists() && end.state() != nullptr) part_.ends_at(end);
  }

 private:
  DevicePart part_;
  std::size_t sent_bytes_;
};

/// A group of ranks that do not exist, but for this one: notes operations, and has no messages.
class MetaTransport final : public Transport {
 public:
  /// @param members  their ranks in the world.
  /// @param rank     this rank's position among them.
  MetaTransport(gpu::Tape& tape, std::vector<int> members, int rank)
      : tape_(tape), members_(std::move(members)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  int world_rank(int member) const override { return members_[static_cast<std::size_t>(member)]; }

  std::unique_ptr<Request> isend(const Parcel&, int, Tag) override { throw no_messages(); }
  std::unique_ptr<Request> irecv(const Landing&, int, Tag) override { throw no_messages(); }

  std::unique_ptr<Transport> subgroup(std::span<const int> members, std::uint32_t) override {
    std::vector<int> worlds;
    int rank = 0;
    for (const int member : members) {
      if (member == rank_) rank = static_cast<int>(worlds.size());
      worlds.push_back(world_rank(member));
    }
    return std::make_unique<MetaTransport>(tape_, std::move(worlds), rank);
  }

  std::shared_ptr<Operation> native(const CollectiveCall& call, Checking) override {
    return note(call, native_sent_bytes(call, rank_, size()));
  }

  std::shared_ptr<Operation> note(const CollectiveCall& call, std::size_t sent_bytes) override {
    expect_nothing_computes(call.info);
    const DevicePart part = device_part_of(call);
    const auto noted =
        std::make_shared<Noted>(call.info, Operation::Order::kInTurn, part, sent_bytes);
    const gpu::EventId end = tape_.new_event();
    if (tape_.runs()) {
      tape_.add({.kind = static_cast<gpu::ExchangeKind>(call.info.kind),
                 .group = group(call.info.communicator),
                 .sequence = call.info.sequence,
                 .label = tape_.name(call.info.label),
                 .bytes = whole_bytes(call),
                 .sent_bytes = sent_bytes,
                 .ready = gpu::id_of(part.ready()),
                 .end = end,
                 .of_host = !part.exists()});
    }
    if (part.exists()) {
      noted->ends_at(touched(part, call.info, region_of(call.input), region_of(call.output), end));
    } else {
      mirror(call, {.rank = rank_, .size = size()});
    }
    return noted;
  }

  std::shared_ptr<Operation> note(const OperationInfo& info, const Tensor& data,
                                  const Tag& tag) override {
    expect_nothing_computes(info);
    const bool sends = info.kind == OpKind::kSend;
    const DevicePart part = device_part_of(data, info);
    const std::size_t sent_bytes = sends && info.root != rank_ ? data.nbytes() : 0;
    const auto noted = std::make_shared<Noted>(info, Operation::Order::kAnyTime, part, sent_bytes);
    // A send that has ended says nothing of its receiver: nobody may come to wait for that.
    const gpu::EventId end = sends ? gpu::EventId{0} : tape_.new_event();
    if (tape_.runs()) {
      tape_.add({.peer = world_rank(info.root),
                 .group = group(info.communicator),
                 .name = name_of(tag),
                 .bytes = data.nbytes(),
                 .ready = gpu::id_of(part.ready()),
                 .end = end,
                 .sends = sends,
                 .of_host = !part.exists()});
    }
    if (part.exists()) {
      const std::vector<gpu::Region> region = region_of(data);
      noted->ends_at(touched(part, info, sends ? region : std::vector<gpu::Region>(),
                             sends ? std::vector<gpu::Region>() : region, end));
    } else if (!sends) {
      clear(data);
    }
    return noted;
  }

 private:
  static InternalError no_messages() {
    return InternalError("a world in which no message travels was asked for one");
  }

  [[nodiscard]] std::uint32_t group(const std::string& name) {
    if (!group_) group_ = tape_.group({.name = name, .members = members_});
    return *group_;
  }

  /// The end of an operation that touches a device's memory.
  [[nodiscard]] gpu::Event touched(const DevicePart& part, const OperationInfo& info,
                                   std::span<const gpu::Region> reads,
                                   std::span<const gpu::Region> writes, gpu::EventId end) const {
    auto& streams = static_cast<gpu::MetaStreams&>(part.device()->device().streams());
    ensure(&streams.tape() == &tape_, "a rank's device and its world write on one tape");
    return streams.exchanges(stream_name(info), reads, writes, part.ready(), end);
  }

  gpu::Tape& tape_;
  std::vector<int> members_;
  int rank_;
  std::optional<std::uint32_t> group_;  // index on the tape
};

/// Nothing ever happens elsewhere.
class MetaMonitor final : public RankMonitor {
 public:
  explicit MetaMonitor(int rank) : rank_(rank) {}

  int world_rank() const override { return rank_; }
  std::uint64_t events() const override { return 0; }
  void sleep(std::uint64_t, Clock::time_point) override {}
  void wake() override {}
  int spins() const override { return 0; }
  void check(const std::string&) override { throw_if_interrupted(); }
  void report_blocked(std::uint64_t, const std::string& doing) override {
    throw InternalError(fmt::format("nobody is there to end {}", doing));
  }
  void report_moving() override {}
  std::vector<RankActivity> activities() override { return {}; }

 private:
  int rank_;
};

}  // namespace

Communicator meta_world(int rank, int size, gpu::Tape& tape) {
  if (rank < 0 || rank >= size) {
    throw ConfigError(
        fmt::format("a world of {} ranks has no rank {}: they are 0 to {}", size, rank, size - 1));
  }
  auto own = std::make_shared<RankState>();
  own->engine = std::make_shared<ProgressEngine>(
      std::make_shared<MetaMonitor>(rank),
      EngineOptions{.progress = Progress::kOnCall, .next_alarm = {}});
  own->polling = std::make_shared<Polling>();
  own->checking = Checking::kOff;
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return Communicator(std::make_shared<Communicator::State>(Communicator::State{
      GroupState::join(std::move(own),
                       std::make_unique<MetaTransport>(tape, std::move(members), rank), "world"),
      nullptr,
      {}}));
}

}  // namespace ultra::comm
