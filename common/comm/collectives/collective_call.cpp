#include "common/comm/collectives/collective_call.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm::calls {
namespace {

void expect_contiguous(const char* operation, const char* name, const Tensor& tensor) {
  if (!tensor.defined()) {
    throw ShapeError(
        fmt::format("{}: '{}' is an undefined tensor; expected a contiguous one", operation, name));
  }
  if (tensor.is_contiguous()) return;
  throw ShapeError(fmt::format("{}: '{}' of shape {} is not contiguous. Call contiguous() first.",
                               operation, name, tensor.shape().str()));
}

/// On the host, tensors of several devices are welcome: they are all the host's memory.
void expect_same_memory(const char* operation, const Tensor& input, const Tensor& output,
                        const char* input_name = "input", const char* output_name = "output") {
  const DeviceKind kind = input.device().kind();
  if (kind == output.device().kind() && !has_streams(kind)) return;
  if (input.device() == output.device()) return;
  throw ShapeError(fmt::format("{}: '{}' is on {}, '{}' on {}{}; copy one with to()", operation,
                               input_name, to_string(kind), output_name,
                               kind == output.device().kind() ? "another " : "",
                               to_string(output.device().kind())));
}

void expect_alike(const char* operation, const Tensor& input, const Tensor& output) {
  expect_same_memory(operation, input, output);
  if (input.dtype() == output.dtype()) return;
  throw ShapeError(fmt::format("{}: 'input' is {}, 'output' is {}; convert one with to()",
                               operation, to_string(input.dtype()), to_string(output.dtype())));
}

/// @param why  the expected number in words, with {} for each of `whys`.
template <class... Whys>
void expect_numel(const char* operation, const char* name, const Tensor& tensor,
                  std::size_t expected, fmt::format_string<const Whys&...> why,
                  const Whys&... whys) {
  if (tensor.numel() == expected) return;
  throw ShapeError(fmt::format("{}: '{}' has {} elements, expected {}: {}", operation, name,
                               tensor.numel(), expected, fmt::format(why, whys...)));
}

void expect_averageable(const char* operation, const Tensor& tensor, ReduceOp op) {
  if (op != ReduceOp::kAverage || tensor.dtype() != DType::kI32) return;
  throw ShapeError(fmt::format(
      "{}: an average of i32 is not exact. Reduce with sum and divide, or use floats.", operation));
}

std::size_t row_size(const Tensor& tensor) {
  const std::size_t rows = tensor.shape().rank() == 0 ? 1 : tensor.size(0);
  if (rows > 0) return tensor.numel() / rows;
  std::size_t row = 1;
  for (std::size_t d = 1; d < tensor.shape().rank(); ++d) row *= tensor.size(static_cast<int>(d));
  return row;
}

Chunks row_chunks(const char* name, const Tensor& tensor, std::span<const std::size_t> rows,
                  int size) {
  std::vector<std::size_t> counts;
  for (const std::size_t r : rows) counts.push_back(r * row_size(tensor));
  if (rows.size() != static_cast<std::size_t>(size)) {
    throw ShapeError(fmt::format(
        "all_to_all_v: found {} counts, expected one for each of the {} ranks", rows.size(), size));
  }
  Chunks chunks = Chunks::of(counts);
  expect_numel("all_to_all_v", name, tensor, chunks.whole().size(), "the sum of its rows");
  return chunks;
}

void expect_root(const char* operation, int root, int size) {
  if (root >= 0 && root < size) return;
  throw ShapeError(fmt::format("{}: there is no rank {} in this group: its ranks are 0 to {}",
                               operation, root, size - 1));
}

CollectiveCall make_call(OpKind kind, const Tensor& input, const Tensor& output, std::size_t count,
                         ReduceOp op = ReduceOp::kSum, int root = 0) {
  const Tensor& given = input.defined() ? input : output;
  return {.info = {.kind = kind,
                   .communicator = {},
                   .communicator_id = 0,
                   .sequence = 0,
                   .count = count,
                   .dtype = given.dtype(),
                   .device = given.device().kind(),
                   .op = op,
                   .root = root,
                   .label = {}},
          .input = input,
          .output = output,
          .sent = Chunks::even({0, count}, 1),
          .received = Chunks::even({0, count}, 1)};
}

Chunks equal_chunks(int size, std::size_t each) {
  return Chunks::of(std::vector<std::size_t>(static_cast<std::size_t>(size), each));
}

/// The checks and the call of an operation in which each member's part is one chunk of a whole.
struct Parts {
  const char* name;
  const Chunks& chunks;
  Member member;

