#include "common/comm/backend/mpi/native_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/collectives/native_volume.hpp"
#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm::mpi {
namespace {

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return MPI_FLOAT;
    case DType::kF64:
      return MPI_DOUBLE;
    case DType::kBF16:
    case DType::kF16:
      return MPI_UINT16_T;  // MPI moves the bits; what a sum is, half_op_of says
    case DType::kI32:
      break;
  }
  return MPI_INT32_T;
}

/// MPI's call back for one step of a reduction of two-byte numbers.
template <DType dtype, ReduceOp op>
void combine_half(void* from, void* into, int* count, MPI_Datatype* /*type*/) {
  combine({.dtype = dtype, .op = op}, into, from, static_cast<std::size_t>(*count));
}

/// Made once per process, in its first use, and kept: MPI's end frees it.
template <DType dtype, ReduceOp op>
MPI_Op made_op() {
  static const MPI_Op kMade = [] {
    MPI_Op made = MPI_OP_NULL;
    check(MPI_Op_create(combine_half<dtype, op>, 1, &made), "MPI_Op_create");
    return made;
  }();
  return kMade;
}

template <DType dtype>
MPI_Op half_op_of(ReduceOp op) {
  if (op == ReduceOp::kMax) return made_op<dtype, ReduceOp::kMax>();
  if (op == ReduceOp::kMin) return made_op<dtype, ReduceOp::kMin>();
  return made_op<dtype, ReduceOp::kSum>();
}

MPI_Op op_of(ReduceOp op, DType dtype) {
  if (dtype == DType::kBF16) return half_op_of<DType::kBF16>(op);
  if (dtype == DType::kF16) return half_op_of<DType::kF16>(op);
  switch (op) {
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      break;
  }
  return MPI_SUM;
}

/// Chunks as MPI wants them.
struct IntChunks {
  std::vector<int> counts;
  std::vector<int> begins;
  bool equal = true;

  explicit IntChunks(const Chunks& chunks) {
    for (int i = 0; i < chunks.size(); ++i) {
      counts.push_back(static_cast<int>(chunks[i].size()));
      begins.push_back(static_cast<int>(chunks[i].begin));
      equal = equal && counts.back() == counts.front();
    }
  }
};

/// What MPI reads and writes until the collective has ended.
struct Memory {
  CollectiveCall call;
  IntChunks sent;
  IntChunks received;
  Tensor own_chunk;  // of a reduce_scatter in place

  explicit Memory(const CollectiveCall& its)
      : call(its), sent(its.sent), received(its.received), own_chunk() {}
};

class NativeCollective final : public Operation {
 public:
  NativeCollective(Session& session, std::shared_ptr<Transport> transport, MPI_Comm comm,
                   const CollectiveCall& call, Checking checking)
      : Operation(call.info, Order::kInTurn),
        session_(session),
        comm_(comm),
        rank_(transport->rank()),
        size_(transport->size()),
        memory_(std::make_shared<Memory>(call)),
        call_(memory_->call),
        sent_(memory_->sent),
        received_(memory_->received) {
    if (checking == Checking::kOff) return;
    roll_.emplace(std::move(transport), call.info, Answer::of(call.info));
  }
  NativeCollective(const NativeCollective&) = delete;
  NativeCollective& operator=(const NativeCollective&) = delete;

  ~NativeCollective() override {
    if (request_ == MPI_REQUEST_NULL) return;
    // A collective of MPI cannot be withdrawn: what it reads and writes must stay.
    const auto lock = session_.lock();
    session_.bury(request_, memory_);
  }

  bool advance() override {
    if (roll_ && !roll_->complete()) return false;
    const auto lock = session_.lock();
    if (!begun_) begin();
    int done = 0;
    check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return false;
    session_.count_move();
    finish();
    return true;
  }

  std::string waits_for() const override {
    if (!begun_) return roll_ ? roll_->waits_for() : "it has not begun";
    return "MPI's own collective does not say whom it waits for";
  }

  std::size_t sent_bytes() const override { return native_sent_bytes(call_, rank_, size_); }

 private:
  [[nodiscard]] bool is_root() const { return rank_ == info().root; }
  [[nodiscard]] std::byte* input() const { return bytes_of(call_.input).data(); }
  [[nodiscard]] std::byte* output() const { return bytes_of(call_.output).data(); }
  [[nodiscard]] std::size_t own(const Chunks& chunks) const {
    return chunks[rank_].begin * size_of(info().dtype);
  }

  void begin() {
    begun_ = true;
    const int code = start(static_cast<int>(info().count), type_of(info().dtype));
    check(code, std::string(to_string(info().kind)).c_str());
  }

