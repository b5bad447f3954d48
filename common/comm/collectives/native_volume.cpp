#include "common/comm/collectives/native_volume.hpp"

namespace ultra::comm {
namespace {

std::size_t sent_count(const CollectiveCall& call, int rank, int size) {
  const OperationInfo& info = call.info;
  const auto others = static_cast<std::size_t>(size - 1);
  const bool root = rank == info.root;
  const std::size_t share = Chunks::even({0, info.count}, size)[rank].size();
  switch (info.kind) {
    case OpKind::kBroadcast:
      return root ? others * info.count : 0;
    case OpKind::kReduce:
      return info.count - (root ? share : 0);
    case OpKind::kAllReduce:
      return info.count - share + others * share;
    case OpKind::kGather:
      return root ? 0 : call.input.numel();
    case OpKind::kScatter:
      return root ? info.count - call.output.numel() : 0;
    case OpKind::kAllGather:
      return others * call.input.numel();
    case OpKind::kReduceScatter:
      return info.count - call.output.numel();
    case OpKind::kAllToAll:
      return call.input.numel() - call.sent[rank].size();
    default:
      return 0;
  }
}

}  // namespace

std::size_t native_sent_bytes(const CollectiveCall& call, int rank, int size) {
  return sent_count(call, rank, size) * size_of(call.info.dtype);
}

}  // namespace ultra::comm