  void expect_whole(const char* tensor_name, const Tensor& tensor) const {
    expect_contiguous(name, tensor_name, tensor);
    expect_numel(name, tensor_name, tensor, chunks.whole().size(), "the chunks of all {} ranks",
                 member.size);
  }
  void expect_part(const char* tensor_name, const Tensor& tensor) const {
    expect_contiguous(name, tensor_name, tensor);
    expect_numel(name, tensor_name, tensor, chunks[member.rank].size(), "chunk {} of {}",
                 member.rank, member.size);
  }
  /// In place means: the part is this member's chunk of the whole, not some other piece of it.
  void expect_in_place_or_apart(const char* part_name, const Tensor& part, const char* whole_name,
                                const Tensor& whole) const {
    const Range own = chunks[member.rank];
    const std::byte* const place = memory_of(whole).data() + own.begin * size_of(whole.dtype());
    if (!overlap(part, whole) || memory_of(part).data() == place) return;
    throw ShapeError(
        fmt::format("{}: '{}' lies in '{}', but is not its chunk {}, which is [{}, {}). Give that "
                    "chunk to work in place, or memory of its own.",
                    name, part_name, whole_name, member.rank, own.begin, own.end));
  }
};

void expect_apart(const char* operation, const char* one_name, const Tensor& one,
                  const char* other_name, const Tensor& other) {
  if (!overlap(one, other)) return;
  throw ShapeError(fmt::format("{}: '{}' and '{}' have memory in common; it does not work in place",
                               operation, one_name, other_name));
}

}  // namespace

CollectiveCall broadcast(const Tensor& data, int root, Member member) {
  expect_contiguous("broadcast", "data", data);
  expect_root("broadcast", root, member.size);
  return make_call(OpKind::kBroadcast, data, data, data.numel(), ReduceOp::kSum, root);
}

CollectiveCall reduce(const Tensor& data, int root, ReduceOp op, Member member) {
  expect_contiguous("reduce", "data", data);
  expect_root("reduce", root, member.size);
  expect_averageable("reduce", data, op);
  return make_call(OpKind::kReduce, data, member.rank == root ? data : Tensor{}, data.numel(), op,
                   root);
}

CollectiveCall all_reduce(const Tensor& data, ReduceOp op) {
  expect_contiguous("all_reduce", "data", data);
  expect_averageable("all_reduce", data, op);
  return make_call(OpKind::kAllReduce, data, data, data.numel(), op);
}

CollectiveCall gather(const Tensor& input, const Tensor& output, int root, Member member) {
  expect_contiguous("gather", "input", input);
  const Chunks chunks = equal_chunks(member.size, input.numel());
  const Parts parts{"gather", chunks, member};
  expect_root("gather", root, member.size);
  const bool is_root = member.rank == root;
  if (is_root) {
    parts.expect_whole("output", output);
    expect_alike("gather", input, output);
    parts.expect_in_place_or_apart("input", input, "output", output);
  }
  CollectiveCall call = make_call(OpKind::kGather, input, is_root ? output : Tensor{},
                                  chunks.whole().size(), ReduceOp::kSum, root);
  call.received = chunks;
  return call;
}

CollectiveCall scatter(const Tensor& input, const Tensor& output, int root, Member member) {
  expect_contiguous("scatter", "output", output);
  const Chunks chunks = equal_chunks(member.size, output.numel());
  const Parts parts{"scatter", chunks, member};
  expect_root("scatter", root, member.size);
  const bool is_root = member.rank == root;
  if (is_root) {
    parts.expect_whole("input", input);
    expect_alike("scatter", input, output);
    parts.expect_in_place_or_apart("output", output, "input", input);
  }
  CollectiveCall call = make_call(OpKind::kScatter, is_root ? input : Tensor{}, output,
                                  chunks.whole().size(), ReduceOp::kSum, root);
  call.sent = chunks;
  return call;
}

