#include "common/comm/backend/nccl/nccl_collective.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/backend/nccl/nccl_library.hpp"
#include "common/comm/collectives/native_volume.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm::nccl {
namespace {

/// @brief Where a collective's calls go.
struct Destination {
  const Library& library;  ///< whose functions
  Comm* comm;              ///< of the group
  void* stream;            ///< a cudaStream_t
  int rank;                ///< of this member
  int size;                ///< of the group
};

DataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return DataType::kFloat32;
    case DType::kF64:
      return DataType::kFloat64;
    case DType::kBF16:
      return DataType::kBfloat16;
    case DType::kF16:
      return DataType::kFloat16;
    case DType::kI32:
      break;
  }
  return DataType::kInt32;
}

RedOp op_of(ReduceOp op) {
  if (op == ReduceOp::kMax) return RedOp::kMax;
  return op == ReduceOp::kMin ? RedOp::kMin : RedOp::kSum;
}

bool is_equal(const Chunks& chunks) {
  return chunks.whole().size() == chunks.largest() * static_cast<std::size_t>(chunks.size());
}

/// One collective on its way into a stream.
class Enqueueing {
 public:
  Enqueueing(const CollectiveCall& call, const Destination& to)
      : call_(call), to_(to), type_(type_of(call.info.dtype)), op_(op_of(call.info.op)) {}

  void enqueue() const {
    const OperationInfo& info = call_.info;
    const Library& nccl = to_.library;
    switch (info.kind) {
      case OpKind::kBroadcast:
        return check(
            nccl.broadcast(input(), output(), info.count, type_, info.root, to_.comm, to_.stream),
            "ncclBroadcast");
      case OpKind::kReduce:
        return check(
            nccl.reduce(input(), output(), info.count, type_, op_, info.root, to_.comm, to_.stream),
            "ncclReduce");
      case OpKind::kAllReduce:
        return check(
            nccl.all_reduce(input(), output(), info.count, type_, op_, to_.comm, to_.stream),
            "ncclAllReduce");
      case OpKind::kAllGather:
        return all_gather();
      case OpKind::kReduceScatter:
        return reduce_scatter();
      case OpKind::kGather:
        return grouped([this] { gather(); });
      case OpKind::kScatter:
        return grouped([this] { scatter(); });
      case OpKind::kAllToAll:
        return grouped([this] { all_to_all(); });
      default:
        throw InternalError("NCCL has no such collective");
    }
  }

 private:
  [[nodiscard]] std::byte* input() const { return memory_of(call_.input).data(); }
  [[nodiscard]] std::byte* output() const { return memory_of(call_.output).data(); }
  [[nodiscard]] std::byte* input_at(Range range) const {
    return input() + range.begin * size_of(call_.info.dtype);
  }
  [[nodiscard]] std::byte* output_at(Range range) const {
    return output() + range.begin * size_of(call_.info.dtype);
  }
  [[nodiscard]] bool is_root() const { return to_.rank == call_.info.root; }

  void check(Result result, const char* name) const { to_.library.check(result, name, to_.comm); }

  template <class Fn>
  void grouped(Fn&& fn) const {
    check(to_.library.group_start(), "ncclGroupStart");
    try {
      fn();
    } catch (...) {
      static_cast<void>(to_.library.group_end());  // else the thread's next calls would wait for it
      throw;
    }
    check(to_.library.group_end(), "ncclGroupEnd");
  }

  void send(const std::byte* from, std::size_t count, int peer) const {
    if (count == 0) return;
    check(to_.library.send(from, count, type_, peer, to_.comm, to_.stream), "ncclSend");
  }
  void receive(std::byte* into, std::size_t count, int peer) const {
    if (count == 0) return;
    check(to_.library.receive(into, count, type_, peer, to_.comm, to_.stream), "ncclRecv");
  }

  void all_gather() const {
    const Chunks& chunks = call_.received;
    if (is_equal(chunks)) {
      return check(
          to_.library.all_gather(input(), output(), chunks.largest(), type_, to_.comm, to_.stream),
          "ncclAllGather");
    }
    grouped([&] {
      for (int root = 0; root < to_.size; ++root) {
        if (chunks[root].size() == 0) continue;
        std::byte* const place = output_at(chunks[root]);
        check(to_.library.broadcast(root == to_.rank ? input() : place, place, chunks[root].size(),
                                    type_, root, to_.comm, to_.stream),
              "ncclBroadcast");
      }
    });
  }

  void reduce_scatter() const {
    const Chunks& chunks = call_.sent;
    if (is_equal(chunks)) {
      return check(to_.library.reduce_scatter(input(), output(), chunks.largest(), type_, op_,
                                              to_.comm, to_.stream),
                   "ncclReduceScatter");
    }
    grouped([&] {
      for (int root = 0; root < to_.size; ++root) {
        if (chunks[root].size() == 0) continue;
        std::byte* const place = input_at(chunks[root]);
        check(to_.library.reduce(place, root == to_.rank ? output() : place, chunks[root].size(),
                                 type_, op_, root, to_.comm, to_.stream),
              "ncclReduce");
      }
    });
  }

  void gather() const {
    send(input(), call_.input.numel(), call_.info.root);
    for (int peer = 0; is_root() && peer < to_.size; ++peer) {
      receive(output_at(call_.received[peer]), call_.received[peer].size(), peer);
    }
  }

  void scatter() const {
    for (int peer = 0; is_root() && peer < to_.size; ++peer) {
      send(input_at(call_.sent[peer]), call_.sent[peer].size(), peer);
    }
    receive(output(), call_.output.numel(), call_.info.root);
  }

