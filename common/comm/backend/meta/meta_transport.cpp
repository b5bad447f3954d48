#include "common/comm/backend/meta/meta_transport.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/backend/meta/mirror.hpp"
#include "common/comm/collectives/native_volume.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/comm/links/point_to_point.hpp"
#include "common/gpu/meta/meta_event.hpp"
#include "common/gpu/meta/meta_streams.hpp"
#include "common/gpu/meta/tape.hpp"

namespace ultra::comm {
namespace {

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

class MetaTransport final : public Transport {
 public:
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
    return make_meta_transport(tape_, std::move(worlds), rank);
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

}  // namespace

std::unique_ptr<Transport> make_meta_transport(gpu::Tape& tape, std::vector<int> members,
                                               int rank) {
  return std::make_unique<MetaTransport>(tape, std::move(members), rank);
}

}  // namespace ultra::comm