CollectiveCall all_gather(const Tensor& input, const Tensor& output, Member member) {
  expect_contiguous("all_gather", "output", output);
  const Chunks chunks = Chunks::even({0, output.numel()}, member.size);
  const Parts parts{"all_gather", chunks, member};
  parts.expect_part("input", input);
  expect_alike("all_gather", input, output);
  parts.expect_in_place_or_apart("input", input, "output", output);
  CollectiveCall call = make_call(OpKind::kAllGather, input, output, chunks.whole().size());
  call.received = chunks;
  return call;
}

CollectiveCall reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op,
                              Member member) {
  expect_contiguous("reduce_scatter", "input", input);
  const Chunks chunks = Chunks::even({0, input.numel()}, member.size);
  const Parts parts{"reduce_scatter", chunks, member};
  parts.expect_part("output", output);
  expect_alike("reduce_scatter", input, output);
  parts.expect_in_place_or_apart("output", output, "input", input);
  expect_averageable("reduce_scatter", input, op);
  CollectiveCall call = make_call(OpKind::kReduceScatter, input, output, chunks.whole().size(), op);
  call.sent = chunks;
  return call;
}

CollectiveCall all_to_all(const Tensor& input, const Tensor& output, Member member) {
  expect_contiguous("all_to_all", "input", input);
  expect_contiguous("all_to_all", "output", output);
  expect_alike("all_to_all", input, output);
  expect_apart("all_to_all", "input", input, "output", output);
  expect_numel("all_to_all", "output", output, input.numel(), "as many as 'input'");
  if (input.numel() % static_cast<std::size_t>(member.size) != 0) {
    throw ShapeError(
        fmt::format("all_to_all: {} elements do not divide into {} equal parts; all_to_all_v takes "
                    "unequal ones",
                    input.numel(), member.size));
  }
  CollectiveCall call = make_call(OpKind::kAllToAll, input, output, input.numel());
  call.sent = Chunks::even({0, input.numel()}, member.size);
  call.received = call.sent;
  return call;
}

CollectiveCall all_to_all_v(const Tensor& input, std::span<const std::size_t> send_rows,
                            const Tensor& output, std::span<const std::size_t> receive_rows,
                            Member member) {
  expect_contiguous("all_to_all_v", "input", input);
  expect_contiguous("all_to_all_v", "output", output);
  expect_alike("all_to_all_v", input, output);
  expect_apart("all_to_all_v", "input", input, "output", output);
  // Members' totals differ by nature: no count that all could compare.
  CollectiveCall call = make_call(OpKind::kAllToAll, input, output, 0);
  call.sent = row_chunks("input", input, send_rows, member.size);
  call.received = row_chunks("output", output, receive_rows, member.size);
  return call;
}

CollectiveCall barrier(const Tensor& element) {
  return make_call(OpKind::kBarrier, {}, element, 0);
}

OperationInfo message(OpKind kind, const Tensor& data, int peer, Member member) {
  const char* name = kind == OpKind::kSend ? "send" : "recv";
  expect_contiguous(name, "data", data);
  expect_root(name, peer, member.size);
  return make_call(kind, data, data, data.numel(), ReduceOp::kSum, peer).info;
}

void expect_channel(OpKind kind, int channel) {
  if (channel >= 0 && channel < kShiftChannel) return;
  throw ConfigError(fmt::format("{}: there is no channel {}: channels are 0 to {}", to_string(kind),
                                channel, kShiftChannel - 1));
}

void expect_shift(const Tensor& send, const Tensor& receive) {
  expect_contiguous("ring_shift", "send", send);
  expect_contiguous("ring_shift", "receive", receive);
  expect_same_memory("ring_shift", send, receive, "send", "receive");
  expect_apart("ring_shift", "send", send, "receive", receive);
}

}  // namespace ultra::comm::calls
