#include "common/comm/collectives/schedule_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm {
namespace {

struct Limits {
  int rank;
  int size;
  std::size_t counts[3];  // elements by Buffer
};

const char* name_of(Buffer buffer) {
  constexpr const char* kNames[] = {"the data", "the input", "the scratch memory"};
  return kNames[static_cast<int>(buffer)];
}

/// What is wrong with one half of a step; empty when nothing is.
std::string fault_of(const Limits& limits, int peer, const Block& block) {
  if (peer == kNobody) return "";
  if (peer < 0 || peer >= limits.size) {
    return fmt::format("there is no rank {} among {}", peer, limits.size);
  }
  const std::size_t count = limits.counts[static_cast<int>(block.buffer)];
  if (block.range.begin <= block.range.end && block.range.end <= count) return "";
  return fmt::format("[{}, {}) is not inside {}, which has {} elements", block.range.begin,
                     block.range.end, name_of(block.buffer), count);
}

bool have_elements_in_common(const Block& a, const Block& b) {
  return a.buffer == b.buffer && a.range.size() > 0 && b.range.size() > 0 &&
         a.range.begin < b.range.end && b.range.begin < a.range.end;
}

std::string fault_of(const Limits& limits, const Round& step) {
  if (std::string fault = fault_of(limits, step.send_to, step.send); !fault.empty()) return fault;
  if (std::string fault = fault_of(limits, step.receive_from, step.receive); !fault.empty()) {
    return fault;
  }
  if (step.receive_from != kNobody && step.receive.buffer == Buffer::kInput) {
    return "the input is only read";
  }
  if (step.send_to != kNobody && step.receive_from != kNobody &&
      have_elements_in_common(step.send, step.receive)) {
    return "it sends elements while they are overwritten; receive into scratch memory first";
  }
  const bool to_itself = step.send_to == limits.rank;
  const bool from_itself = step.receive_from == limits.rank;
  if (to_itself != from_itself) return "what a rank sends to itself it receives in the same step";
  if (to_itself && step.send.range.size() != step.receive.range.size()) {
    return "the two blocks of a copy must have the same size";
  }
  return "";
}

/// Takes a schedule's steps on three pieces of memory.
class LaneRunner {
 public:
  struct Memory {
    std::byte* buffers[3];  // by Buffer
    Combine combine;
    std::shared_ptr<const void> owner;  // of the buffers
    const DevicePart* part = nullptr;   // how they are copied
  };

  LaneRunner(Lane steps, std::uint16_t lane) : steps_(std::move(steps)), lane_(lane) {}

  bool advance(Transport& transport, const Memory& memory, std::uint32_t sequence) {
    for (; next_ < steps_.size(); ++next_) {
      if (const std::size_t terms = terms_of_sum(transport.rank(), memory); terms > 0) {
        add_up(terms, memory);
        next_ += terms - 1;
        continue;
      }
      if (!begun_) begin(steps_[next_], transport, memory, sequence);
      if (receive_ && receive_->test()) end(receive_, memory);
      if (send_ && send_->test()) end(send_, memory);
      if (receive_ || send_) return false;
      begun_ = false;
    }
    return true;
  }

  std::string waits_for(const Transport& transport) const {
    if (next_ == steps_.size()) return "";
    const Round& step = steps_[next_];
    const std::vector<int> worlds = world_ranks(transport);
    return fmt::format("in lane {}, step {} of {} ({}), {}{}{}", lane_, next_ + 1, steps_.size(),
                       to_string(step),
                       send_ ? have({step.send_to}, worlds, "not taken the message") : "",
                       send_ && receive_ ? ", " : "",
                       receive_ ? have({step.receive_from}, worlds, "not sent") : "");
  }

 private:
  void begin(const Round& step, Transport& transport, const Memory& memory,
             std::uint32_t sequence) {
    begun_ = true;
    const auto bytes = [&](const Block& block) { return bytes_in(memory, block); };
    if (step.send_to == transport.rank()) {
      memory.part->memory().copy(bytes(step.receive).data(), bytes(step.send).data(),
                                 bytes(step.receive).size());
      return;
    }
    // What the steps before have done to the blocks is in the stream.
    const std::shared_ptr<const DeviceMemory>& device = memory.part->device();
    const Place place = device ? Place{device, device->record()} : Place{};
    const Tag tag{.use = Tag::Use::kCollective, .lane = lane_, .sequence = sequence};
    if (step.receive_from != kNobody) {
      Landing landing{bytes(step.receive), {}, memory.owner, place};
      if (step.on_receive == OnReceive::kReduce) landing.combine = memory.combine;
      receive_ = transport.irecv(landing, step.receive_from, tag);
    }
    if (step.send_to != kNobody)
      send_ = transport.isend({bytes(step.send), memory.owner, place}, step.send_to, tag);
  }

  /// On a device, the steps that follow come after it in the stream.
  static void end(std::unique_ptr<Request>& request, const Memory& memory) {
    if (const auto& device = memory.part->device()) device->after(request->ended_at());
    request.reset();
  }

