#include "common/comm/backend/meta/mirror.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

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

}  // namespace

void clear(const Tensor& tensor) { fill(bytes_of(tensor), {}); }

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

}  // namespace ultra::comm