  void all_to_all() const {
    for (int peer = 0; peer < to_.size; ++peer) {
      send(input_at(call_.sent[peer]), call_.sent[peer].size(), peer);
      receive(output_at(call_.received[peer]), call_.received[peer].size(), peer);
    }
  }

  const CollectiveCall& call_;
  const Destination& to_;
  DataType type_;
  RedOp op_;
};

/// @brief Puts a collective into a stream. An average is a sum, to be divided when that has ended.
///
/// What NCCL has no function for is a group of its calls: gather, scatter and all_to_all of sends and
/// receives; all_gather with unequal chunks of broadcasts, reduce_scatter of reductions. Returns at once.
/// @throws CommError with NCCL's words.
void enqueue(const CollectiveCall& call, const Destination& to) { Enqueueing(call, to).enqueue(); }

class NcclCollective final : public Operation {
 public:
  NcclCollective(const CollectiveCall& call, std::shared_ptr<NcclGroup> group,
                 std::shared_ptr<Transport> control, std::shared_ptr<Operation> inner,
                 Checking checking, std::shared_ptr<Polling> polling)
      : Operation(call.info, Order::kInTurn),
        call_(call),
        part_(device_part_of(call_)),
        group_(std::move(group)),
        control_(std::move(control)),
        inner_(std::move(inner)),
        polling_(std::move(polling)) {
    if (checking == Checking::kOn && control_->size() > 1) {
      roll_.emplace(control_, call.info, Answer::of(call.info));
    }
  }

  bool advance() override {
    return named([this] { return step(); });
  }

  std::string waits_for() const override {
    switch (stage_) {
      case Stage::kConnecting:
        return group_->waits_for();
      case Stage::kInner:
        return inner_->waits_for();
      case Stage::kCalling:
        return roll_ ? roll_->waits_for() : "it has not begun";
      case Stage::kEnqueueing:
      case Stage::kEnqueued:
        break;
    }
    return roll_ ? "all ranks have arrived, and NCCL has not finished on the GPU"
                 : "NCCL does not say whom it waits for";
  }

  std::size_t sent_bytes() const override {
    return native_sent_bytes(call_, control_->rank(), control_->size());
  }

  const DevicePart* device_part() const override {
    return stage_ == Stage::kInner ? inner_->device_part() : &part_;
  }

  void check_device() override {
    if (stage_ != Stage::kEnqueued) return;
    static_cast<void>(named([this] { return group_->is_enqueued(); }));
  }
  void abort() override { group_->abort(); }

 private:
  enum class Stage : std::uint8_t { kConnecting, kInner, kCalling, kEnqueueing, kEnqueued };

  /// What NCCL says knows no operation. After an error, nothing of the group may go on.
  template <class Fn>
  bool named(Fn&& fn) {
    try {
      return fn();
    } catch (const CommMismatch&) {
      throw;
    } catch (const CommError& error) {
      group_->abort();
      throw CommError(fmt::format("{}: {}", to_string(info()), error.what()));
    }
  }

  bool step() {
    if (stage_ == Stage::kConnecting) {
      if (!group_->advance(part_.device()->device())) {
        if (group_->connects() && !polled_) polled_.emplace(polling_);
        return false;
      }
      polled_.reset();
      stage_ = group_->is_connected() ? Stage::kCalling : Stage::kInner;
    }
    if (stage_ == Stage::kInner) return inner_->advance();
    if (stage_ == Stage::kCalling) {
      if (roll_ && !roll_->complete()) return false;
      enqueue_calls();
      stage_ = Stage::kEnqueueing;
      polled_.emplace(polling_);
    }
    if (stage_ == Stage::kEnqueueing) {
      if (!group_->is_enqueued()) return false;
      polled_.reset();
      finish();
      stage_ = Stage::kEnqueued;
    }
    return true;
  }

  void enqueue_calls() const {
    gpu::Streams& streams = group_->streams();
    streams.wait(NcclGroup::kRole, part_.ready());
    const gpu::Launch launch(streams, NcclGroup::kRole, part_.device()->operation(),
                             {region(call_.input)}, {region(call_.output)});
    enqueue(call_, {.library = group_->library(),
                    .comm = group_->comm(),
                    .stream = launch.queue().stream.handle,
                    .rank = control_->rank(),
                    .size = control_->size()});
  }

  void finish() {
    const gpu::Event end = group_->streams().record(NcclGroup::kRole);
    if (info().op != ReduceOp::kAverage) return part_.ends_at(end);
    part_.device()->after(end);
    divide_average(call_, control_->size(), part_.memory());
    const gpu::Event divided = part_.device()->record();
    group_->streams().wait(NcclGroup::kRole,
                           divided);  // the group's next operation may be given the average
    part_.ends_at(divided);
  }

  static gpu::Region region(const Tensor& tensor) {
    const std::span<const std::byte> memory = memory_of(tensor);
    return {.begin = memory.data(), .bytes = memory.size()};
  }

  CollectiveCall call_;
  DevicePart part_;
  std::shared_ptr<NcclGroup> group_;
  std::shared_ptr<Transport> control_;
  std::shared_ptr<Operation> inner_;
  std::shared_ptr<Polling> polling_;
  std::optional<Polled> polled_;
  std::optional<RollCall> roll_;
  Stage stage_ = Stage::kConnecting;
};

}  // namespace

std::shared_ptr<Operation> make_collective(const CollectiveCall& call,
                                           std::shared_ptr<NcclGroup> group,
                                           std::shared_ptr<Transport> control,
                                           std::shared_ptr<Operation> inner, Checking checking,
                                           std::shared_ptr<Polling> polling) {
  return std::make_shared<NcclCollective>(call, std::move(group), std::move(control),
                                          std::move(inner), checking, std::move(polling));
}

}  // namespace ultra::comm::nccl