  static std::span<std::byte> bytes_in(const Memory& memory, const Block& block) {
    const std::size_t width = size_of(memory.combine.dtype);
    return std::span(memory.buffers[static_cast<int>(block.buffer)] + block.range.begin * width,
                     block.range.size() * width);
  }

  /// How many steps from the next one on are local reductions into the same block: at most as many
  /// as one call of combine_all takes.
  std::size_t terms_of_sum(int rank, const Memory& memory) const {
    const std::size_t most =
        std::min(steps_.size() - next_, memory.part->memory().most_combined() - 1);
    std::size_t end = next_;
    while (end < next_ + most && steps_[end].send_to == rank &&
           steps_[end].on_receive == OnReceive::kReduce &&
           steps_[end].receive == steps_[next_].receive) {
      ++end;
    }
    return end - next_;
  }

  /// Takes the next `terms` steps as one sum, in their order.
  void add_up(std::size_t terms, const Memory& memory) {
    const std::span<std::byte> sum = bytes_in(memory, steps_[next_].receive);
    std::vector<const void*> sources = {sum.data()};
    for (std::size_t i = next_; i < next_ + terms; ++i) {
      sources.push_back(bytes_in(memory, steps_[i].send).data());
    }
    Combine how = memory.combine;
    if (how.op == ReduceOp::kAverage) how.op = ReduceOp::kSum;  // the end of all divides
    const std::array<void*, 1> into = {sum.data()};
    memory.part->memory().combine_all(how, into, sources, sum.size() / size_of(how.dtype));
  }

  Lane steps_;
  std::uint16_t lane_;
  std::size_t next_ = 0;
  bool begun_ = false;
  std::unique_ptr<Request> receive_;
  std::unique_ptr<Request> send_;
};

class ScheduleRunner : public Operation {
 public:
  ScheduleRunner(CollectiveCall call, Schedule schedule, std::shared_ptr<Transport> transport,
                 std::optional<RollCall> roll)
      : Operation(call.info, Order::kInTurn),
        call_(std::move(call)),
        part_(device_part_of(call_)),
        transport_(std::move(transport)),
        roll_(std::move(roll)),
        sent_bytes_(sent_count(schedule, transport_->rank()) * size_of(call_.info.dtype)),
        scratch_count_(schedule.scratch_count) {
    const std::size_t input_count = info().kind == OpKind::kAllToAll ? call_.input.numel() : 0;
    expect_runnable(schedule, transport_->rank(), transport_->size(), input_count, data_count());
    for (Lane& lane : schedule.lanes) {
      lanes_.emplace_back(std::move(lane), static_cast<std::uint16_t>(lanes_.size()));
    }
  }

  bool advance() override {
    if (roll_ && !roll_->complete()) return false;
    if (!begun_) begin();
    bool ended = true;
    for (LaneRunner& lane : lanes_) {
      if (!lane.advance(*transport_, memory_, info().sequence)) ended = false;
    }
    if (ended) finish();
    return ended;
  }

  std::string waits_for() const override {
    if (!begun_) return roll_->waits_for();
    std::string all;
    for (const LaneRunner& lane : lanes_) {
      const std::string one = lane.waits_for(*transport_);
      if (!one.empty()) all += (all.empty() ? "" : "; ") + one;
    }
    return all;
  }

  std::size_t sent_bytes() const override { return sent_bytes_; }

  const DevicePart* device_part() const override { return part_.exists() ? &part_ : nullptr; }

  void check_device() override { transport_->check_device(); }
  void abort() override { transport_->abort(); }

 private:
  std::size_t whole_count() const { return info().count; }

  std::size_t data_count() const {
    const bool own_size = info().kind == OpKind::kAllToAll || info().kind == OpKind::kBarrier;
    return own_size ? call_.output.numel() : whole_count();
  }

  Range own_chunk() const {
    const bool gathers = info().kind == OpKind::kGather || info().kind == OpKind::kAllGather;
    return (gathers ? call_.received : call_.sent)[transport_->rank()];
  }

  const Device& device() const {
    return call_.input.defined() ? call_.input.device() : call_.output.device();
  }

  Tensor temporary(std::size_t count) const {
    return Tensor::empty(device(), {count}, info().dtype, MemoryCategory::kCommunication);
  }

  /// The memory that holds the whole data while the steps run.
  Tensor choose_data() const {
    const bool root = transport_->rank() == info().root;
    switch (info().kind) {
      case OpKind::kReduce:
        if (root) return call_.output;
        break;
      case OpKind::kGather:
        if (!root) return temporary(whole_count());
        return call_.output;
      case OpKind::kScatter:
        if (!root) return temporary(whole_count());
        return call_.input;
      case OpKind::kReduceScatter:
        if (overlap(call_.output, call_.input)) return call_.input;
        break;
      default:
        return call_.output;
    }
    return call_.input.clone(MemoryCategory::kCommunication);
  }

