#include "common/comm/backend/nccl/nccl_calls.hpp"

#include <string>

#include "common/base/errors.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm::nccl {
namespace {

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

}  // namespace

void enqueue(const CollectiveCall& call, const Destination& to) { Enqueueing(call, to).enqueue(); }

}  // namespace ultra::comm::nccl
