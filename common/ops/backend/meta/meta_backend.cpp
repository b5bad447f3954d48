// The operations of a device that computes nothing: those of devices with streams, without what their
// kernels need beside the operands, and with what is known of each beyond its bytes.

#include "common/base/numeric.hpp"
#include "common/gpu/meta/meta_streams.hpp"
#include "common/ops/backend/gpu/kernel_backend.hpp"
#include "common/ops/backend/gpu/operands.hpp"

namespace ultra::ops::gpu {
namespace {

using ultra::gpu::TapedWork;
using ultra::gpu::WorkKind;

/// Writes an operation down; say(work) tells more of it than the bytes of its tensors.
template <class Say>
void note(std::string_view operation, std::initializer_list<Tensor> reads,
          std::initializer_list<Tensor> writes, const Say& say) {
  const auto launched = launch(operation, reads, writes);
  auto& streams = static_cast<ultra::gpu::MetaStreams&>(writes.begin()->device().streams());
  if (TapedWork* work = streams.under_way(ultra::gpu::current_role())) say(*work);
}

/// Bytes of what a result that is added to held before.
std::size_t bytes_before(const Tensor& result, Write write) {
  return write == Write::kAccumulate ? result.nbytes() : 0;
}

/// Bytes of so many rows of a matrix.
std::size_t bytes_of_rows(std::size_t rows, const Tensor& matrix) {
  return rows * matrix.size(1) * size_of(matrix.dtype());
}

/// Pairs of a query and a key that it sees, in one sequence.
/// @param first_seen  of the sequence; empty: each query sees the first key.
std::size_t pairs_of_sequence(const AttentionOptions& options,
                              std::span<const std::int32_t> first_seen) {
  const auto keys = options.key_positions;
  std::size_t pairs = 0;
  std::size_t begin = 0;
  std::size_t end = options.mask == Mask::kNone ? keys.size() : 0;
  for (std::size_t q = 0; q < options.query_positions.size(); ++q) {  // all positions ascend
    while (end < keys.size() && keys[end] <= options.query_positions[q]) ++end;
    while (!first_seen.empty() && begin < keys.size() && keys[begin] < first_seen[q]) ++begin;
    pairs += end > begin ? end - begin : 0;
  }
  return pairs;
}

std::size_t pairs_of_batch(std::size_t batch, const AttentionOptions& options) {
  if (options.first_seen.empty()) return batch * pairs_of_sequence(options, {});
  const std::size_t queries = options.query_positions.size();
  std::size_t pairs = 0;
  for (std::size_t b = 0; b < batch; ++b) {
    pairs += pairs_of_sequence(options, options.first_seen.subspan(b * queries, queries));
  }
  return pairs;
}

/// The lists that kernels read on the device, where there are some.
struct SeenLists {
  SeenLists(const Device& device, const AttentionOptions& options)
      : query(device, options.query_positions), key(device, options.key_positions) {
    if (!options.first_seen.empty()) first = upload(device, options.first_seen);
  }
  DevicePositions query;
  DevicePositions key;
  Tensor first;
};

/// @param products  of a pair of head_dim elements each, per pair that is seen: 2 forward, 4 backward.
/// @param again     of these products, which a kernel that keeps no scores computes once more.
auto attention_of(const Tensor& query, const Tensor& key, const AttentionOptions& options,
                  double products, double again) {
  return [&query, &key, &options, products, again](TapedWork& work) {
    const std::size_t batch = query.size(0);
    const std::size_t heads = query.size(2);
    work.kind = WorkKind::kAttention;
    work.count = batch * heads;
    work.m = query.size(1);
    work.k = query.size(3);
    work.n = key.size(1);
    work.element_bytes = size_of(query.dtype());
    const double product = 2 * real(work.k) * real(pairs_of_batch(batch, options)) * real(heads);
    work.flop = products * product;
    work.flop_again = again * product;
  };
}

class MetaBackend final : public KernelBackend {
 public:
  void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
              Transpose transpose_b, Write write) const override;
  void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const override;
  void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write, const Tensor& d_y,
                         const Tensor& x, const Tensor& weight,
                         const Tensor& reciprocal_rms) const override;
  void rope(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
            Rotation rotation) const override;
  void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                 const Tensor& value, const AttentionOptions& options) const override;
  void attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                          const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& output, const Tensor& log_sum_exp,
                          const AttentionOptions& options) const override;
  void embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                 std::size_t first_token) const override;
  void embedding_backward(const Tensor& d_part, const Tensor& d_output, const Tensor& tokens,
                          std::size_t first_token) const override;
  void cross_entropy_into(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                          double normalizer, Write write, double z_loss) const override;
};

