#include "chapters/05_tensor_sequence_parallel/scaling/micro_batch_work.hpp"

#include <utility>

namespace ultra::tensor_parallel {
namespace {

using memory::BatchShape;
using memory::TransformerShape;

constexpr std::size_t kLossBytes = 4;  // fp32

// Arrays of tokens x h elements that are read or written; see the header.
constexpr double kNormArrays = 2 + 3;
constexpr double kResidualArrays = 3 + 3;

double real(std::size_t value) { return static_cast<double>(value); }

/// Weights of one rank's matrices.
struct LocalWeights {
  double qkv = 0;          ///< query, key and value projections of a block
  double output = 0;       ///< attention's output projection
  double ffn_columns = 0;  ///< the feed-forward part's first matrix, or gate and up
  double ffn_rows = 0;     ///< its last matrix
  double head = 0;         ///< the vocabulary's rows, padded

  double block() const { return qkv + output + ffn_columns + ffn_rows; }
};

LocalWeights local_weights(const TransformerShape& model, const TensorParallelLayout& layout) {
  const double h = real(model.hidden_size);
  const double width = real(layout.local_heads(model.num_heads) * model.head_dim());
  const double kv_width = real(layout.local_kv_heads(model.num_kv_heads) * model.head_dim());
  const double f = real(model.ffn_hidden_size / layout.ranks());
  const double column_matrices = model.kind == memory::BlockKind::kLlama ? 2.0 : 1.0;
  return {.qkv = h * (width + 2.0 * kv_width),
          .output = width * h,
          .ffn_columns = column_matrices * h * f,
          .ffn_rows = f * h,
          .head = h * real(layout.local_vocab_size(model.vocab_size))};
}

double product_flop(const TransformerShape& model, const BatchShape& batch,
                    const LocalWeights& weights, const TensorParallelLayout& layout) {
  const double layers = real(model.num_layers);
  const double tokens = real(batch.tokens());
  const double matrices = 2.0 * tokens * (layers * weights.block() + weights.head);
  const double width = real(layout.local_heads(model.num_heads) * model.head_dim());
  const double attention = 2.0 * tokens * real(batch.seq_len) * width * layers;  // causal: half
  return 3.0 * (matrices + attention);
}

double elementwise_bytes(const TransformerShape& model, const BatchShape& batch,
                         std::size_t element_bytes, const TensorParallelLayout& layout) {
  const double arrays =
      real(model.num_layers) * 2.0 * (kNormArrays + kResidualArrays) + kNormArrays;
  const double tokens = real(batch.size * layout.local_seq_len(batch.seq_len));
  return arrays * tokens * real(model.hidden_size) * real(element_bytes);
}

/// Collects exchanges of b s h elements.
class Exchanges {
 public:
  Exchanges(std::size_t count, std::size_t element_bytes)
      : count_(count), element_bytes_(element_bytes) {}

  void add(std::string_view what, OpKind op, std::size_t times, double concurrent_flop = 0) {
    list_.push_back({.what = what,
                     .exchange = {.op = op, .count = count_, .element_bytes = element_bytes_},
                     .times = times,
                     .concurrent_flop = concurrent_flop});
  }

  void add_loss(std::size_t tokens) {
    const auto all_reduce = [](std::size_t count) {
      return Exchange{.op = OpKind::kAllReduce, .count = count, .element_bytes = kLossBytes};
    };
    list_.push_back({.what = "loss: maxima", .exchange = all_reduce(tokens), .times = 1});
    list_.push_back({.what = "loss: sums", .exchange = all_reduce(2 * tokens), .times = 1});
  }

  [[nodiscard]] std::vector<RepeatedExchange> list() && { return std::move(list_); }

 private:
  std::size_t count_;
  std::size_t element_bytes_;
  std::vector<RepeatedExchange> list_;
};

/// FLOP of the weight gradients beside which an input gradient may travel.
struct Concurrent {
  double qkv = 0, ffn = 0, head = 0;
};

// [region exchanges]
void add_all_reduces(std::size_t layers, const Concurrent& flop, std::size_t tokens,
                     Exchanges& exchanges) {
  exchanges.add("embedding forward", OpKind::kAllReduce, 1);
  exchanges.add("blocks forward: outputs of rows", OpKind::kAllReduce, 2 * layers);
  exchanges.add_loss(tokens);
  exchanges.add("head backward: input gradient", OpKind::kAllReduce, 1, flop.head);
  exchanges.add("blocks backward: attention's input gradients", OpKind::kAllReduce, layers,
                flop.qkv);
  exchanges.add("blocks backward: feed-forward input gradients", OpKind::kAllReduce, layers,
                flop.ffn);
}

void add_gathers_and_scatters(std::size_t layers, const Concurrent& flop, std::size_t tokens,
                              Exchanges& exchanges) {
  exchanges.add("embedding forward", OpKind::kReduceScatter, 1);
  exchanges.add("blocks forward: inputs of columns", OpKind::kAllGather, 2 * layers);
  exchanges.add("blocks forward: outputs of rows", OpKind::kReduceScatter, 2 * layers);
  exchanges.add("head forward: input", OpKind::kAllGather, 1);
  exchanges.add_loss(tokens);
  exchanges.add("head backward: input again", OpKind::kAllGather, 1);
  exchanges.add("head backward: input gradient", OpKind::kReduceScatter, 1, flop.head);
  exchanges.add("blocks backward: gradients of rows", OpKind::kAllGather, 2 * layers);
  exchanges.add("blocks backward: inputs of columns again", OpKind::kAllGather, 2 * layers);
  exchanges.add("blocks backward: attention's input gradients", OpKind::kReduceScatter, layers,
                flop.qkv);
  exchanges.add("blocks backward: feed-forward input gradients", OpKind::kReduceScatter, layers,
                flop.ffn);
  exchanges.add("embedding backward", OpKind::kAllGather, 1);
}
// [/region]

}  // namespace

MicroBatchWork micro_batch_work(const TransformerShape& model, const BatchShape& batch,
                                std::size_t element_bytes, const TensorParallelLayout& layout) {
  const LocalWeights weights = local_weights(model, layout);
  MicroBatchWork work{.product_flop = product_flop(model, batch, weights, layout),
                      .elementwise_bytes = elementwise_bytes(model, batch, element_bytes, layout),
                      .exchanges = {}};
  if (layout.tp == 1) return work;
  const double flop = 2.0 * real(batch.tokens());  // of a weight's gradient
  const Concurrent concurrent{
      .qkv = flop * weights.qkv, .ffn = flop * weights.ffn_columns, .head = flop * weights.head};
  Exchanges exchanges(batch.tokens() * model.hidden_size, element_bytes);
  (layout.splits_sequences() ? add_gathers_and_scatters : add_all_reduces)(
      model.num_layers, concurrent, batch.tokens(), exchanges);
  work.exchanges = std::move(exchanges).list();
  return work;
}

}  // namespace ultra::tensor_parallel