  void begin() {
    begun_ = true;
    // On a device, what is allocated and copied here belongs to the communication stream.
    const gpu::StreamScope scope(gpu::StreamRole::kCommunication);
    if (part_.exists()) part_.device()->after(part_.ready());
    data_ = choose_data();
    if (scratch_count_ > 0) scratch_ = temporary(scratch_count_);
    const bool gathers = info().kind == OpKind::kGather || info().kind == OpKind::kAllGather;
    if (gathers) copy_elements(call_.input, 0, data_, own_chunk().begin, own_chunk().size());
    memory_ = {
        .buffers = {memory_of(data_).data(), memory_of(call_.input).data(),
                    memory_of(scratch_).data()},
        .combine = {.dtype = info().dtype, .op = info().op},
        .owner = std::make_shared<std::array<Tensor, 3>>(std::array{data_, call_.input, scratch_}),
        .part = &part_};
  }

  void finish() {
    if (info().kind == OpKind::kScatter || info().kind == OpKind::kReduceScatter) {
      copy_elements(data_, own_chunk().begin, call_.output, 0, own_chunk().size());
    }
    divide_average(call_, transport_->size(), part_.memory());
    if (part_.exists()) part_.ends_at(part_.device()->record());
    data_ = {};
    scratch_ = {};
    memory_ = {};
  }

  void copy_elements(const Tensor& from, std::size_t from_begin, const Tensor& to,
                     std::size_t to_begin, std::size_t count) const {
    const std::size_t width = size_of(to.dtype());
    const std::byte* source = memory_of(from).data() + from_begin * width;
    std::byte* target = memory_of(to).data() + to_begin * width;
    part_.memory().copy(target, source, count * width);
  }

  CollectiveCall call_;
  DevicePart part_;
  std::shared_ptr<Transport> transport_;
  std::optional<RollCall> roll_;
  std::size_t sent_bytes_;
  std::size_t scratch_count_;
  Tensor data_;
  Tensor scratch_;
  LaneRunner::Memory memory_{};
  bool begun_ = false;
  std::vector<LaneRunner> lanes_;  // last: requests are withdrawn before the memory goes
};

Schedule make_schedule(const CollectiveCall& call, const CollectiveAlgorithms& algorithms,
                       const Group& group) {
  const OperationInfo& info = call.info;
  switch (info.kind) {
    case OpKind::kBroadcast:
      return algorithms.broadcast(group, info.count, info.root);
    case OpKind::kReduce:
      return algorithms.reduce(group, info.count, info.root);
    case OpKind::kAllReduce:
      return algorithms.all_reduce(group, info.count, size_of(info.dtype));
    case OpKind::kGather:
      return algorithms.gather(group, call.received, info.root);
    case OpKind::kScatter:
      return algorithms.scatter(group, call.sent, info.root);
    case OpKind::kAllGather:
      return algorithms.all_gather(group, call.received);
    case OpKind::kReduceScatter:
      return algorithms.reduce_scatter(group, call.sent);
    case OpKind::kAllToAll:
      return algorithms.all_to_all(group, call.sent, call.received);
    case OpKind::kBarrier:
      return algorithms.barrier(group);
    case OpKind::kSend:
    case OpKind::kRecv:
      break;
  }
  throw InternalError("only collectives have schedules");
}

}  // namespace

void expect_runnable(const Schedule& schedule, int rank, int size, std::size_t input_count,
                     std::size_t data_count) {
  const Limits limits{
      .rank = rank, .size = size, .counts = {data_count, input_count, schedule.scratch_count}};
  if (schedule.lanes.size() > Tag::kLanes) {
    throw ConfigError(fmt::format("a schedule has {} lanes; at most {} can run side by side",
                                  schedule.lanes.size(), Tag::kLanes));
  }
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (std::size_t i = 0; i < schedule.lanes[lane].size(); ++i) {
      const Round& step = schedule.lanes[lane][i];
      const std::string fault = fault_of(limits, step);
      if (fault.empty()) continue;
      throw ConfigError(fmt::format("rank {} of {}, lane {}, step {} ({}): {}", rank, size, lane,
                                    i + 1, to_string(step), fault));
    }
  }
}

std::shared_ptr<Operation> run_schedule(CollectiveCall call, const CollectiveAlgorithms& algorithms,
                                        std::shared_ptr<Transport> transport,
                                        std::shared_ptr<Transport> control, Checking checking) {
  const Group group = Group::all(transport->rank(), transport->size());
  Schedule schedule = make_schedule(call, algorithms, group);
  const std::size_t sent_bytes = sent_count(schedule, group.rank) * size_of(call.info.dtype);
  if (auto noted = control->note(call, sent_bytes)) return noted;
  std::optional<RollCall> roll;
  if (checking == Checking::kOn && group.size() > 1) {
    roll.emplace(std::move(control), call.info, Answer::of(call.info));
  }
  return std::make_shared<ScheduleRunner>(std::move(call), std::move(schedule),
                                          std::move(transport), std::move(roll));
}

}  // namespace ultra::comm