void MetaBackend::matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                         Transpose transpose_b, Write write) const {
  if (out.numel() == 0) return;
  note("matmul", {a, b}, {out}, [&](TapedWork& work) {
    const std::size_t depth = transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
    const std::size_t rows = out.size(0);
    const std::size_t columns = out.size(1);
    work.kind = WorkKind::kProduct;
    work.element_bytes = size_of(a.dtype());
    work.flop = 2 * real(rows) * real(depth) * real(columns);
    work.read_bytes += bytes_before(out, write);
    if (transpose_a == Transpose::kYes) {  // d_y^T x
      work.m = depth, work.k = columns, work.n = rows;
    } else if (transpose_b == Transpose::kNo) {  // d_y W
      work.m = rows, work.k = columns, work.n = depth;
    } else {  // x W^T
      work.m = rows, work.k = depth, work.n = columns;
    }
  });
}

void MetaBackend::sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const {
  note("sum_of_squares", {x}, {sum},
       [&](TapedWork& work) { work.read_bytes += bytes_before(sum, write); });
}

void MetaBackend::rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write,
                                    const Tensor& d_y, const Tensor& x, const Tensor& weight,
                                    const Tensor& reciprocal_rms) const {
  note("rms_norm_backward", {d_y, x, weight, reciprocal_rms}, {d_x, d_weight},
       [&](TapedWork& work) { work.read_bytes += bytes_before(d_weight, write); });
}

void MetaBackend::rope(const Tensor& x, const RopeTable& table,
                       std::span<const std::int32_t> positions, Rotation) const {
  const DevicePositions of_rows(x.device(), positions);
  note("rope", {x, table.cosines(), table.sines(), of_rows.list()}, {x}, [&](TapedWork& work) {
    work.read_bytes = x.nbytes() + 2 * bytes_of_rows(positions.size(), table.cosines());
  });
}

void MetaBackend::attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                            const Tensor& value, const AttentionOptions& options) const {
  const SeenLists seen(query.device(), options);
  note("attention", {query, key, value, seen.first, seen.query.list(), seen.key.list()},
       {result.output, result.log_sum_exp}, attention_of(query, key, options, 2, 0));
}

void MetaBackend::attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                                     const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& output, const Tensor& log_sum_exp,
                                     const AttentionOptions& options) const {
  const SeenLists seen(query.device(), options);
  note("attention_backward",
       {d_output, query, key, value, output, log_sum_exp, seen.first, seen.query.list(),
        seen.key.list()},
       {gradients.d_query, gradients.d_key, gradients.d_value},
       attention_of(query, key, options, 4, 1));
}

void MetaBackend::embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                            std::size_t) const {
  note("embedding", {part, tokens}, {out}, [&](TapedWork& work) {
    work.read_bytes = tokens.nbytes() + bytes_of_rows(tokens.numel(), part);
  });
}

void MetaBackend::embedding_backward(const Tensor& d_part, const Tensor& d_output,
                                     const Tensor& tokens, std::size_t) const {
  note("embedding_backward", {d_output, tokens, d_part}, {d_part}, [&](TapedWork& work) {
    const std::size_t rows = bytes_of_rows(tokens.numel(), d_part);
    work.read_bytes = d_output.nbytes() + tokens.nbytes() + rows;
    work.written_bytes = rows;
  });
}

void MetaBackend::cross_entropy_into(const Tensor& loss, const Tensor& logits,
                                     const Tensor& targets, double, Write write, double) const {
  note("cross_entropy", {logits, targets}, {logits, loss},
       [&](TapedWork& work) { work.read_bytes += bytes_before(loss, write); });
}

}  // namespace
}  // namespace ultra::ops::gpu

namespace ultra::ops {

const Backend& meta_backend() {
  static const gpu::MetaBackend backend;
  return backend;
}

}  // namespace ultra::ops