  int start(int count, MPI_Datatype type) {
    switch (info().kind) {
      case OpKind::kBroadcast:
        return MPI_Ibcast(output(), count, type, info().root, comm_, &request_);
      case OpKind::kReduce:
        return MPI_Ireduce(is_root() ? in_place_or_input() : input(), output(), count, type,
                           op_of(info().op, info().dtype), info().root, comm_, &request_);
      case OpKind::kAllReduce:
        return MPI_Iallreduce(in_place_or_input(), output(), count, type,
                              op_of(info().op, info().dtype), comm_, &request_);
      case OpKind::kGather:
        return start_gather(type);
      case OpKind::kScatter:
        return start_scatter(type);
      case OpKind::kAllGather:
        return start_all_gather(type);
      case OpKind::kReduceScatter:
        return start_reduce_scatter(type);
      case OpKind::kAllToAll:
        return MPI_Ialltoallv(input(), sent_.counts.data(), sent_.begins.data(), type, output(),
                              received_.counts.data(), received_.begins.data(), type, comm_,
                              &request_);
      case OpKind::kBarrier:
        return MPI_Ibarrier(comm_, &request_);
      default:
        throw InternalError("MPI has no such collective");
    }
  }

  [[nodiscard]] const void* in_place_or_input() const {
    return input() == output() ? MPI_IN_PLACE : input();
  }

  int start_gather(MPI_Datatype type) {
    const int count = static_cast<int>(call_.input.numel());
    const bool in_place = is_root() && input() == output() + own(call_.received);
    const void* const from = in_place ? MPI_IN_PLACE : input();
    std::byte* const to = is_root() ? output() : nullptr;
    return MPI_Igather(from, count, type, to, count, type, info().root, comm_, &request_);
  }

  int start_scatter(MPI_Datatype type) {
    const int count = static_cast<int>(call_.output.numel());
    const bool in_place = is_root() && output() == input() + own(call_.sent);
    const std::byte* const from = is_root() ? input() : nullptr;
    void* const to = in_place ? MPI_IN_PLACE : output();
    return MPI_Iscatter(from, count, type, to, count, type, info().root, comm_, &request_);
  }

  int start_all_gather(MPI_Datatype type) {
    const int count = static_cast<int>(call_.input.numel());
    const bool in_place = input() == output() + own(call_.received);
    const void* const from = in_place ? MPI_IN_PLACE : input();
    if (received_.equal) {
      return MPI_Iallgather(from, count, type, output(), count, type, comm_, &request_);
    }
    return MPI_Iallgatherv(from, count, type, output(), received_.counts.data(),
                           received_.begins.data(), type, comm_, &request_);
  }

  int start_reduce_scatter(MPI_Datatype type) {
    std::byte* to = output();
    if (to >= input() && to < input() + call_.input.nbytes()) {
      // MPI's "in place" puts the result at the beginning of the input, not at this rank's chunk.
      memory_->own_chunk = Tensor::empty(call_.input.device(), {call_.output.numel()}, info().dtype,
                                         MemoryCategory::kCommunication);
      to = bytes_of(memory_->own_chunk).data();
    }
    if (sent_.equal) {
      return MPI_Ireduce_scatter_block(input(), to, sent_.counts.front(), type,
                                       op_of(info().op, info().dtype), comm_, &request_);
    }
    return MPI_Ireduce_scatter(input(), to, sent_.counts.data(), type,
                               op_of(info().op, info().dtype), comm_, &request_);
  }

  void finish() {
    if (memory_->own_chunk.defined() && memory_->own_chunk.numel() > 0) {
      std::memcpy(output(), bytes_of(memory_->own_chunk).data(), memory_->own_chunk.nbytes());
    }
    divide_average(call_, size_, host_memory());
  }

  Session& session_;
  MPI_Comm comm_;
  int rank_;
  int size_;
  std::shared_ptr<Memory> memory_;
  const CollectiveCall& call_;
  const IntChunks& sent_;
  const IntChunks& received_;
  std::optional<RollCall> roll_;
  bool begun_ = false;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

void expect_countable(const CollectiveCall& call) {
  const auto elements = [](const Tensor& tensor) {
    return tensor.defined() ? tensor.numel() : std::size_t{0};
  };
  const std::size_t most = std::max({call.info.count, elements(call.input), elements(call.output)});
  constexpr auto kLimit = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (most <= kLimit) return;
  throw ConfigError(fmt::format(
      "{}: MPI counts elements up to {}, these are {}. Use algorithms over send and receive "
      "(--collectives ours), or smaller pieces.",
      to_string(call.info), kLimit, most));
}

}  // namespace

std::shared_ptr<Operation> make_native(Session& session, std::shared_ptr<Transport> transport,
                                       MPI_Comm comm, const CollectiveCall& call,
                                       Checking checking) {
  expect_countable(call);
  return std::make_shared<NativeCollective>(session, std::move(transport), comm, call, checking);
}

}  // namespace ultra::comm::mpi
